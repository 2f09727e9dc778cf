"""The per-sample gradients of a scalar network, as factors: no P-dimensional gradient is formed.

    f(x) scalar,   df/dW of a linear layer = sum_t g_t a_t^T,     a_t its inputs, g_t = df / d(its outputs), t positions

One forward and one backward pass over a batch give a and g of every layer for all samples at once, because in eval
mode no sample sees another. What counts as a layer: Linear, Conv2d, LayerNorm, GroupNorm and BatchNorm; a layer that is
called several times has the positions of all calls. Parameters outside these layers are found and named.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
NORMS = (nn.LayerNorm, nn.GroupNorm, *BATCH_NORMS)
LAYERS = (nn.Linear, nn.Conv2d, *NORMS)


Call = tuple[str, nn.Module, Tensor, Tensor, int]  # name, layer, inputs, output, version of the output


@dataclass
class Factors:
    """The gradient of one weight matrix of every sample: W' = sum_t G_t A_t^T in each of `groups` blocks.

    Attributes
    ----------
    A : Tensor of shape (b, groups, T, inputs)
    G : Tensor of shape (b, groups, T, outputs)
    bias : str, optional
        The name of the layer's bias where it counts, too: an input that is always 1.
    """

    A: Tensor
    G: Tensor
    bias: str | None = None

    @property
    def positions(self) -> int:
        return self.A.shape[2]

    @property
    def size(self) -> int:
        """Entries of the gradient of one sample."""
        return self.A.shape[1] * (self.A.shape[3] + (self.bias is not None)) * self.G.shape[3]

    def inputs(self) -> Tensor:
        """A, with a column of ones for the bias."""
        if self.bias is None:
            return self.A
        return torch.cat([self.A, self.A.new_ones(*self.A.shape[:3], 1)], dim=3)

    def explicit(self) -> Tensor:
        """The gradients themselves, (b, size)."""
        return (self.G.mT @ self.inputs()).flatten(1)

    def gram(self, other: Factors) -> Tensor:
        """Inner products of single positions of paired samples, (b, groups, T, T')."""
        products = self.A @ other.A.mT
        return (products if self.bias is None else products + 1) * (self.G @ other.G.mT)


@dataclass
class Gradients:
    """The gradient of every sample of a batch, in parts.

    Attributes
    ----------
    factors : dict of Factors
        Of weight matrices with their biases, by the name of the weight.
    vectors : dict of Tensors of shape (b, size)
        Of all other parameters, by name.
    """

    factors: dict[str, Factors]
    vectors: dict[str, Tensor]

    def of_first(self) -> dict[str, Tensor]:
        """The gradient of the first sample, by parameter name, flat."""
        found = {name: value[0] for name, value in self.vectors.items()}
        for name, factors in self.factors.items():
            first = Factors(factors.A[:1], factors.G[:1])
            found[name] = first.explicit()[0]
            if factors.bias is not None:
                found[factors.bias] = first.G.sum(2).flatten()
        return found


class ScalarNetwork:
    """A network with one output per sample, frozen in eval mode; a private copy of the module that is given.

    Parameters
    ----------
    module : torch.nn.Module
        Rows -> (b, features), or (b,) or (b, 1).
    head : Tensor of shape (features,), optional
        The weights of a linear output on the features; without it the module has one output.
    parameters : list of str, optional
        Patterns of parameter names that count, such as "layer4.*"; the head is "head.weight". All by default.
    """

    def __init__(
        self, module: nn.Module, head: Tensor | None = None, parameters: Sequence[str] | None = None
    ):
        check_frozen(module)
        self.module = copy.deepcopy(module).eval()
        for parameter in self.module.parameters():
            parameter.requires_grad_(True)
        self.head = head
        self.names = self._chosen(parameters)
        self.copy_outputs = False

    def _chosen(self, patterns: Sequence[str] | None) -> set[str]:
        every = [name for name, _ in self.module.named_parameters()]
        every += ["head.weight"] if self.head is not None else []
        if patterns is None:
            return set(every)
        chosen = {name for name in every if any(fnmatch.fnmatchcase(name, p) for p in patterns)}
        if not chosen:
            raise ValueError(
                f"parameters={list(patterns)} match none of the network's parameters: {', '.join(every[:20])}, ..."
            )
        return chosen

    @property
    def n_parameters(self) -> int:
        sizes = {name: value.numel() for name, value in self.module.named_parameters()}
        sizes["head.weight"] = 0 if self.head is None else self.head.numel()
        return sum(sizes[name] for name in self.names)

    def features(self, X: Tensor) -> Tensor:
        """The output of the module, (b, features)."""
        Z = self.module(X)
        return Z.reshape(len(Z), -1)

    def outputs(self, X: Tensor) -> Tensor:
        """The scalar of every sample, (b,)."""
        return self._scalar(self.features(X))

    def _scalar(self, Z: Tensor) -> Tensor:
        if self.head is not None:
            return Z @ self.head.to(Z)
        if Z.shape[1] != 1:
            raise ValueError(
                f"The network has {Z.shape[1]} outputs per sample; a tangent kernel needs one. "
                "Give head='random' to put a random output on them."
            )
        return Z[:, 0]

    def gradients(self, X: Tensor) -> Gradients:
        """The parts of every sample's gradient."""
        with torch.enable_grad():
            Z, calls = self._recorded(X)
            total = self._scalar(Z).sum()
        outputs = [output for _, _, _, output, _ in calls]
        found = torch.autograd.grad(total, outputs, allow_unused=True) if outputs else []
        parts = Gradients({}, {})
        with torch.no_grad():
            for (name, layer, inputs, output, _), g in zip(calls, found):
                g = torch.zeros_like(output) if g is None else g
                self._add(parts, name, layer, inputs, g, len(X))
            if "head.weight" in self.names:
                parts.vectors["head.weight"] = Z.detach()
        return parts

    def _recorded(self, X: Tensor) -> tuple[Tensor, list[Call]]:
        """The features, and what went into and came out of every layer."""
        calls: list[Call] = []
        handles = [
            layer.register_forward_hook(_recorder(name, calls, self.copy_outputs))
            for name, layer in self.module.named_modules()
            if isinstance(layer, LAYERS)
            and any(f"{name}.{p}".lstrip(".") in self.names for p, _ in layer.named_parameters())
        ]
        try:
            Z = self.features(X)
        finally:
            for handle in handles:
                handle.remove()
        if not self.copy_outputs and any(output._version > version for *_, output, version in calls):
            self.copy_outputs = True  # an activation in place has overwritten what the gradient is taken of
            return self._recorded(X)
        return Z, calls

    def _add(self, parts: Gradients, name: str, layer: nn.Module, inputs: Tensor, g: Tensor, b: int) -> None:
        prefix = f"{name}." if name else ""
        weight, bias = f"{prefix}weight", f"{prefix}bias"
        if isinstance(layer, NORMS):
            scale, shift = _norm_gradients(layer, inputs, g, b)
            new = {weight: scale, bias: shift}
        elif _is_depthwise(layer):
            new = {weight: _depthwise_gradients(layer, inputs, g), bias: g.sum((2, 3))}
        else:
            factors = (
                _conv_factors(layer, inputs, g)
                if isinstance(layer, nn.Conv2d)
                else _linear_factors(inputs, g, b)
            )
            new = {}
            if weight in self.names:
                factors.bias = bias if bias in self.names and layer.bias is not None else None
                parts.factors[weight] = _joined(parts.factors.get(weight), factors)
            else:
                new = {bias: factors.G.sum(2).flatten(1)}
        own = {f"{prefix}{p}" for p, _ in layer.named_parameters(recurse=False)}
        for key, value in new.items():
            if key in self.names and key in own:
                parts.vectors[key] = parts.vectors[key] + value if key in parts.vectors else value

    def check_complete(self, X: Tensor) -> None:
        """Compare the parts with the gradient that autograd forms for one sample; name what is missing."""
        parts = self.gradients(X[:1]).of_first()
        kept = {name: parameter for name, parameter in self.module.named_parameters() if name in self.names}
        with torch.enable_grad():
            expected = torch.autograd.grad(self.outputs(X[:1])[0], list(kept.values()), allow_unused=True)
        for (name, parameter), value in zip(kept.items(), expected):
            true = torch.zeros_like(parameter) if value is None else value
            found = parts.get(name, torch.zeros_like(true).flatten())
            allowed = 1e-3 * true.norm() + 1e-5 * sum(v.norm() for v in expected if v is not None)
            if found.numel() != true.numel() or (found - true.flatten()).norm() > allowed:
                raise ValueError(
                    f"The parameter {name!r} of the network is not the weight or bias of a Linear, Conv2d, LayerNorm, "
                    "GroupNorm or BatchNorm layer that is called as a module on samples in order, so its gradient "
                    "cannot be factored. Use EmpiricalNTK(method='full'), or leave it out with parameters=[...]."
                )


def check_frozen(module: nn.Module) -> None:
    """Refuse BatchNorm in training mode: there, samples see one another and no sample has a gradient of its own."""
    training = [
        name for name, layer in module.named_modules() if isinstance(layer, BATCH_NORMS) and layer.training
    ]
    if training:
        raise ValueError(
            f"The network's BatchNorm layers are in training mode ({training[0]!r} and {len(training) - 1} more): "
            "samples of a batch then influence one another and have no gradients of their own. Call network.eval()."
        )


def _recorder(name: str, calls: list[Call], copied: bool) -> Any:
    def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        calls.append((name, layer, inputs[0].detach(), output, output._version))
        return output.clone() if copied else output

    return record


def _linear_factors(inputs: Tensor, g: Tensor, b: int) -> Factors:
    """A linear layer on (b, ..., inputs): every position counts; a batch merged with positions is taken apart."""
    return Factors(inputs.reshape(b, 1, -1, inputs.shape[-1]), g.reshape(b, 1, -1, g.shape[-1]))


def _conv_factors(layer: nn.Conv2d, inputs: Tensor, g: Tensor) -> Factors:
    """A convolution is a linear layer on patches: T = output pixels, inputs = patch entries of a group."""
    b, groups = len(inputs), layer.groups
    inputs = _padded(layer, inputs)
    if layer.kernel_size == (1, 1):
        down, across = layer.stride
        patches = inputs[:, :, ::down, ::across].flatten(2)  # (b, C, T), mostly without a copy
    else:
        patches = functional.unfold(inputs, layer.kernel_size, layer.dilation, 0, layer.stride)
    A = patches.reshape(b, groups, -1, patches.shape[-1]).mT
    G = g.reshape(b, groups, -1, patches.shape[-1]).mT
    return Factors(A, G)


def _is_depthwise(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv2d) and layer.groups == layer.in_channels == layer.out_channels > 1


def _depthwise_gradients(layer: nn.Conv2d, inputs: Tensor, g: Tensor) -> Tensor:
    """df / dweight of a convolution of single channels, (b, channels k k): small, so formed at once, offset by offset."""
    inputs = _padded(layer, inputs)
    height, width = g.shape[2:]
    (down, across), (rows, columns) = layer.stride, layer.dilation
    found = g.new_empty(*g.shape[:2], *layer.kernel_size)
    for i in range(layer.kernel_size[0]):
        for j in range(layer.kernel_size[1]):
            top, left = i * rows, j * columns
            seen = inputs[:, :, top : top + down * (height - 1) + 1 : down]
            seen = seen[..., left : left + across * (width - 1) + 1 : across]
            found[:, :, i, j] = (seen * g).sum((2, 3))
    return found.flatten(1)


def _padded(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    padding, mode = layer._reversed_padding_repeated_twice, layer.padding_mode
    if not any(padding):
        return inputs
    return functional.pad(inputs, padding, "constant" if mode == "zeros" else mode)


def _norm_gradients(layer: Any, inputs: Tensor, g: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """df / dscale = sum of g times the normalised input, df / dshift = sum of g; both (b, channels)."""
    if isinstance(layer, BATCH_NORMS):  # normalised = (x - mean) / deviation, so x itself will do
        deviation = (layer.running_var + layer.eps).sqrt()
        shift, product = _sums(g), _sums(g, inputs)
        return (product - layer.running_mean * shift) / deviation, shift
    if isinstance(layer, nn.GroupNorm):
        normalised = functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
    else:
        normalised = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
        size = 1
        for n in layer.normalized_shape:
            size *= n
        return (g * normalised).reshape(b, -1, size).sum(1), g.reshape(b, -1, size).sum(1)
    return _sums(g, normalised), _sums(g)


def _sums(g: Tensor, factor: Tensor | None = None) -> Tensor:
    """Sums over the positions of every channel, of g or of g times another tensor, (b, channels)."""
    if g.ndim == 2:
        return g if factor is None else g * factor
    if factor is None:
        return g.flatten(2).sum(2)
    return torch.einsum("bct,bct->bc", g.flatten(2), factor.flatten(2))  # no product is formed


def _joined(before: Factors | None, new: Factors) -> Factors:
    """All positions of a layer that is called more than once."""
    if before is None:
        return new
    return Factors(torch.cat([before.A, new.A], dim=2), torch.cat([before.G, new.G], dim=2), new.bias)
