"""Convolutions with pooling: a small network for images of any number of channels.

    x = Pool(activation(Conv(x)))  for every entry of `channels`,     features = mean over positions

Without normalisation layers, so that its tangent kernel is that of the function it computes at its random start.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from krepes.base.validation import check_choice, check_count
from krepes.networks.images import GlobalMean, ImageInput, image_shape
from krepes.networks.network import Network, Weights, activation_layer, check_widths, he_normal

# Rounded up at the border, so that an image of one pixel stays one.
POOLINGS = {
    "average": lambda: nn.AvgPool2d(2, ceil_mode=True),
    "max": lambda: nn.MaxPool2d(2, ceil_mode=True),
    "none": nn.Identity,
}


@dataclass(eq=False, repr=False)
class ConvNet(Network):
    """Convolution, activation and pooling, as often as there are channels; then the mean over positions.

    Parameters
    ----------
    channels : sequence of int, default=(64, 128, 256)
    kernel_size : int, default=3
        Odd, so that a convolution keeps the image's size.
    pooling : "average", "max" or "none", default="average"
        Over 2 x 2 positions, after every layer.
    activation : "relu", "gelu", "tanh" or "erf", default="relu"
    weights, weights_digest : see `Network`

    Notes
    -----
    Pixels in [0, 1] are shifted and scaled to [-2, 2]. Weights are normal with variance 2 / fan_in, biases zero.

    Examples
    --------
    Two layers of 3 x 3 weights: 9 * 1 * 4 + 4 and 9 * 4 * 6 + 6 numbers.

    >>> from krepes.networks import n_parameters
    >>> module = ConvNet(channels=(4, 6)).build((8, 8))
    >>> n_parameters(module), tuple(module(torch.rand(5, 8, 8)).shape)
    (262, (5, 6))
    """

    name = "convnet"

    channels: tuple[int, ...] = (64, 128, 256)
    kernel_size: int = 3
    pooling: str = "average"
    activation: str = "relu"
    weights: Weights = None
    weights_digest: str | None = None

    def architecture(self, input_shape: tuple[int, ...]) -> nn.Module:
        self._check()
        n_channels = image_shape(input_shape)[2]
        layers: list[nn.Module] = [ImageInput(input_shape, (0.5,) * n_channels, (0.25,) * n_channels)]
        for width in self.channels:
            layers += [
                nn.Conv2d(n_channels, int(width), self.kernel_size, padding=self.kernel_size // 2),
                activation_layer(self.activation),
                POOLINGS[self.pooling](),
            ]
            n_channels = int(width)
        return nn.Sequential(*layers, GlobalMean())

    def initialize(self, module: nn.Module, generator: torch.Generator) -> None:
        he_normal(module, generator)

    def _check(self) -> None:
        check_widths("channels", self.channels)
        check_count("kernel_size", self.kernel_size)
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size={self.kernel_size!r}: expected an odd number.")
        check_choice("pooling", self.pooling, POOLINGS)
