"""Views of images: random shift, rotation, zoom, shear, crop and flip, as one bilinear warp.

    view(p) = image( c + D R(angle)^-1 H (p - shift) ),     D = diag(+-w, h) / zoom,     H = [[1, tan(shear)], [0, 1]]

p runs over the output pixels; c and (w, h) are centre and size of the crop, with the sign of a flip. Sampling
once loses less sharpness than a chain of resampling steps, and a rotated crop shows what lies beside the crop
instead of black corners. Random resized crop and horizontal flip are the image augmentations of
[krepes, App. B.1]. Cost: one `grid_sample`, about 10 ns per pixel and channel.

Normalisation of pixels is not a view: `transform` sees rows without views, so it has to happen to every row,
in preprocessing.

How strongly images may be changed where nobody says: three quarters of the way to the next.

    strength s:  median over images x of |view_s(x) - x| / |x - x'|  =  3/4,      x' the nearest other image
    mirror:      median of |mirror(x) - x''| / |x - x'|  <=  1.02,                x'' the image nearest to mirror(x)

Changes that move an image further than its neighbours are apart mix up images that differ in what they show; much
weaker ones teach nothing. The distances need no labels: faces that were cut out alike are close together and get weak
views, digits in many hands stronger ones. Photographs may be mirrored, because a mirrored photograph is as close to the
others as it was before; a mirrored digit is not.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.random_streams import uniform
from krepes.base.rows import Rows, dense
from krepes.base.validation import check_choice, check_number
from krepes.kernels.distances import distances_to
from krepes.views.views import Draws, Groups, Views

PADDINGS = ("zeros", "border", "reflection")
MOVED = 0.75  # of the way to the nearest other image
MIRRORED = 1.02  # times the distance between neighbours
WEAKEST = 1 / 32
N_CHANGED, N_OTHERS = 250, 1000
STEPS = 6  # halvings of the logarithm of the strength
N_DRAWS = 10  # area, ratio, position (2), shift (2), angle, flip, zoom, shear


@dataclass(eq=False, repr=False)
class Image(Views):
    """Shift, rotation, zoom and shear; random resized crop and horizontal flip on request.

    Parameters
    ----------
    crop : (low, high), default=None
        Range of the crop's area, as a fraction of the image's; None is (1, 1). [krepes] has (0.5, 1.0) for
        photographs.
    ratio : (low, high), default=(0.8, 1.25)
        Range of the crop's aspect ratio, as a factor on the image's own, log-uniform; None is (1, 1), and so it
        is without a crop. A crop wider or higher than the image is cut to it.
    flip : float or "auto", default=0.0
        Probability of a horizontal flip. [krepes] has 0.5 for photographs; a flipped digit or letter is not
        the same digit or letter. "auto" is 0.5 where flipped images are as close to other images as they were
        before, else 0.
    shift : float or (vertical, horizontal), default=0.05
        Largest shift, as a fraction of the image's height and width.
    rotation : float, default=15.0
        Largest rotation, in degrees, either way.
    zoom : float, default=1.15
        Largest magnification, and its inverse the largest reduction, log-uniform.
    shear : float, default=10.0
        Largest shear, in degrees, either way.
    strength : float or "auto", default=1.0
        Multiplies shift, rotation, shear and the logarithm of zoom. "auto" looks at the images: views go three
        quarters of the way to the nearest other image (`Likeness`), at most to 1.
    padding : "zeros", "border" or "reflection", default="zeros"
        What lies beyond the image's edge.
    shape : (height, width) or (height, width, channels), default=None
        For images that come flattened.
    n_views : int, default=2

    Notes
    -----
    Images are tensors of shape (b, h, w) or (b, h, w, c), or (b, h w c) with `shape`; views have the same
    shape and dtype. This differs from torchvision in: crops lie at real, not integer, positions; the ratio is
    relative to the image's.

    Examples
    --------
    >>> views = Image(flip=1.0, ratio=None, shift=0.0, rotation=0.0, zoom=1.0, shear=0.0)
    >>> images = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    >>> views(images, torch.tensor([0]), seed=0)[0]
    tensor([[[2., 1.],
             [4., 3.]]])
    """

    name = "image"

    crop: Sequence[float] | None = None
    ratio: Sequence[float] = (0.8, 1.25)
    flip: float | str = 0.0
    shift: float = 0.05
    rotation: float = 15.0
    zoom: float = 1.15
    shear: float = 10.0
    strength: float | str = 1.0
    padding: str = "zeros"
    shape: Sequence[int] | None = None
    n_views: int = 2

    def check(self) -> None:
        super().check()
        self._ranges()
        for name in ("flip", "strength"):
            if getattr(self, name) != "auto":
                check_number(name, getattr(self, name), "'auto' or a number", least=0, most=1)
        check_number("rotation", self.rotation, "degrees", least=0, most=180)
        check_number("zoom", self.zoom, "a largest factor", least=1)
        check_number("shear", self.shear, "degrees", least=0, below=90)
        check_choice("padding", self.padding, PADDINGS)
        if self.shape is not None and not _is_image_shape(self.shape):
            raise ValueError(f"shape={self.shape!r}: expected (height, width) or (height, width, channels).")

    def fitted(self, X: Rows, generator: Draws = None, groups: Groups = None) -> Image:
        self.check()
        images = dense(X)
        self._image_shape(images)
        if "auto" not in (self.strength, self.flip):
            return self
        likeness, rows = Likeness(images, generator), torch.arange(N_CHANGED)
        flip = self.flip
        if flip == "auto":
            flip = 0.5 if likeness.keeps(self._flipped(likeness.images)) else 0.0
        strength = self.strength
        if strength == "auto":
            # a flip is as far as it is, whatever the strength
            still = clone(self).set_params(flip=0.0)

            def changed(X: Tensor, strength: float) -> Tensor:
                return still.set_params(strength=strength).view(X, rows[: len(X)], seed=0, index=0)

            strength = float(f"{likeness.strength(changed):.2g}")
        return clone(self).set_params(strength=strength, flip=flip)

    def _flipped(self, X: Tensor) -> Tensor:
        return X.reshape(len(X), *self._image_shape(X)).flip(2).reshape(X.shape)

    def view(self, X: Tensor, rows: Tensor, seed: int, index: int) -> Tensor:
        if "auto" in (self.strength, self.flip):
            raise ValueError("Image views with 'auto' depend on the images: call views.fitted(X) first.")
        height, width, channels = self._image_shape(X)
        images = X.reshape(len(X), height, width, channels)
        draws = uniform(rows, N_DRAWS, seed, index).double()
        grid = sampling_grid(self._matrices(draws, height, width), images)
        return warp(images, grid, self.padding).reshape(X.shape)

    def _matrices(self, draws: Tensor, height: int, width: int) -> Tensor:
        """The map from output to input positions of every image, (b, 2, 3); the image is [-1, 1] x [-1, 1]."""
        crop, ratio, shift = self._ranges()
        strength, flip = float(self.strength), float(self.flip)
        area = crop[0] + (crop[1] - crop[0]) * draws[:, 0]
        low, high = math.log(ratio[0]), math.log(ratio[1])
        stretch = torch.exp(low + (high - low) * draws[:, 1])
        w, h = (area * stretch).sqrt_().clamp_(max=1), (area / stretch).sqrt_().clamp_(max=1)
        center_x, center_y = (1 - w) * (2 * draws[:, 2] - 1), (1 - h) * (2 * draws[:, 3] - 1)
        # A shift by the fraction s of a side is 2 s here, because the side is 2.
        shift_y, shift_x = (2 * strength * s * (2 * draws[:, column] - 1) for s, column in zip(shift, (4, 5)))
        angle = math.radians(strength * self.rotation) * (2 * draws[:, 6] - 1)
        reduction = torch.exp(strength * math.log(self.zoom) * (2 * draws[:, 8] - 1))
        slant = torch.tan(math.radians(strength * self.shear) * (2 * draws[:, 9] - 1))
        size = torch.where(draws[:, 7] < flip, -w, w) * reduction, h * reduction
        return affine_matrices(angle, (shift_x, shift_y), size, (center_x, center_y), slant, width / height)

    def _ranges(self) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
        """Crop, ratio and shift as pairs of numbers, checked."""
        crop = _pair("crop", (1.0, 1.0) if self.crop is None else self.crop)
        if not 0 < crop[0] <= crop[1] <= 1:
            raise ValueError(f"crop={self.crop!r}: expected (low, high) with 0 < low <= high <= 1, or None.")
        ratio = _pair("ratio", (1.0, 1.0) if self.ratio is None else self.ratio)
        if not 0 < ratio[0] <= ratio[1] < math.inf:
            raise ValueError(f"ratio={self.ratio!r}: expected (low, high) with 0 < low <= high, or None.")
        ratio = (1.0, 1.0) if self.crop is None else ratio
        single = isinstance(self.shift, numbers.Real)
        shift = _pair("shift", (self.shift, self.shift) if single else self.shift)
        if not (0 <= shift[0] <= 1 and 0 <= shift[1] <= 1):
            raise ValueError(f"shift={self.shift!r}: expected one or two fractions of a side, in [0, 1].")
        return crop, ratio, shift

    def _image_shape(self, X: Tensor) -> tuple[int, int, int]:
        """Height, width and channels of the images in X."""
        given = tuple(X.shape[1:])
        shape = given if self.shape is None else tuple(int(n) for n in self.shape)
        if math.prod(shape) != math.prod(given):
            raise ValueError(f"Image(shape={shape}) does not fit rows of shape {given}.")
        if len(shape) not in (2, 3):
            raise ValueError(
                f"Image views got rows of shape {given}; expected (h, w) or (h, w, c). Say how to read flattened "
                "images, Image(shape=(28, 28)); for tables use views='tabular'."
            )
        return shape[0], shape[1], shape[2] if len(shape) == 3 else 1


def affine_matrices(
    angle: Tensor,
    shift: tuple[Tensor, Tensor],
    size: tuple[Tensor, Tensor],
    center: tuple[Tensor, Tensor],
    slant: Tensor,
    aspect: float,
) -> Tensor:
    """q = center + size * R(angle)^-1 H(slant) (p - shift) as matrices on (x, y, 1), (b, 2, 3).

    Pairs are (x, y) in units of half an image; y points down and `angle` is counter-clockwise. Rotation and
    shear (x + slant y) act on pixels, which is why there is the aspect = width / height.
    """
    cos, sin = angle.cos(), angle.sin()
    # The picture turns counter-clockwise if the positions it is read from turn clockwise (y points down).
    rotation = torch.stack([cos, -sin / aspect, sin * aspect, cos], dim=1).reshape(-1, 2, 2)
    rotation[:, :, 1] += rotation[:, :, 0] * (slant / aspect)[:, None]
    scaled = rotation * torch.stack(size, dim=1)[:, :, None]
    moved = (scaled * torch.stack(shift, dim=1)[:, None, :]).sum(dim=2)
    return torch.cat([scaled, (torch.stack(center, dim=1) - moved)[:, :, None]], dim=2)


def sampling_grid(matrices: Tensor, images: Tensor) -> Tensor:
    """Input positions of all pixels of images (b, h, w, c), (b, h, w, 2).

    One broadcast sum and no matrix product, so that positions do not depend on the size of the block.
    """
    height, width = images.shape[1:3]
    xs = (torch.arange(width, dtype=matrices.dtype) * 2 + 1) / width - 1
    ys = (torch.arange(height, dtype=matrices.dtype) * 2 + 1) / height - 1
    along_x = matrices[:, None, :, 0] * xs[:, None]  # (b, w, 2)
    # (b, h, 2)
    along_y = matrices[:, None, :, 1] * ys[:, None] + matrices[:, None, :, 2]
    return along_x.to(images)[:, None, :, :] + along_y.to(images)[:, :, None, :]


def warp(images: Tensor, grid: Tensor, padding: str) -> Tensor:
    """Images (b, h, w, c) sampled bilinearly at the positions of the grid."""
    channels_first = images.permute(0, 3, 1, 2)
    sampled = torch.nn.functional.grid_sample(
        channels_first, grid, mode="bilinear", padding_mode=padding, align_corners=False
    )
    return sampled.permute(0, 2, 3, 1)


def _pair(name: str, value: object) -> tuple[float, float]:
    try:
        first, second = cast(Sequence[float], value)
        return float(first), float(second)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}: expected two numbers.") from None


def _is_image_shape(shape: object) -> bool:
    if not isinstance(shape, tuple | list) or len(shape) not in (2, 3):
        return False
    return all(isinstance(n, numbers.Integral) and int(n) > 0 for n in shape)


class Likeness:
    """Distances within a sample of images, (n, ...).

    Parameters
    ----------
    X : Tensor of shape (n, ...)
    generator : torch.Generator
        Draws the sample, of at most 1000 images.
    """

    def __init__(self, X: Tensor, generator: torch.Generator | None = None):
        chosen = torch.randperm(len(X), generator=generator)[:N_OTHERS].to(X.device)
        others = X[chosen]
        self.images = others[:N_CHANGED]
        self._distances = distances_to(others.flatten(1))
        self._same = self._distances(self.images.flatten(1)) == 0
        self._near = self._nearest(self.images)
        self._distinct = self._near.isfinite()

    def strength(self, view: Callable[[Tensor, float], Tensor]) -> float:
        """The strength in [1/32, 1] at which `view(images, strength)` moves images as far as it should."""
        if not self._distinct.any():
            # all images are alike, so no strength is better than another
            return 1.0
        low, high = WEAKEST, 1.0
        if self._moved(view, high) <= MOVED:
            return high
        for _ in range(STEPS):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if self._moved(view, middle) <= MOVED else (low, middle)
        return low

    def keeps(self, changed: Tensor) -> bool:
        """Whether changed versions of `images` are as close to the other images as the images themselves."""
        if not self._distinct.any():
            return False
        ratios = self._nearest(changed)[self._distinct] / self._near[self._distinct]
        return bool(ratios.nanmedian() <= MIRRORED)

    def _moved(self, view: Callable[[Tensor, float], Tensor], strength: float) -> float:
        """How far views move images, as a share of the distance to the nearest other one: the median."""
        difference = (view(self.images, strength) - self.images).flatten(1).norm(dim=1)
        return (difference[self._distinct] / self._near[self._distinct]).median().item()

    def _nearest(self, X: Tensor) -> Tensor:
        """The distance of row i of X to the nearest image that differs from the i-th; infinite where there is none."""
        return self._distances(X.flatten(1)).masked_fill_(self._same, torch.inf).amin(dim=1)
