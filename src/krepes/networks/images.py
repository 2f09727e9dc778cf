"""What networks for images share: the way from rows of pixels to normalised channels, and their parameters.

    (b, h, w[, c]) in [0, 1]  ->  (x - mean) / std  ->  channels first  ->  bilinear resize to `resolution`

Resizing is inside the network, so that views, landmarks and files hold small images and the kernel's rows stay raw.
Pixels that were already normalised (`krepes.preprocessing.Normalize`) must not be given to a network that does it
itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from krepes.base.validation import check_count
from krepes.networks.network import Network, Weights, floating, he_normal

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageInput(nn.Module):
    """Rows of pixels as a network wants them: (b, h, w[, c]) or flattened (b, h w c) -> (b, channels, r, r).

    Grey images are repeated for a network of three channels. Shrinking is antialiased.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        input_shape: tuple[int, ...],
        mean: tuple[float, ...],
        std: tuple[float, ...],
        resolution: int | None = None,
    ):
        super().__init__()
        self.shape = image_shape(input_shape)
        self.numbers = mean, std
        self.resolution = resolution
        if self.shape[2] not in (1, len(mean)):
            raise ValueError(
                f"Images have {self.shape[2]} channels; this network takes {len(mean)}, or 1. Choose some of them."
            )
        # Not persistent: a state_dict keeps the names of the published networks.
        self.register_buffer("mean", torch.empty(len(mean), 1, 1), persistent=False)
        self.register_buffer("std", torch.empty(len(std), 1, 1), persistent=False)

    def reset_parameters(self) -> None:
        for buffer, numbers in zip((self.mean, self.std), self.numbers):
            buffer.copy_(torch.tensor(numbers, dtype=torch.float64)[:, None, None])

    def forward(self, X: Tensor) -> Tensor:
        x = floating(X).reshape(X.shape[0], *self.shape).permute(0, 3, 1, 2)
        x = (x.expand(-1, len(self.mean), -1, -1) - self.mean) / self.std
        if self.resolution is None or tuple(x.shape[2:]) == (self.resolution, self.resolution):
            return x
        shrink = self.resolution < max(x.shape[2:])
        size = (self.resolution, self.resolution)
        return functional.interpolate(x, size, mode="bilinear", align_corners=False, antialias=shrink)


class LinearBottleneck(nn.Conv2d):
    """A 1x1 convolution that no activation follows: its start values keep the scale without one."""

    weight_variance = 1.0

    def __init__(self, n_inputs: int, n_outputs: int):
        super().__init__(n_inputs, n_outputs, 1, bias=False)


def inverted_blocks(block: Callable[..., nn.Module], stages: Sequence[tuple[int, ...]]) -> list[nn.Module]:
    """The blocks of all stages (expansion, channels, blocks, stride of the first, ...), after 32 channels."""
    found, n_inputs = [], 32
    for expansion, width, n_blocks, first_stride, *rest in stages:
        for stride in (first_stride, *[1] * (n_blocks - 1)):
            found.append(block(n_inputs, width, stride, expansion, *rest))
            n_inputs = width
    return found


class GlobalMean(nn.Module):
    """The mean over all positions: (b, c, h, w) -> (b, c)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


@dataclass(eq=False, repr=False)
class ImageNetwork(Network):
    """A network for images that takes three channels, normalises with its own mean and std, and resizes.

    Subclasses give `layers`, the module from normalised channels to features, whose state_dict has the published
    names, and the name of its first attribute is free: the input is prepared by a module called `pixels`.
    """

    mean: ClassVar[tuple[float, ...]] = IMAGENET_MEAN
    std: ClassVar[tuple[float, ...]] = IMAGENET_STD

    resolution: int | None = 160
    weights: Weights = None
    weights_digest: str | None = None

    @abstractmethod
    def layers(self, pixels: ImageInput) -> nn.Module:
        """The module from raw rows to features; it begins with `pixels`."""

    def architecture(self, input_shape: tuple[int, ...]) -> nn.Module:
        if self.resolution is not None:
            check_count("resolution", self.resolution)
        return self.layers(ImageInput(input_shape, self.mean, self.std, self.resolution))

    def initialize(self, module: nn.Module, generator: torch.Generator) -> None:
        he_normal(module, generator)


def image_shape(input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of one row."""
    if len(input_shape) not in (2, 3):
        raise ValueError(
            f"This network takes images (h, w) or (h, w, c); a row has shape {input_shape}. Take resmlp or mlp."
        )
    height, width, channels = (*input_shape, 1)[:3]
    return height, width, channels
