"""Statistics of held-out moments about the means of the moments that were learned from.

    C_vw = mean (z_v - m_v)(z_w - m_w)^T,      m_v = W^T mu_v + gamma,   mu_v the mean feature of the training part

A covariance about the held-out sample's own mean is not linear in its moments. About means that were fixed before, it
is: then a loss that is quadratic in covariances can be estimated without bias, see `QuadraticInMoments`. What does not
depend on a centre (alignment, distance, second moment) is as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from krepes.losses.statistics import MomentStatistics

if TYPE_CHECKING:
    from krepes.losses.moment_forms import MomentForms


class HeldOutStatistics(MomentStatistics):
    """Statistics of the embedding W^T phi + gamma on held-out moments.

    Parameters
    ----------
    held_out, training : MomentForms
        Of the training part only the means are used.
    W, gamma : Tensors of shape (r, h) and (h,)

    Examples
    --------
    Held-out points 1 and 3 have variance 1 about their own mean, and 1 + (2 - 0)^2 about 0.

    >>> from krepes.losses import MomentForms
    >>> from krepes.moments import Moments
    >>> held_out, training = (MomentForms.of(Moments.of_rows(torch.tensor([[a], [b]]))) for a, b in ((1, 3), (-1, 1)))
    >>> HeldOutStatistics(held_out, training, torch.ones(1, 1), torch.zeros(1)).variance_1.item()
    5.0
    """

    def __init__(self, held_out: MomentForms, training: MomentForms, W: Tensor, gamma: Tensor):
        super().__init__(held_out, W, gamma)
        self._about_own_means = MomentStatistics(held_out, W, gamma)
        pairs = ((held_out.mean_1, training.mean_1), (held_out.mean_2, training.mean_2))
        self._shifts = [mine - theirs for mine, theirs in pairs]  # (r,) for each view

    def _shift(self, view: int) -> Tensor:
        return self._W.mT @ self._shifts[view - 1]

    def _covariance(self, view: int, other: int) -> Tensor:
        return super()._covariance(view, other) + torch.outer(self._shift(view), self._shift(other))

    def _variance(self, view: int, other: int) -> Tensor:
        return super()._variance(view, other) + self._shift(view) * self._shift(other)

    @property
    def covariance(self) -> Tensor:
        """Of both views stacked, about the mean of the training part's two views."""
        shift = (self._shift(1) + self._shift(2)) / 2
        return self._about_own_means.covariance + torch.outer(shift, shift)

    @property
    def phi_norm_sq(self) -> Tensor:
        return super().phi_norm_sq + ((self._shifts[0] + self._shifts[1]) / 2).square().sum()

    @property
    def alignment(self) -> Tensor:
        return self._about_own_means.alignment

    @property
    def distance(self) -> Tensor:
        return self._about_own_means.distance

    @property
    def second_moment(self) -> Tensor:
        return self._about_own_means.second_moment

    @property
    def power(self) -> Tensor:
        return self._about_own_means.power
