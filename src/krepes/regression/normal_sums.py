"""The normal equations of ridge regression as sums over rows: enough for a fit with any penalty.

    sum w,  sum w phi,  sum w y,  sum w phi phi^T,  sum w phi y^T,  sum w y^2,  sum w k(x, x)

    W = (A + penalty I)^-1 B,   b = ybar - W^T mu,     A, B centred by the means mu, ybar

The penalty is a noise variance: it stands beside a sum over rows, as in the lecture's v = (K + penalty I)^-1 y. Sums
over parts of the data add up, so that the fit without a fold, and its error on it, are a subtraction away:

    error of (W, b) on a fold = sum w |y - W^T phi - b|^2 = yy - 2 tr(W^T B) + tr(W^T A W)

with A, B, yy of the fold, centred by the means of the other folds. It equals that of refits to rounding. Memory
O(r^2 + r c), whatever n is; one Cholesky decomposition, O(r^3), per fold and penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import FieldSums
from krepes.base.codec import Bounds, Shape
from krepes.base.split import Parts
from krepes.regression.held_out_errors import PENALTIES, PenaltyErrors, beside_best

ROUNDING = 32  # units in the last place by which sums of squares may be off


@dataclass(frozen=True, eq=False)
class Centred:
    """A (r, r), B (r, c) and yy (c,): second moments about given means."""

    A: Tensor
    B: Tensor
    yy: Tensor

    def solved(self, penalty: float) -> Tensor | None:
        """W, (r, c); None where rounding leaves A + penalty I without a Cholesky factor, or numbers overflow."""
        damped = self.A.clone()
        damped.diagonal().add_(penalty)
        L, failed = torch.linalg.cholesky_ex(damped)
        if failed.item():
            return None
        W = torch.cholesky_solve(self.B, L)
        return W if torch.isfinite(W).all() else None

    def error(self, W: Tensor) -> float:
        """The sum of squared errors of W."""
        return (self.yy - 2 * (W * self.B).sum(0) + (W * (self.A @ W)).sum(0)).sum().item()


@dataclass(frozen=True, eq=False)
class NormalSums(FieldSums):
    """Sums over rows, float64.

    Attributes
    ----------
    n : float
        The sum of the weights; the number of rows where there are none.
    trace : float
        Sum of k(x, x).
    sum_phi : Tensor of shape (r,)
    sum_y : Tensor of shape (c,)
    outer : Tensor of shape (r, r)
    cross : Tensor of shape (r, c)
    squares : Tensor of shape (c,)

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    >>> sums = NormalSums.of_rows(x, 3 * x + 1)
    >>> W, b = sums.solution(1e-12)
    >>> round(W.item(), 6), round(b.item(), 6)
    (3.0, 1.0)
    """

    n: Annotated[float, Bounds(least=0)]
    trace: float
    sum_phi: Annotated[Tensor, Shape("r")]
    sum_y: Annotated[Tensor, Shape("c")]
    outer: Annotated[Tensor, Shape("r", "r")]
    cross: Annotated[Tensor, Shape("r", "c")]
    squares: Annotated[Tensor, Shape("c")]

    @classmethod
    def of_rows(cls, Phi: Tensor, Y: Tensor, weight: Tensor | None = None) -> NormalSums:
        """Of features (n, r) and targets (n, c) in memory."""
        Phi, Y = Phi.double(), Y.double()
        w = Phi.new_ones(len(Phi)) if weight is None else weight.double()
        weighted = w[:, None] * Phi
        outer = Phi.mT @ weighted
        return cls(
            w.sum().item(), outer.trace().item(), w @ Phi, w @ Y, outer, weighted.mT @ Y, w @ Y.square()
        )

    @property
    def means(self) -> tuple[Tensor, Tensor]:
        return self.sum_phi / self.n, self.sum_y / self.n

    @property
    def variance(self) -> float:
        """The variance of the rows in the kernel's space, mean k(x, x) - |mean phi|^2."""
        mean = self.trace / self.n
        centred = mean - self.means[0].square().sum().item()
        return centred if centred > 1e-12 * abs(mean) else max(mean, 1e-300)

    def centred(self, mu: Tensor, ybar: Tensor) -> Centred:
        """Second moments about given means."""
        s, t, n = self.sum_phi, self.sum_y, self.n
        A = self.outer - torch.outer(s, mu) - torch.outer(mu, s - n * mu)
        B = self.cross - torch.outer(s, ybar) - torch.outer(mu, t - n * ybar)
        return Centred(A, B, self.squares - 2 * t * ybar + n * ybar.square())

    def about(self, intercept: bool) -> tuple[Tensor, Tensor]:
        """The means to centre by; zero without an intercept."""
        return self.means if intercept else (torch.zeros_like(self.sum_phi), torch.zeros_like(self.sum_y))

    def solution(self, penalty: float, intercept: bool = True) -> tuple[Tensor, Tensor]:
        """W (r, c) and b (c,)."""
        mu, ybar = self.about(intercept)
        W = self.centred(mu, ybar).solved(penalty)
        if W is None:
            raise ValueError(
                f"penalty={penalty:.3g} is too small for features of this scale: the equations have no stable solution "
                "in this precision. Give a larger one, or dtype='float64'."
            )
        return W, ybar - W.mT @ mu


def penalty_grid(sums: NormalSums, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Penalties from nearly none to more than the data; none below the rounding of features of this dtype."""
    rounding = ROUNDING * torch.finfo(dtype).eps * sums.trace
    return np.unique(np.maximum(PENALTIES * (sums.n * sums.variance), rounding))


class FoldErrors:
    """The k-fold error of any penalty, from the sums of the folds.

    >>> x = torch.arange(6, dtype=torch.float64)[:, None]
    >>> folds = Parts({k: NormalSums.of_rows(x[k::2], x[k::2] ** 2) for k in range(2)})
    >>> errors = FoldErrors(folds, intercept=True)
    >>> bool(errors(1e-9) < errors(1e9))
    True
    """

    def __init__(self, folds: Parts[NormalSums], intercept: bool):
        total = folds.total
        self.n = total.n
        self.pairs = []
        for sums in folds.values():
            others = total - sums
            means = others.about(intercept)
            self.pairs.append((others.centred(*means), sums.centred(*means)))

    def __call__(self, penalty: float) -> float:
        """The mean squared error on held-out rows, summed over outputs; infinite where it cannot be solved."""
        error = 0.0
        for training, held_out in self.pairs:
            W = training.solved(penalty)
            error += np.inf if W is None else held_out.error(W)
        return error / self.n

    def search(self, penalties: np.ndarray) -> PenaltyErrors:
        """From the middle downhill in steps of two, then the neighbours of the best: errors have one minimum."""
        errors = np.full(len(penalties), np.nan)

        def at(place: int) -> float:
            if np.isnan(errors[place]):
                errors[place] = self(float(penalties[place]))
            return errors[place]

        here = 2 * (len(penalties) // 4)
        at(here)
        for step in (2, -2):
            while 0 <= here + step < len(penalties) and (
                at(here + step) < at(here) or not np.isfinite(at(here))
            ):
                here += step
        for place in beside_best(errors):
            at(place)
        return PenaltyErrors.of(penalties, errors, "folds")
