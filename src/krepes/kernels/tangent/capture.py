"""The per-sample gradients of a scalar network, as factors: no P-dimensional gradient is formed.

    f(x) scalar,   df/dW of a linear layer = sum_t g_t a_t^T,     a_t its inputs, g_t = df / d(its outputs), t positions

One forward and one backward pass over a batch give a and g of every layer for all samples at once, because in eval
mode no sample sees another. What counts as a layer: Linear, Conv2d, LayerNorm, GroupNorm and BatchNorm; a layer that is
called several times has the positions of all calls. Parameters outside these layers are found and named.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from krepes.kernels.tangent.layers import (
    BATCH_NORMS,
    LAYERS,
    NORMS,
    Factors,
    conv_factors,
    depthwise_gradients,
    is_depthwise,
    joined,
    linear_factors,
    norm_gradients,
)

Call = tuple[str, nn.Module, Tensor, Tensor, int]  # name, layer, inputs, output, version of the output


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
    """A network with one output per sample, frozen in eval mode; a private copy of the given module.

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
        found = {pattern: fnmatch.filter(every, pattern) for pattern in patterns}
        idle = [pattern for pattern, names in found.items() if not names]
        if idle or not found:
            raise ValueError(
                f"parameters={list(patterns)}: {', '.join(map(repr, idle)) or 'they'} match none of the network's "
                f"parameters, which are {', '.join(every[:20])}{', ...' if len(every) > 20 else ''}."
            )
        return {name for names in found.values() for name in names}

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
            scale, shift = norm_gradients(layer, inputs, g, b)
            new = {weight: scale, bias: shift}
        elif is_depthwise(layer):
            new = {weight: depthwise_gradients(layer, inputs, g), bias: g.sum((2, 3))}
        else:
            factors = (
                conv_factors(layer, inputs, g)
                if isinstance(layer, nn.Conv2d)
                else linear_factors(inputs, g, b)
            )
            new = {}
            if weight in self.names:
                factors.bias = bias if bias in self.names and layer.bias is not None else None
                parts.factors[weight] = joined(parts.factors.get(weight), factors)
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
        if not kept:
            return  # the head alone
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
    """Refuse BatchNorm that looks at its batch: samples see one another there, and none has a gradient of its own."""
    norms = {name: layer for name, layer in module.named_modules() if isinstance(layer, BATCH_NORMS)}
    training = [name for name, layer in norms.items() if layer.training]
    if training:
        raise ValueError(
            f"The network's BatchNorm layers are in training mode ({training[0]!r} and {len(training) - 1} more): "
            "samples of a batch then influence one another, and no sample has its own gradient. Call network.eval()."
        )
    for name, layer in norms.items():
        if layer.running_var is None:
            raise ValueError(
                f"The BatchNorm layer {name!r} keeps no running statistics, so it takes those of the batch even in "
                "eval mode, and samples influence one another. Use track_running_stats=True."
            )


def _recorder(
    name: str, calls: list[Call], copied: bool
) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        calls.append((name, layer, inputs[0].detach(), output, output._version))
        return output.clone() if copied else output

    return record
