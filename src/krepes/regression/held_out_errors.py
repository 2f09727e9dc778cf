"""Ridge regression with every penalty, and its errors on rows that were left out.

    min over W, b of  sum_i w_i |y_i - W^T phi_i - b|^2 + penalty |W|^2

With P = sqrt(w) (phi - mean) = U diag(e)^(1/2) V^T, Q = sqrt(w) (y - mean) and shrink = e / (e + penalty),

    fit = U shrink U^T Q,      h_i = sum_k U_ik^2 shrink_k + w_i / sum w,      error_i = (Q - fit)_i / (1 - h_i)

is exact, the means included: the row is left out of them too. Without an intercept nothing is centred, and h has no
second term. From a kernel matrix K = Phi Phi^T the same follows with P P^T = sqrt(w) H K H^T sqrt(w): the function
space view of the same machine [lecture]. Cost O(n r min(n, r)) once, then O(n (r + c)) per penalty.

The errors of folds are in `normal_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from krepes.base.codec import Shape
from krepes.base.linalg import descending_eigh

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
        """W (r, c), or those of k(., x_i), (n, c), and b (c,) of the fit on all rows."""
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
