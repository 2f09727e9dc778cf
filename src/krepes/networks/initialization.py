"""Seeded start values of a network's layers, drawn from one generator; the global random state is not touched.

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

from collections.abc import Callable

import torch
from torch import Tensor, nn

Draw = Callable[[Tensor, int, torch.Generator], None]  # fills a tensor, given fan_in


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


def torch_default(module: nn.Module, generator: torch.Generator) -> None:
    """Uniform in +-1 / sqrt(fan_in)."""

    def draw(tensor: Tensor, fan_in: int, generator: torch.Generator) -> None:
        tensor.uniform_(-(fan_in**-0.5), fan_in**-0.5, generator=generator)

    _fill(module, generator, draw, draw)


def he_normal(module: nn.Module, generator: torch.Generator) -> None:
    """Normal of variance 2 / fan_in, or `layer.weight_variance` / fan_in where a layer says so; biases zero."""
    normal(module, generator, 2.0, 0.0)
    with torch.no_grad():
        for layer in module.modules():
            variance = getattr(layer, "weight_variance", None)
            if isinstance(layer, nn.Conv2d) and variance is not None:
                layer.weight.mul_((variance / 2.0) ** 0.5)


def normal(
    module: nn.Module, generator: torch.Generator, weight_variance: float, bias_variance: float
) -> None:
    """Weights normal of variance `weight_variance` / fan_in, biases normal of variance `bias_variance`."""

    def draw_weight(tensor: Tensor, fan_in: int, generator: torch.Generator) -> None:
        tensor.normal_(generator=generator).mul_((weight_variance / fan_in) ** 0.5)

    def draw_bias(tensor: Tensor, fan_in: int, generator: torch.Generator) -> None:
        tensor.normal_(generator=generator).mul_(bias_variance**0.5)

    _fill(module, generator, draw_weight, draw_bias)


def standard_normal(module: nn.Module, generator: torch.Generator) -> None:
    """Every weight and bias normal of variance 1."""

    def draw(tensor: Tensor, fan_in: int, generator: torch.Generator) -> None:
        tensor.normal_(generator=generator)

    _fill(module, generator, draw, draw)


@torch.no_grad()
def _fill(module: nn.Module, generator: torch.Generator, draw_weight: Draw, draw_bias: Draw) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            fan_in = layer.weight[0].numel()
            draw_weight(layer.weight, fan_in, generator)
            if layer.bias is not None:
                draw_bias(layer.bias, fan_in, generator)
