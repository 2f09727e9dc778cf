"""Barlow Twins: components that agree between views and do not repeat one another [krepes, section 3, "BT"; zbontar].

    sum_i (1 - C_ii)^2 + redundancy * sum_{i != j} C_ij^2

C is the views' cross-correlation, C_ij = mean z1_i z2_j / sqrt(mean z1_i^2 * mean z2_j^2), the embeddings centred
(`center=True`) or taken with their learned intercept as in the paper. With `normalize=False` C is the symmetrised
cross-covariance itself, |C - I|_F^2 at redundancy 1 [simon], which has a closed form.

Cost of value and gradient O(r^2 h + r h^2); the closed form is one eigendecomposition, O(r^3).
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.linalg import NOISE, descending_eigh, symmetric
from krepes.losses.batch import Batch, SampleStatistics, Terms
from krepes.losses.loss import MomentLoss, check_weights, inverse_root, off_diagonal
from krepes.losses.statistics import Statistics
from krepes.moments import Moments


class BarlowTwins(MomentLoss):
    """Make the cross-correlation of two views the identity.

    Parameters
    ----------
    redundancy : float, default=0.2
        Weight of the off-diagonal terms. Small weights let components overlap where few directions survive the
        augmentation; at 1 the loss is |C - I|_F^2. Its effect grows with the number of components: [zbontar] use
        0.005 with 8192 of them.
    normalize : bool, default=True
        Divide every component by its standard deviation, as in the paper. The loss then ignores the scale of W's
        columns; they are returned with unit variance.
    center : bool, default=True
        Subtract each view's mean. Without it gamma is learned, and one combination of components is spent on a
        constant, whose correlation between views is perfect.

    Notes
    -----
    A closed form exists for `BarlowTwins(redundancy=1, normalize=False)`, and for any larger redundancy, since its
    solution has no off-diagonal terms: W = V_h diag((g - lam/2)_+^(1/2) / g), with (g, V_h) the leading eigenpairs
    of the symmetrised cross-covariance.

    Examples
    --------
    One component of variance 1 that agrees in 6 rows of 8 and is opposite in 2, so C = 6/8 - 2/8: (1 - 1/2)^2.

    >>> import torch
    >>> from krepes.losses import Batch
    >>> Z1 = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0])[:, None]
    >>> Z2 = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0])[:, None]
    >>> {name: float(term) for name, term in BarlowTwins().terms(Batch((Z1, Z2))).items()}
    {'invariance': 0.25, 'redundancy': 0.0}
    """

    name = "barlow_twins"
    known_elsewhere_as = ("barlow", "bt")

    def __init__(self, redundancy: float = 0.2, normalize: bool = True, center: bool = True):
        self.redundancy = redundancy
        self.normalize = normalize
        self.center = center

    @property
    def intercept(self) -> str:
        return "centered" if self.center else "learned"

    @property
    def scale_invariant(self) -> bool:
        return bool(self.normalize)

    @property
    def rotation_invariant(self) -> bool:
        return not self.normalize and self.redundancy == 1

    @property
    def quadratic_in_moments(self) -> bool:
        return not self.normalize

    def offers(self, method: str) -> bool:
        if method == "minimiser":
            return not self.normalize and self.center and self.redundancy >= 1
        return super().offers(method)

    def of_statistics(self, statistics: Statistics) -> Terms:
        check_weights(redundancy=self.redundancy)
        C = self._cross_correlation(statistics)
        return {
            "invariance": (1 - C.diagonal()).square().sum(),
            "redundancy": self.redundancy * off_diagonal(C),
        }

    def _cross_correlation(self, statistics: Statistics) -> Tensor:
        C, scale_1, scale_2 = statistics.covariance_12, statistics.variance_1, statistics.variance_2
        if not self.center:
            C = C + torch.outer(statistics.mean_1, statistics.mean_2)
            scale_1 = scale_1 + statistics.mean_1.square()
            scale_2 = scale_2 + statistics.mean_2.square()
        if not self.normalize:
            return symmetric(C)
        return C * inverse_root(scale_1)[:, None] * inverse_root(scale_2)

    def residuals(self, batch: Batch) -> Tensor:
        """C - I, flattened to (h^2,), off-diagonal entries times sqrt(redundancy) [krepes, section 3.2, "BT"]."""
        check_weights(redundancy=self.redundancy)
        self.views(batch)
        C = self._cross_correlation(SampleStatistics(batch))
        identity = torch.eye(len(C), dtype=C.dtype, device=C.device)
        return ((C - identity) * (identity + self.redundancy**0.5 * (1 - identity))).flatten()

    def column_scale(self, statistics: Statistics) -> Tensor:
        """The squared scale by which the components are divided, averaged over the views, (h,)."""
        return statistics.variance if self.center else statistics.power

    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """The closed form of the unnormalised loss."""
        self.require("minimiser")
        V_12 = moments.S_12 - torch.outer(moments.mean_1, moments.mean_2)
        values, vectors = descending_eigh(V_12, n_components)  # of its symmetric part
        kept = int((values > max(lam / 2, NOISE * moments.S.trace().item())).sum())
        g = values[:kept]
        W = vectors[:, :kept] * ((g - lam / 2).sqrt() / g)
        return W, -W.mT @ moments.mean
