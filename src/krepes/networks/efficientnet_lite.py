"""EfficientNet-Lite0: EfficientNet-B0 without squeeze-and-excitation, with ReLU6  [tan].

    x (+) project(ReLU6(depthwise(ReLU6(expand(x)))))        1x1 to 6 times the channels, 3x3 or 5x5 per channel, 1x1

with BatchNorm (epsilon 1e-3) after every convolution and the sum only where the shape does not change. Names are
as in the package efficientnet-lite-pytorch. Padding is TensorFlow's: as much as gives ceil(size / stride)
positions, the odd one at the right and below. Features: 1280; the classifier `_fc` of a weight file is left out.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from krepes.networks.images import GlobalMean, ImageInput, ImageNetwork, LinearBottleneck, inverted_blocks

STAGES = (  # expansion, channels, blocks, stride of the first, kernel size
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
N_FEATURES = 1280
EPSILON = 1e-3


def same_padding(x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """Zeros around x so that a convolution without padding gives ceil(size / stride) positions."""
    around: list[int] = []
    for axis in (3, 2):
        size, kernel, stride = x.shape[axis], convolution.kernel_size[axis - 2], convolution.stride[axis - 2]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        around += [total // 2, total - total // 2]
    return functional.pad(x, around) if any(around) else x


class MBConv(nn.Module):
    """Expand, filter each channel, project back."""

    def __init__(self, n_inputs: int, n_outputs: int, stride: int, expansion: int, kernel_size: int):
        super().__init__()
        hidden = n_inputs * expansion
        self.expands = expansion != 1
        if self.expands:
            self._expand_conv = nn.Conv2d(n_inputs, hidden, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(hidden, eps=EPSILON)
            self._expand_activation = nn.ReLU6()
        self._depthwise_conv = nn.Conv2d(hidden, hidden, kernel_size, stride, groups=hidden, bias=False)
        self._bn1 = nn.BatchNorm2d(hidden, eps=EPSILON)
        self._depthwise_activation = nn.ReLU6()
        self._project_conv = LinearBottleneck(hidden, n_outputs)
        self._bn2 = nn.BatchNorm2d(n_outputs, eps=EPSILON)
        self.adds = stride == 1 and n_inputs == n_outputs

    def forward(self, x: Tensor) -> Tensor:
        h = self._expand_activation(self._bn0(self._expand_conv(x))) if self.expands else x
        h = self._depthwise_conv(same_padding(h, self._depthwise_conv))
        h = self._bn2(self._project_conv(self._depthwise_activation(self._bn1(h))))
        return x + h if self.adds else h


class EfficientNetLite0Module(nn.Module):
    """The module of `EfficientNetLite0`."""

    def __init__(self, pixels: ImageInput):
        super().__init__()
        self.pixels = pixels
        self._conv_stem = nn.Conv2d(3, 32, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, eps=EPSILON)
        self._stem_activation = nn.ReLU6()
        self._blocks = nn.Sequential(*inverted_blocks(MBConv, STAGES))
        self._conv_head = nn.Conv2d(STAGES[-1][1], N_FEATURES, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(N_FEATURES, eps=EPSILON)
        self._head_activation = nn.ReLU6()
        self.pool = GlobalMean()

    def forward(self, X: Tensor) -> Tensor:
        x = self._conv_stem(same_padding(self.pixels(X), self._conv_stem))
        x = self._blocks(self._stem_activation(self._bn0(x)))
        return self.pool(self._head_activation(self._bn1(self._conv_head(x))))


class EfficientNetLite0(ImageNetwork):
    """A small network for images: 3.4 million parameters, 1280 features.

    Parameters
    ----------
    resolution : int or None, default=160
        Images are resized to this height and width; None leaves them as they are. ImageNet weights were trained
        at 224, at twice the cost of 160.
    weights, weights_digest : see `Network`

    Notes
    -----
    Pixels are normalised as in training: (255 x - 127) / 128.

    Examples
    --------
    >>> from krepes.networks import n_parameters
    >>> n_parameters(EfficientNetLite0().build((32, 32, 3)))
    3371008
    """

    name = "efficientnet_lite0"
    dropped = ("_fc.",)
    mean = (127 / 255,) * 3
    std = (128 / 255,) * 3

    def layers(self, pixels: ImageInput) -> nn.Module:
        return EfficientNetLite0Module(pixels)
