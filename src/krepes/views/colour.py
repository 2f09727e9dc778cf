"""Colour jitter and grey for photographs: brightness, contrast, saturation and hue, and sometimes no colour at all.

    x'(p) = b ( c ( g(p) + s R (x(p) - g(p)) ) + (1 - c) mean g ),      g = luma of a pixel

b, c, s are drawn from [1 - strength, 1 + strength], R turns colours around the axis of greys by up to `hue` of a turn,
and s = 0 with probability `grey`. Values stay in the range of the images that the views were fitted on. Differs from
torchvision in: the order is fixed, and hue turns YIQ, not HSV, which is linear and has no edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor

from krepes.base.random_streams import uniform
from krepes.base.rows import Rows, dense
from krepes.base.validation import check_number
from krepes.views.views import Draws, Groups, Views

LUMA = (0.299, 0.587, 0.114)
YIQ = torch.tensor([LUMA, (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112)], dtype=torch.float64)


@dataclass(eq=False, repr=False)
class Colour(Views):
    """Changes of colour, for images (h, w) or (h, w, c); greys have no saturation and no hue.

    Parameters
    ----------
    brightness, contrast, saturation : float, default=0.4
        Factors are between 1 minus and 1 plus this.
    hue : float, default=0.1
        Largest turn of the colours, as a fraction of a whole turn.
    grey : float, default=0.2
        Probability that an image loses its colour.
    n_views : int, default=2

    Examples
    --------
    >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 1, 1, 3)
    >>> Colour(0, 0, 0, 0, grey=1.0)(red, torch.tensor([0]), seed=0)[0].flatten()
    tensor([0.2990, 0.2990, 0.2990])
    """

    name = "colour"
    known_elsewhere_as = ("color", "color_jitter", "colorjitter")

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    grey: float = 0.2
    n_views: int = 2

    lower_: float | None = field(init=False, default=None)
    upper_: float | None = field(init=False, default=None)

    def check(self) -> None:
        super().check()
        for name in ("brightness", "contrast", "saturation", "grey"):
            check_number(name, getattr(self, name), least=0, most=1)
        check_number("hue", self.hue, "a fraction of a turn", least=0, most=0.5)

    def fitted(self, X: Rows, generator: Draws = None, groups: Groups = None) -> Colour:
        self.check()
        images, views = dense(X), copy(self)
        views._check_images(images)
        views.lower_, views.upper_ = images.min().item(), images.max().item()
        return views

    def view(self, X: Tensor, rows: Tensor, seed: int, index: int) -> Tensor:
        self._check_images(X)
        images = (X if X.ndim == 4 else X[..., None]).double()
        draws = uniform(rows, 5, seed, index).to(images)[:, :, None, None, None]  # (b, 5, 1, 1, 1)
        b, c, s = (
            1 + strength * (2 * draws[:, column] - 1)
            for column, strength in enumerate((self.brightness, self.contrast, self.saturation))
        )
        luma = _luma(images)
        if images.shape[3] == 3:
            chroma = _turned(images - luma, (2 * draws[:, 3] - 1) * (2 * math.pi * self.hue))
            images = luma + torch.where(draws[:, 4] < self.grey, 0, s) * chroma
        means = (
            luma.flatten(1).cumsum(1)[:, -1:, None, None] / luma.shape[1:].numel()
        )  # in order, whatever the block
        changed = b * (c * images + (1 - c) * means)
        if self.lower_ is not None:
            changed = changed.clamp_(self.lower_, self.upper_)
        return changed.reshape(X.shape).to(X.dtype)

    def _check_images(self, X: Tensor) -> None:
        if X.ndim not in (3, 4):
            raise ValueError(
                f"Colour views got rows of shape {tuple(X.shape[1:])}; expected images (h, w) or (h, w, c)."
            )


def _luma(images: Tensor) -> Tensor:
    """Brightness of every pixel, (b, h, w, 1); sums and no products of matrices, so that blocks do not matter."""
    if images.shape[3] != 3:
        return images.mean(3, keepdim=True)
    return _weighed(images, LUMA)


def _weighed(images: Tensor, weights: Sequence[float]) -> Tensor:
    return sum((weight * images[..., i : i + 1] for i, weight in enumerate(weights)), images.new_zeros(()))


def _turned(chroma: Tensor, angle: Tensor) -> Tensor:
    """Colours turned around the axis of greys."""
    back = torch.linalg.inv(YIQ)
    i, q = (_weighed(chroma, YIQ[k].tolist()) for k in (1, 2))
    i, q = angle.cos() * i - angle.sin() * q, angle.sin() * i + angle.cos() * q
    return torch.cat([back[j, 1].item() * i + back[j, 2].item() * q for j in range(3)], dim=3)
