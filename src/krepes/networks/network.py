"""The network contract: an architecture by name, built as a plain torch module with seeded numbers.

    network.build(input_shape, generator) -> module,     module(X) -> features (b, f)

X are the rows that a kernel sees: vectors (b, d), or images (b, h, w[, c]) with values in [0, 1]; whatever an
architecture does to its input (channels first, normalisation, resizing) happens inside the module. There is no
head: the tangent kernel puts its own random output on the features [krepes, appendix A].

A module is made of Linear, Conv2d, LayerNorm, BatchNorm2d, activations and pooling, each a separate module, and
comes in evaluation mode, in float32, on the CPU. The same generator state gives the same numbers.

Start values are drawn from one generator; the global random state is not touched.

    torch_default   weights and biases uniform in +-1 / sqrt(fan_in): what `torch.nn` gives a new layer
    he_normal       weights normal with variance 2 / fan_in before a ReLU, 1 / fan_in before none, biases zero  [he]
    normal          weights normal with variance s_w / fan_in, biases normal with variance s_b            [neal]
    standard_normal all of them N(0, 1), for layers that scale what goes through them                     [jacot]

fan_in is the number of inputs that one output sees: input channels / groups * kernel area for a convolution.
`he_normal` differs from torchvision, which divides by fan_out: in evaluation mode an untrained BatchNorm is the
identity, so the layers themselves have to preserve the scale. With fan_out the depthwise convolutions of a
MobileNet, whose groups torchvision does not count, shrink the features of an image to 1e-10; so does torch_default.
"""

from __future__ import annotations

import math
import numbers
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from sklearn.base import clone
from torch import Tensor, nn

from krepes.base.components import Component
from krepes.base.validation import check_choice, check_count
from krepes.networks.weights import file_digest, load_weights

MOST_PARAMETERS = 10**9


Weights = str | os.PathLike[str] | None  # the path of a file


class Network(Component, ABC):
    """An architecture. Subclasses write `architecture` and, if need be, `initialize`.

    Every network takes `weights`, the path of a file whose numbers replace the random ones, and
    `weights_digest`, the SHA-256 that this file must have (None: any).
    """

    dropped: ClassVar[
        tuple[str, ...]
    ] = ()  # beginnings of names of a classifier's arrays, which files may have

    paths = ("weights",)

    weights: Weights
    weights_digest: str | None

    @abstractmethod
    def architecture(self, input_shape: tuple[int, ...]) -> nn.Module:
        """The module for rows of this shape; its numbers do not matter yet."""

    def initialize(self, module: nn.Module, generator: torch.Generator) -> None:
        """Draw start values for all Linear and Conv2d layers; by default as torch does."""
        torch_default(module, generator)

    def build(self, input_shape: tuple[int, ...], generator: torch.Generator | None = None) -> nn.Module:
        """The module for rows of shape `input_shape`, in evaluation mode.

        Numbers come from the weight file if there is one, else from the generator (a CPU one; None is seed 0).
        """
        shape = checked_shape(input_shape)
        # because torch would draw start values from the global random state
        with torch.device("meta"):
            module = self.architecture(shape)
        if n_parameters(module) > MOST_PARAMETERS:
            raise ValueError(
                f"{self!r:.80} has {n_parameters(module):,} parameters: expected {MOST_PARAMETERS:,} or less."
            )
        module = module.to(torch.float32).to_empty(device="cpu")
        set_constants(module)
        if self.weights is None:
            self.initialize(module, torch.Generator().manual_seed(0) if generator is None else generator)
        else:
            load_weights(module, self.weights, self.dropped, self.weights_digest)
        return module.eval()

    def pinned(self) -> Network:
        """A copy that is tied to the bytes of its weight file: `build` refuses any other file.

        This is the form to store: all its parameters are JSON.
        """
        if self.weights is None:
            return self
        digest = self.weights_digest or file_digest(self.weights)
        return clone(self).set_params(weights=os.fspath(self.weights), weights_digest=digest)


