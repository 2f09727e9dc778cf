"""MobileNetV2, with torchvision's names: inverted residual blocks with depthwise convolutions  [sandler].

    x (+) project(ReLU6(depthwise(ReLU6(expand(x)))))        1x1 to t times the channels, 3x3 per channel, 1x1 back

with BatchNorm after every convolution and the sum only where the shape does not change. Features: 1280.
The classifier of a weight file is left out.
"""

from __future__ import annotations

from torch import Tensor, nn

from krepes.networks.images import GlobalMean, ImageInput, ImageNetwork, LinearBottleneck, inverted_blocks

STAGES = (  # expansion, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
N_FEATURES = 1280


def convolution(
    n_inputs: int, n_outputs: int, size: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolution, BatchNorm, ReLU6."""
    layer = nn.Conv2d(n_inputs, n_outputs, size, stride, padding=size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(n_outputs), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project back."""

    def __init__(self, n_inputs: int, n_outputs: int, stride: int, expansion: int):
        super().__init__()
        hidden = n_inputs * expansion
        expand = [convolution(n_inputs, hidden, size=1)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *expand,
            convolution(hidden, hidden, stride=stride, groups=hidden),
            LinearBottleneck(hidden, n_outputs),
            nn.BatchNorm2d(n_outputs),
        )
        self.adds = stride == 1 and n_inputs == n_outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2Module(nn.Module):
    """The module of `MobileNetV2`."""

    def __init__(self, pixels: ImageInput):
        super().__init__()
        self.pixels = pixels
        self.features = nn.Sequential(
            convolution(3, 32, stride=2),
            *inverted_blocks(InvertedResidual, STAGES),
            convolution(STAGES[-1][1], N_FEATURES, size=1),
        )
        self.pool = GlobalMean()

    def forward(self, X: Tensor) -> Tensor:
        return self.pool(self.features(self.pixels(X)))


class MobileNetV2(ImageNetwork):
    """A small network for images: 2.2 million parameters, 1280 features.

    Parameters
    ----------
    resolution : int or None, default=160
        Images are resized to this height and width; None leaves them as they are. ImageNet weights were trained
        at 224, at twice the cost of 160.
    weights, weights_digest : see `Network`

    Examples
    --------
    >>> from krepes.networks import n_parameters
    >>> n_parameters(MobileNetV2().build((32, 32, 3)))
    2223872
    """

    name = "mobilenet_v2"
    dropped = ("classifier.",)

    def layers(self, pixels: ImageInput) -> nn.Module:
        return MobileNetV2Module(pixels)
