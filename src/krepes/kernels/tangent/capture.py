"""The per-sample gradients of a scalar network, as factors: no P-dimensional gradient is formed.

    f(x) scalar,   df/dW of a linear layer = sum_t g_t a_t^T,     a_t its inputs, g_t = df / d(its outputs), t positions

One forward and one backward pass over a batch give a and g of every layer for all samples at once, because in eval
mode no sample sees another. What counts as a layer: Linear, Conv2d, Embedding, LayerNorm, GroupNorm and BatchNorm; a
layer that is called several times has the positions of all calls. An embedding that all samples share, such as that of
the positions 0 .. T-1, is repeated for every sample, so that each has a gradient of its own. Parameters outside these
layers are found and named.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from krepes.kernels.tangent import layers
from krepes.networks.tokens import EMBEDDINGS, looked_up

NOT_FACTORED = (
    "is not that of a Linear, Conv2d, Embedding or norm layer that is called on samples in order, so its gradient "
    "cannot be factored. Use EmpiricalNTK(method='full'), or leave it out with parameters=[...]."
)


class NotFactoredError(ValueError):
    """The gradient of a parameter has no factors."""


@dataclass(frozen=True)
class Call:
    """One call of a layer: what went in, what came out, and the version of that."""

    key: tuple[str, int]  # name of the layer, number of the call
    layer: nn.Module
    inputs: Tensor
    output: Tensor
    version: int


@dataclass
class Gradients:
    """The gradient of every sample of a batch, in parts.

    Attributes
    ----------
    factors : dict of Factors
        Gradients of weight matrices with their biases, by the name of the weight.
    vectors : dict of Tensors of shape (b, size)
        Gradients of all other parameters, by name.
    """

    factors: dict[str, layers.Factors]
    vectors: dict[str, Tensor]

    def of_first(self) -> dict[str, Tensor]:
        """The gradient of the first sample, by parameter name, flat."""
        found = {name: value[0] for name, value in self.vectors.items()}
        for name, factors in self.factors.items():
            first = replace(factors, A=factors.A[:1], G=factors.G[:1], bias=None)
            found[name] = first.explicit()[0]
            if factors.bias is not None:
                found[factors.bias] = first.G.sum(2).flatten()
        return found


class ScalarNetwork:
    """A network with one output per sample, frozen in eval mode; a private copy of the given module.

    Parameters
    ----------
    module : torch.nn.Module
        Rows -> (b, features), or (b,) or (b, 1).
    head : Tensor of shape (features,), optional
        The weights of a linear output on the features; without it the module has one output.
    parameters : list of str or "trainable", optional
        Patterns of parameter names that count, such as "layer4.*"; the head is "head.weight". All by default,
        "trainable": those that are not frozen.
    tokens : bool, default=False
        Rows are numbers of tokens, and go into the module as integers.
    """

    def __init__(
        self,
        module: nn.Module,
        head: Tensor | None = None,
        parameters: Sequence[str] | str | None = None,
        tokens: bool = False,
    ):
        check_frozen(module)
        self.module = copy.deepcopy(module).eval()
        self.head, self.tokens = head, tokens
        self.names = self._chosen(parameters)
        for parameter in self.module.parameters():
            parameter.requires_grad_(True)
        self.copy_outputs = False
        # lookups that do not depend on the sample
        self.shared: set[tuple[str, int]] | None = None

    def _chosen(self, patterns: Sequence[str] | str | None) -> set[str]:
        every = [name for name, _ in self.module.named_parameters()]
        every += ["head.weight"] if self.head is not None else []
        if patterns is None:
            return set(every)
        if patterns == "trainable":
            frozen = {name for name, value in self.module.named_parameters() if not value.requires_grad}
            return set(every) - frozen
        if isinstance(patterns, str):
            raise ValueError(f"parameters={patterns!r}: expected a list of patterns, 'trainable' or None.")
        found = {pattern: fnmatch.filter(every, pattern) for pattern in patterns}
        idle = [pattern for pattern, names in found.items() if not names]
        if idle or not found:
            raise ValueError(
                f"parameters={list(patterns)}: {', '.join(map(repr, idle)) or 'they'} match none of the network's "
                f"parameters, which are {', '.join(every[:20])}{', ...' if len(every) > 20 else ''}."
            )
        return {name for names in found.values() for name in names}

    def to(self, dtype: torch.dtype, device: torch.device) -> ScalarNetwork:
        """A copy in another precision or place."""
        result = copy.copy(self)
        result.module = copy.deepcopy(self.module).to(dtype=dtype, device=device)
        result.head = None if self.head is None else self.head.to(dtype=dtype, device=device)
        return result

    @property
    def n_parameters(self) -> int:
        sizes = {name: value.numel() for name, value in self.module.named_parameters()}
        sizes["head.weight"] = 0 if self.head is None else self.head.numel()
        return sum(sizes[name] for name in self.names)

    def features(self, X: Tensor) -> Tensor:
        """The output of the module, (b, features)."""
        Z = looked_up(self.module, X) if self.tokens else self.module(X)
        return Z.reshape(len(Z), -1)

    def scalar(self, Z: Tensor) -> Tensor:
        """The scalar of every sample, (b,), from its features."""
        if self.head is not None:
            return Z @ self.head.to(Z)
        if Z.shape[1] != 1:
            raise ValueError(
                f"The network has {Z.shape[1]} outputs per sample; a tangent kernel needs one. Give head='random'."
            )
        return Z[:, 0]

    def gradients(self, X: Tensor) -> Gradients:
        """The parts of every sample's gradient."""
        with torch.enable_grad():
            Z, calls = self._recorded(X)
            total = self.scalar(Z).sum()
        outputs = [call.output for call in calls]
        found = torch.autograd.grad(total, outputs, allow_unused=True) if outputs else []
        parts = Gradients({}, {})
        with torch.no_grad():
            for call, g in zip(calls, found):
                g = torch.zeros_like(call.output) if g is None else g
                self._add(parts, call.key[0], call.layer, call.inputs, g, len(X))
            if "head.weight" in self.names:
                parts.vectors["head.weight"] = Z.detach()
        return parts

    def _recorded(self, X: Tensor) -> tuple[Tensor, list[Call]]:
        """The features, and what went into and came out of every layer."""
        if self.shared is None:
            self.shared = self._shared_lookups(X[:1])
        calls: list[Call] = []
        Z = self._hooked(X, layers.LAYERS, _Recorder(calls, self.copy_outputs, self.shared, len(X)))
        if not self.copy_outputs and any(call.output._version > call.version for call in calls):
            # an activation in place has overwritten what the gradient is taken of
            self.copy_outputs = True
            return self._recorded(X)
        return Z, calls

    def _hooked(self, X: Tensor, kinds: tuple[type[nn.Module], ...], recorder: _Recorder) -> Tensor:
        """The features of X, while a recorder looks at all layers of some kinds whose parameters count."""
        handles = [
            layer.register_forward_hook(recorder.of(name))
            for name, layer in self.module.named_modules()
            if isinstance(layer, kinds)
            and any(f"{name}.{p}".lstrip(".") in self.names for p, _ in layer.named_parameters())
        ]
        try:
            return self.features(X)
        finally:
            for handle in handles:
                handle.remove()

    def _shared_lookups(self, x: Tensor) -> set[tuple[str, int]]:
        """The calls of embeddings, (layer, number of the call), that get as much for two samples as for one."""
        if not any(isinstance(layer, EMBEDDINGS) for layer in self.module.modules()):
            return set()
        shapes = []
        for rows in (x, torch.cat([x, x])):
            calls: list[Call] = []
            recorder = _Recorder(calls, False, set(), len(rows))
            with torch.no_grad():
                self._hooked(rows, EMBEDDINGS, recorder)
            shapes.append({call.key: call.inputs.shape for call in calls})
        return {call for call, shape in shapes[0].items() if shapes[1].get(call) == shape}

    def _add(self, parts: Gradients, name: str, layer: nn.Module, inputs: Tensor, g: Tensor, b: int) -> None:
        prefix = f"{name}." if name else ""
        weight, bias = f"{prefix}weight", f"{prefix}bias"
        if isinstance(layer, layers.NORMS):
            scale, shift = layers.norm_gradients(layer, inputs, g, b)
            new = {weight: scale, bias: shift}
        elif layers.is_depthwise(layer):
            new = {weight: layers.depthwise_gradients(layer, inputs, g), bias: g.sum((2, 3))}
        else:
            factors = _layer_factors(layer, inputs, g, b)
            new = {}
            if weight in self.names:
                counts = bias in self.names and getattr(layer, "bias", None) is not None
                factors.bias = bias if counts else None
                parts.factors[weight] = layers.joined(parts.factors.get(weight), factors)
            else:
                new = {bias: factors.G.sum(2).flatten(1)}
        own = {f"{prefix}{p}" for p, _ in layer.named_parameters(recurse=False)}
        for key, value in new.items():
            if key in self.names and key in own:
                parts.vectors[key] = parts.vectors[key] + value if key in parts.vectors else value

    def check_complete(self, X: Tensor) -> None:
        """Compare the parts with the gradient that autograd forms for one sample; name what is missing."""
        parts = self._parts_of_first(X)
        kept = {name: parameter for name, parameter in self.module.named_parameters() if name in self.names}
        if not kept:
            return  # the head alone
        with torch.enable_grad():
            expected = torch.autograd.grad(
                self.scalar(self.features(X[:1]))[0], list(kept.values()), allow_unused=True
            )
        for (name, parameter), value in zip(kept.items(), expected):
            true = torch.zeros_like(parameter) if value is None else value.to_dense()
            found = parts.get(name, torch.zeros_like(true).flatten())
            allowed = 1e-3 * true.norm() + 1e-5 * sum(v.to_dense().norm() for v in expected if v is not None)
            if found.numel() != true.numel() or (found - true.flatten()).norm() > allowed:
                raise NotFactoredError(f"The parameter {name!r} of the network {NOT_FACTORED}")

    def _parts_of_first(self, X: Tensor) -> dict[str, Tensor]:
        """The gradient of the first row, from a batch of two: what samples share would be seen twice."""
        try:
            return self.gradients(torch.cat([X[:1], X[:1]])).of_first()
        except RuntimeError as error:
            raise NotFactoredError(
                f"A layer works on something else than samples ({error}): one of its parameters {NOT_FACTORED}"
            ) from error


