"""VICReg: views agree (invariance), components vary (variance) and are uncorrelated (covariance) [bardes].

    hinge:      inv mean|z1 - z2|^2 / h  +  var 1/2 sum_v mean_j (1 - sqrt(var_vj + 1e-4))_+
                +  cov 1/2 sum_v sum_{i != j} C_v,ij^2 / h
    quadratic:  beta mean|z1 - z2|^2  +  |C - I|_F^2                                          [cabannes]

C_v is the covariance of view v, C that of both views stacked, all divided by n. The quadratic form has a closed
form: T = (1 - beta) I + beta S^(-1/2) S_+ S^(-1/2) - lam/2 S^(-1) on centred moments. The minimum of the hinge form is
known where the views share their moments, see `hinge_minimum`.

Differs from [bardes]: covariances are divided by n, not n - 1, and the covariance term is the mean over the views,
not the sum. Cost of value and gradient O(r^2 h + r h^2); the closed form is two eigendecompositions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.linalg import low_rank_factor
from krepes.losses.batch import Batch, SampleStatistics, Terms
from krepes.losses.hinge_minimum import CONVEX, VARIANCE_FLOOR, hinge_minimum
from krepes.losses.loss import MomentLoss, check_weights, off_diagonal
from krepes.losses.statistics import MomentForms, Statistics
from krepes.moments import Moments


@dataclass(eq=False, repr=False)
class VICReg(MomentLoss):
    """Variance, invariance and covariance terms, each with its weight.

    Parameters
    ----------
    variance : "hinge" or "quadratic", default="hinge"
        How components are kept from collapsing: a hinge on their standard deviation, as published, or |C - I|_F^2,
        which is solved in closed form.
    invariance_weight, variance_weight, covariance_weight : float, defaults 25, 25, 1
        Weights of the three terms of the hinge form.
    beta : float, default=1.0
        Weight of the invariance term in the quadratic form. A component with correlation rho between the views
        has variance 1 - beta (1 - rho), and is dropped where that is negative.

    Examples
    --------
    Views that differ by 1 in one of two coordinates, far beyond the hinge and uncorrelated: 25 * 1 / 2.

    >>> import torch
    >>> from krepes.losses import Batch
    >>> Z1 = torch.tensor([[3.0, 3.0], [3.0, -3.0], [-3.0, 3.0], [-3.0, -3.0]])
    >>> terms = VICReg().terms(Batch((Z1, Z1 + torch.tensor([1.0, 0.0]))))
    >>> {name: float(term) for name, term in terms.items()}
    {'invariance': 12.5, 'variance': 0.0, 'covariance': 0.0}
    """

    name = "vicreg"
    intercept = "centered"
    _width = 0.0  # of the hinge's rounded corner

    variance: str = "hinge"
    invariance_weight: float = 25.0
    variance_weight: float = 25.0
    covariance_weight: float = 1.0
    beta: float = 1.0

    @property
    def rotation_invariant(self) -> bool:
        return self.variance == "quadratic"

    @property
    def quadratic_in_moments(self) -> bool:
        return self.variance == "quadratic"

    def offers(self, method: str) -> bool:
        if method in ("minimiser", "residuals"):
            return self.variance == "quadratic"
        if method == "smoothed":
            return self.variance == "hinge"
        if method == "start":
            return self.variance == "hinge" and self.variance_weight >= CONVEX * self.covariance_weight
        return super().offers(method)

    def of_statistics(self, statistics: Statistics) -> Terms:
        self._check()
        if self.variance == "hinge":
            return self._hinge(statistics)
        if self.variance == "quadratic":
            return self._quadratic(statistics)
        raise ValueError(f"variance={self.variance!r}: expected 'hinge' or 'quadratic'.")

    def _check(self) -> None:
        check_weights(**{name: value for name, value in self.get_params().items() if name != "variance"})

    def _hinge(self, statistics: Statistics) -> Terms:
        h = len(statistics.mean_1)
        variances, covariances = [statistics.variance_1], [statistics.covariance_1]
        if not statistics.shared:
            variances.append(statistics.variance_2)
            covariances.append(statistics.covariance_2)
        missing = [1 - (v + VARIANCE_FLOOR).sqrt() for v in variances]
        short = torch.stack([_rounded_hinge(x, self._width).mean() for x in missing])
        beside = torch.stack([off_diagonal(C) / h for C in covariances])
        return {
            "invariance": self.invariance_weight * statistics.distance / h,
            "variance": self.variance_weight * short.mean(),
            "covariance": self.covariance_weight * beside.mean(),
        }

    def _quadratic(self, statistics: Statistics) -> Terms:
        C = statistics.covariance
        return {
            "invariance": self.beta * statistics.distance,
            "variance": (1 - C.diagonal()).square().sum(),
            "covariance": off_diagonal(C),
        }

    def smoothed(self, width: float) -> VICReg:
        """This loss with the hinge's corner rounded over +-width: never below it, above by at most width/4 of
        the variance weight. Many components end exactly at the corner, where descent would crawl."""
        self.require("smoothed")
        rounded = clone(self)
        rounded._width = width
        return rounded

    def residuals(self, batch: Batch) -> Tensor:
        """sqrt(beta / b) (Z1 - Z2) and C - I, flattened to (b h + h^2,)."""
        self.require("residuals")
        check_weights(beta=self.beta)
        Z1, Z2 = self.views(batch)
        C = SampleStatistics(batch).covariance
        identity = torch.eye(len(C), dtype=C.dtype, device=C.device)
        return torch.cat([(self.beta / len(Z1)) ** 0.5 * (Z1 - Z2).flatten(), (C - identity).flatten()])

    def start(self, forms: MomentForms, n_components: int, lam: float) -> tuple[Tensor, bool]:
        """W (k, h) to descend from, and whether it is the minimum already; see `hinge_minimum`."""
        self.require("start")
        self._check()
        weights = self.invariance_weight, self.variance_weight, self.covariance_weight
        return hinge_minimum(forms, n_components, lam, *weights)

    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """The closed form of the quadratic loss: beta |z1 - z2|^2 expands to 2 beta tr W^T (S - S_+) W."""
        self.require("minimiser")
        S = moments.covariance
        S_plus = moments.S_plus - torch.outer(moments.mean, moments.mean)
        target = (1 - self.beta) * S + self.beta * S_plus
        W = low_rank_factor(S, target, lam, n_components, moments.S.trace().item())
        return W, -W.mT @ moments.mean


def _rounded_hinge(x: Tensor, width: float) -> Tensor:
    """(x)_+ with a parabola in place of the corner for |x| <= width."""
    if width == 0:
        return x.relu()
    return torch.where(x.abs() <= width, (x + width).square() / (4 * width), x.relu())