class GivenModule(Network):
    """A user's module, with the numbers that it has.

    `build` returns the module itself, whatever the shape of the rows: its mode, device, dtype and gradients are
    left alone. `clone` shares it instead of copying it. A model file keeps a note of its class, and the module is
    asked for again when the model is loaded.

    Parameters
    ----------
    module : torch.nn.Module
        From rows (b, ...) to features (b, f).

    Examples
    --------
    >>> layer = nn.Linear(3, 2)
    >>> GivenModule(layer).build((3,)) is layer
    True
    """

    weights = None
    weights_digest = None

    def __init__(self, module: nn.Module | None = None):
        self.module = module

    def architecture(self, input_shape: tuple[int, ...]) -> nn.Module:
        if not isinstance(self.module, nn.Module):
            raise TypeError(f"module={self.module!r}: expected a torch.nn.Module.")
        return self.module

    def build(self, input_shape: tuple[int, ...], generator: torch.Generator | None = None) -> nn.Module:
        return self.architecture(input_shape)

    def __sklearn_clone__(self) -> GivenModule:
        return type(self)(self.module)

    def __deepcopy__(self, memo: dict[int, Any]) -> GivenModule:
        return type(self)(self.module)


def set_constants(module: nn.Module) -> None:
    """Ones, zeros and other fixed numbers of every layer that draws nothing."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            continue
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
        elif any(True for _ in layer.parameters(recurse=False)):
            raise TypeError(f"No start values are known for the parameters of {type(layer).__name__}.")


def drawn_layers(module: nn.Module) -> Iterator[nn.Linear | nn.Conv2d]:
    """The layers whose numbers are drawn."""
    yield from (layer for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d))


@torch.no_grad()
def torch_default(module: nn.Module, generator: torch.Generator) -> None:
    """Uniform in +-1 / sqrt(fan_in)."""
    for layer in drawn_layers(module):
        bound = layer.weight[0].numel() ** -0.5
        for parameter in layer.parameters(recurse=False):
            parameter.uniform_(-bound, bound, generator=generator)


def he_normal(module: nn.Module, generator: torch.Generator) -> None:
    """Normal of variance 2 / fan_in, or `layer.weight_variance` / fan_in where a layer says so; biases zero."""
    normal(module, generator, 2.0, 0.0)


@torch.no_grad()
def normal(
    module: nn.Module, generator: torch.Generator, weight_variance: float, bias_variance: float
) -> None:
    """Weights normal of variance `weight_variance` / fan_in, biases normal of variance `bias_variance`."""
    for layer in drawn_layers(module):
        variance = getattr(layer, "weight_variance", weight_variance)
        layer.weight.normal_(generator=generator).mul_((variance / layer.weight[0].numel()) ** 0.5)
        if layer.bias is not None:
            layer.bias.normal_(generator=generator).mul_(bias_variance**0.5)


@torch.no_grad()
def standard_normal(module: nn.Module, generator: torch.Generator) -> None:
    """Every weight and bias normal of variance 1."""
    for layer in drawn_layers(module):
        for parameter in layer.parameters(recurse=False):
            parameter.normal_(generator=generator)


# Activations by name: each use is a separate module, and none works in place, so that hooks see every value.


class Erf(nn.Module):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "erf": Erf}


def activation_layer(name: str) -> nn.Module:
    """A new activation module.

    >>> activation_layer("relu")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    check_choice("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


class Flatten(nn.Module):
    """Rows of any shape as vectors (b, d)."""

    def forward(self, X: Tensor) -> Tensor:
        return floating(X).flatten(1)


def floating(X: Tensor) -> Tensor:
    """X itself, if it is of floating-point numbers."""
    if not X.is_floating_point():
        raise TypeError(
            f"A network takes floating-point numbers, got {X.dtype}. Divide pixels by 255; make others floats."
        )
    return X


def checked_shape(input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a row as a tuple of positive integers."""
    shape = (input_shape,) if isinstance(input_shape, numbers.Integral) else tuple(input_shape)
    if not shape or not all(isinstance(size, numbers.Integral) and size > 0 for size in shape):
        raise ValueError(
            f"input_shape={input_shape!r}: expected the shape of one row, such as (54,) or (32, 32, 3)."
        )
    return tuple(int(size) for size in shape)


def check_widths(name: str, widths: Sequence[int]) -> None:
    """Refuse what is not a sequence of at least one positive integer."""
    if isinstance(widths, str) or not hasattr(widths, "__len__") or len(widths) == 0:
        raise ValueError(f"{name}={widths!r}: expected a sequence of at least one number.")
    for width in widths:
        check_count(name, width)


def n_parameters(module: nn.Module) -> int:
    """The number of numbers that a tangent kernel differentiates by.

    >>> n_parameters(nn.Linear(3, 2))
    8
    """
    return sum(math.prod(parameter.shape) for parameter in module.parameters())