def _layer_factors(layer: nn.Module, inputs: Tensor, g: Tensor, b: int) -> layers.Factors:
    if isinstance(layer, nn.Conv2d):
        return layers.conv_factors(layer, inputs, g)
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        return layers.embedding_factors(layer, inputs, g)
    return layers.linear_factors(inputs, g, b)


def check_frozen(module: nn.Module) -> None:
    """Refuse BatchNorm that looks at its batch: samples see one another there, and none has a gradient of its own."""
    for name, layer in module.named_modules():
        if isinstance(layer, layers.BATCH_NORMS) and (layer.training or layer.running_var is None):
            remedy = "Call network.eval()" if layer.training else "It needs track_running_stats=True"
            raise ValueError(
                f"The BatchNorm layer {name!r} takes the statistics of its batch: no sample stands alone. {remedy}."
            )


@dataclass
class _Recorder:
    """What layers get and give, call after call."""

    calls: list[Call]
    copied: bool
    shared: set[tuple[str, int]]
    n_samples: int

    def of(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        count = 0

        def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            nonlocal count
            given = inputs[0].detach()
            if (name, count) in self.shared:
                n_axes = given.ndim
                given, output = (_repeated(part, n_axes, self.n_samples) for part in (given, output))
            self.calls.append(Call((name, count), layer, given, output, output._version))
            count += 1
            return output.clone() if self.copied else output

        return record


def _repeated(part: Tensor, n_axes: int, b: int) -> Tensor:
    """A part of all samples for each of b: (T, ...) or (1, T, ...), lookups of one or two axes, as (b, T, ...)."""
    return (part[None] if n_axes == 1 else part).expand(b, *part.shape[n_axes - 1 :])
