"""Ridge regression with every penalty, from rows in memory or from sums, and its errors on rows that were left out.

    min over W, b of  sum_i w_i |y_i - W^T phi_i - b|^2 + penalty |W|^2

The penalty is a noise variance: it stands beside a sum over rows, as in the lecture's v = (K + penalty I)^-1 y.

**Rows.** With P = sqrt(w) (phi - mean) = U diag(e)^(1/2) V^T, Q = sqrt(w) (y - mean), shrink = e / (e + penalty),

    fit = U shrink U^T Q,      h_i = sum_k U_ik^2 shrink_k + w_i / sum w,      error_i = (Q - fit)_i / (1 - h_i)

is exact, the means included: the row is left out of them too. Without an intercept nothing is centred, and h has no
second term. From a kernel matrix K = Phi Phi^T the same follows with P P^T = sqrt(w) H K H^T sqrt(w): the function
space view of the same machine [lecture]. Cost O(n r min(n, r)) once, then O(n (r + c)) per penalty.

**Sums** w, w phi, w y, w phi phi^T, w phi y^T, w y^2 and w k(x, x) are enough for a fit. A, B centred by mu, ybar:

    W = (A + penalty I)^-1 B,   b = ybar - W^T mu
    error of (W, b) on a fold = sum w |y - W^T phi - b|^2 = yy - 2 tr(W^T B) + tr(W^T A W)

with A, B, yy of the fold, centred by the means of the other folds: sums over parts of the data add up, so that the fit
without a fold is a subtraction away. Memory O(r^2 + r c); a Cholesky decomposition, O(r^3), per fold and penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import FieldSums
from krepes.base.linalg import descending_eigh
from krepes.base.split import Parts
from krepes.base.storage.codec import Bounds, Shape

ROUNDING = 32  # units in the last place by which sums of squares may be off
PENALTIES = 10.0 ** np.arange(-8, 1.01, 0.5)  # of the variance of all rows together in the kernel's space
CUT = 1e-13  # of the largest eigenvalue: below it, rounding
FULL = 1e-12  # 1 - h below it: the row alone decides its prediction


@dataclass(frozen=True, eq=False)
class PenaltyErrors:
    """Errors of the penalties that were tried, on rows that were not fitted.

    Attributes
    ----------
    penalties : ndarray of shape (p,)
    errors : ndarray of shape (p,)
        Weighted mean squared errors, summed over outputs; mean losses where the loss is another one.
    by : "folds" or "leave one out"
    """

    penalties: Annotated[np.ndarray, Shape("p")]
    errors: Annotated[np.ndarray, Shape("p")]
    by: str

    @classmethod
    def of(cls, penalties: np.ndarray, errors: np.ndarray, by: str) -> PenaltyErrors:
        """Without those that were not tried (NaN) or are too small to be solved (infinite)."""
        tried = np.isfinite(errors)
        if not tried.any():
            raise ValueError(
                "No penalty gives a stable solution: look for extreme values in the rows, or give a larger penalty."
            )
        return cls(penalties[tried], errors[tried], by)

    @property
    def best(self) -> float:
        return float(self.penalties[int(np.argmin(self.errors))])


def beside_best(errors: np.ndarray) -> np.ndarray:
    """Places next to the best that were not tried."""
    if np.isnan(errors).all():  # none can be solved, which `PenaltyErrors` says
        return np.array([], dtype=np.int64)
    best = int(np.nanargmin(errors))
    places = np.array([place for place in (best - 1, best + 1) if 0 <= place < len(errors)], dtype=np.int64)
    return places[np.isnan(errors[places])]


class LeaveOneOut:
    """All ridge regressions of some rows, and their leave-one-out errors.

    Parameters
    ----------
    U : Tensor of shape (n, q), orthonormal columns
    e : Tensor of shape (q,)
        Squared singular values of the centred, weighted features.
    Y : Tensor of shape (n, c)
    weight : Tensor of shape (n,), positive
    intercept : bool
    back : Tensor of shape (r, q) or (n, q)
        From the basis to coefficients.
    center : Tensor of shape (r,) or (n,)
        The mean of the features, or of k(., x_i), over the rows.

    Examples
    --------
    >>> x = torch.arange(4, dtype=torch.float64)[:, None]
    >>> left_out = LeaveOneOut.of_features(x, x).predictions(1e-12)          # a line predicts itself
    >>> bool(torch.allclose(left_out, x))
    True
    """

    def __init__(
        self, U: Tensor, e: Tensor, Y: Tensor, weight: Tensor, intercept: bool, back: Tensor, center: Tensor
    ):
        self.U, self.e, self.Y, self.intercept = U, e, Y, intercept
        self.back, self.center, self.weight = back, center, weight
        self.root = weight.sqrt()[:, None]
        self.share = weight / weight.sum()
        self.mean = self.share @ Y if intercept else Y.new_zeros(Y.shape[1])
        self.Q = self.root * (Y - self.mean)
        self.projected = U.mT @ self.Q  # (q, c)

    @classmethod
    def of_features(
        cls, Phi: Tensor, Y: Tensor, weight: Tensor | None = None, intercept: bool = True
    ) -> LeaveOneOut:
        """From features (n, r) and targets (n, c), both float64."""
        weight = Phi.new_ones(len(Phi)) if weight is None else weight
        center = weight / weight.sum() @ Phi if intercept else Phi.new_zeros(Phi.shape[1])
        P = (Phi - center) * weight.sqrt()[:, None]
        if Phi.shape[1] < len(Phi):
            e, V = _positive(P.mT @ P)
            return cls(P @ (V / e.sqrt()), e, Y, weight, intercept, V, center)
        e, U = _positive(P @ P.mT)
        return cls(U, e, Y, weight, intercept, P.mT @ (U / e.sqrt()), center)

    @classmethod
    def of_kernel(
        cls, K: Tensor, Y: Tensor, weight: Tensor | None = None, intercept: bool = True
    ) -> LeaveOneOut:
        """From a kernel matrix (n, n): `coefficients` then multiply k(., x_i)."""
        weight = K.new_ones(len(K)) if weight is None else weight
        share = weight / weight.sum()
        mean = share @ K
        centred = K - mean - mean[:, None] + share @ mean if intercept else K
        root = weight.sqrt()
        e, U = _positive(root[:, None] * centred * root)
        back = root[:, None] * U / e.sqrt()
        if intercept:
            back = back - share[:, None] * back.sum(0)
        return cls(U, e, Y, weight, intercept, back, mean)

    def of_targets(self, Y: Tensor) -> LeaveOneOut:
        """The same rows with other targets (n, c), without another decomposition."""
        return LeaveOneOut(self.U, self.e, Y, self.weight, self.intercept, self.back, self.center)

    def predictions(self, penalty: float) -> Tensor:
        """What each row is predicted to be by the fit on all others, (n, c)."""
        return self.Y - self._errors(penalty) / self.root

    def errors(self, penalties: Sequence[float] | np.ndarray) -> np.ndarray:
        """The weighted mean of the squared errors of rows left out, summed over outputs, for every penalty."""
        sums = [self._errors(float(penalty)).square().sum().item() for penalty in penalties]
        return np.array(sums) / self.weight.sum().item()

    def search(self, penalties: np.ndarray) -> PenaltyErrors:
        """The errors of every second penalty, then of the neighbours of the best."""
        errors = np.full(len(penalties), np.nan)
        errors[::2] = self.errors(penalties[::2])
        around = beside_best(errors)
        errors[around] = self.errors(penalties[around])
        return PenaltyErrors.of(penalties, errors, "leave one out")

    def chosen(self, penalties: np.ndarray) -> tuple[float, float, Tensor]:
        """The best of these penalties, its error, and the squared error of every row, (n,)."""
        found = self.search(penalties)
        rows = (self._errors(found.best) / self.root).square().sum(1)
        return found.best, float(found.errors.min()), rows

    def coefficients(self, penalty: float) -> tuple[Tensor, Tensor]:
        """W (r, c), or the coefficients of k(., x_i), (n, c), and b (c,) of the fit on all rows."""
        W = self.back @ ((self.e.sqrt() / (self.e + penalty))[:, None] * self.projected)
        return W, self.mean - self.center @ W if self.intercept else self.mean

    @cached_property
    def squares(self) -> Tensor:
        return self.U.square()

    def _errors(self, penalty: float) -> Tensor:
        """Of rows left out, (n, c), times the root of the weights."""
        shrink = self.e / (self.e + penalty)
        residual = self.Q - self.U @ (shrink[:, None] * self.projected)
        leverage = self.squares @ shrink
        if self.intercept:
            leverage = leverage + self.share
        return residual / (1 - leverage).clamp_(min=FULL)[:, None]


def _positive(M: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenpairs above rounding; at least one, so that constant rows have a fit too."""
    e, V = descending_eigh(M)
    kept = max(1, int((e > CUT * e[0].clamp(min=0)).sum()))
    return e[:kept].clamp(min=torch.finfo(e.dtype).tiny ** 0.5), V[:, :kept]


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
