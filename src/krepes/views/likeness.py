"""How strongly images may be changed where nobody says: three quarters of the way to the next.

    strength s:  median over images x of |view_s(x) - x| / |x - x'|  =  3/4,      x' the nearest other image
    mirror:      median of |mirror(x) - x''| / |x - x'|  <=  1.02,                x'' the image nearest to mirror(x)

Changes that move an image further than its neighbours are apart mix up images that differ in what they show; much
weaker ones teach nothing. The distances need no labels: faces that were cut out alike are close together and get weak
views, digits in many hands stronger ones. Photographs may be mirrored, because a mirrored photograph is as close to the
others as it was before; a mirrored digit is not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from krepes.kernels.distances import distances_to

MOVED = 0.75  # of the way to the nearest other image
MIRRORED = 1.02  # times the distance between neighbours
WEAKEST = 1 / 32
N_CHANGED, N_OTHERS = 250, 1000
STEPS = 6  # halvings of the logarithm of the strength


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
            return 1.0  # all images are alike, so no strength is better than another
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
