"""Residual networks of 18, 34 and 50 layers, with torchvision's names, so that its weight files load  [resnet].

    x = ReLU(shortcut(x) + branch(x)),      branch: 3x3, 3x3 (18, 34 layers)  or  1x1, 3x3, 1x1 (50 layers)

with BatchNorm after every convolution, strides in the 3x3 convolution of a branch (torchvision's form of the
50-layer network), and four groups of blocks of 64, 128, 256 and 512 channels. Features: 512, or 2048 for 50 layers.
The classifier `fc` of a weight file is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from krepes.base.validation import check_choice
from krepes.networks.images import GlobalMean, ImageInput, ImageNetwork
from krepes.networks.network import Weights

WIDTHS = (64, 128, 256, 512)
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}  # per group


class Residual(nn.Module, ABC):
    """A block: the sum of a branch and a shortcut, which is the identity or a 1x1 convolution."""

    expansion = 1
    downsample: nn.Sequential | None
    relu: nn.ReLU

    def _shortcut(self, n_inputs: int, width: int, stride: int) -> None:
        n_outputs = width * self.expansion
        self.downsample = None
        if stride != 1 or n_inputs != n_outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_inputs, n_outputs, 1, stride, bias=False), nn.BatchNorm2d(n_outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.relu(shortcut + self.branch(x))

    @abstractmethod
    def branch(self, x: Tensor) -> Tensor:
        """What is added to the shortcut; every kind of block has its own."""


class BasicBlock(Residual):
    """3x3, 3x3."""

    def __init__(self, n_inputs: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(n_inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self._shortcut(n_inputs, width, stride)
        self.relu = nn.ReLU()

    def branch(self, x: Tensor) -> Tensor:
        return self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))


class BottleneckBlock(Residual):
    """1x1, 3x3, 1x1; four times as many channels at the end."""

    expansion = 4

    def __init__(self, n_inputs: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(n_inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self._shortcut(n_inputs, width, stride)
        self.relu = nn.ReLU()

    def branch(self, x: Tensor) -> Tensor:
        x = self.relu1(self.bn1(self.conv1(x)))
        return self.bn3(self.conv3(self.relu2(self.bn2(self.conv2(x)))))


class ResNetModule(nn.Module):
    """The module of `ResNet`."""

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def __init__(self, pixels: ImageInput, depth: int):
        super().__init__()
        block: type[BasicBlock | BottleneckBlock] = BottleneckBlock if depth >= 50 else BasicBlock
        self.pixels = pixels
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        n_inputs = 64
        for group, (width, n_blocks) in enumerate(zip(WIDTHS, BLOCKS[depth]), start=1):
            strides = [1 if group == 1 else 2] + [1] * (n_blocks - 1)
            layers: list[nn.Module] = []
            for stride in strides:
                layers.append(block(n_inputs, width, stride))
                n_inputs = width * block.expansion
            setattr(self, f"layer{group}", nn.Sequential(*layers))
        self.pool = GlobalMean()

    def forward(self, X: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(self.pixels(X)))))
        return self.pool(self.layer4(self.layer3(self.layer2(self.layer1(x)))))


class ResNetOfDepth(ImageNetwork):
    """What residual networks of all depths share."""

    depth: int
    dropped = ("fc.",)

    def layers(self, pixels: ImageInput) -> nn.Module:
        check_choice("depth", self.depth, BLOCKS)
        return ResNetModule(pixels, int(self.depth))


class ResNet(ResNetOfDepth):
    """A residual network; the paper's kernel for CIFAR-10 is that of the 34-layer one, trained on ImageNet.

    Parameters
    ----------
    depth : 18, 34 or 50, default=34
    resolution : int or None, default=160
        Images are resized to this height and width; None leaves them as they are. ImageNet weights were trained
        at 224, at twice the cost of 160.
    weights, weights_digest : see `Network`
        A file of torchvision, such as `resnet34-b627a593.pth`, or any other with the same names.

    Examples
    --------
    >>> module = ResNet(depth=18, resolution=32).build((8, 8))
    >>> import torch
    >>> tuple(module(torch.rand(2, 8, 8)).shape)
    (2, 512)
    """

    name = "resnet"

    def __init__(
        self,
        depth: int = 34,
        resolution: int | None = 160,
        weights: Weights = None,
        weights_digest: str | None = None,
    ):
        super().__init__(resolution, weights, weights_digest)
        self.depth = depth


class ResNet18(ResNetOfDepth):
    """`ResNet(depth=18)`, with its own name."""

    name = "resnet18"
    depth = 18


class ResNet34(ResNetOfDepth):
    """`ResNet(depth=34)`, with its own name."""

    name = "resnet34"
    depth = 34


class ResNet50(ResNetOfDepth):
    """`ResNet(depth=50)`, with its own name."""

    name = "resnet50"
    depth = 50
