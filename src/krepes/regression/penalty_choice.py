"""The penalty with the lowest error on rows that were not fitted: by folds from sums, or by leaving out single rows.

    error(penalty) = 1 / sum w  sum over folds f of  sum over rows of f of  w |y - W_f^T phi - b_f|^2

W_f and b_f are the fit on all rows but the fold. All of it follows from the sums of the folds, without a second read
of the rows, and equals refits to rounding. Cost: one Cholesky decomposition, O(r^3), per fold and penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch

from krepes.base.codec import Shape
from krepes.base.split import Parts
from krepes.regression.normal_sums import NormalSums

PENALTIES = 10.0 ** np.arange(-8, 1.01, 0.5)  # of the variance of all rows together in the kernel's space
ROUNDING = 32  # units in the last place by which sums of squares may be off


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


def searched(error: Callable[[float], float], penalties: np.ndarray) -> np.ndarray:
    """The errors of a grid of penalties: every second one, then the neighbours of the best; NaN for the others.

    >>> searched(lambda p: (p - 3) ** 2, np.arange(6.0))
    array([ 9.,  4.,  1.,  0.,  1., nan])
    """
    errors = np.full(len(penalties), np.nan)
    errors[::2] = [error(float(penalty)) for penalty in penalties[::2]]
    return _refined(error, penalties, errors)


def walked(error: Callable[[float], float], penalties: np.ndarray) -> np.ndarray:
    """The same for errors that take long and have one minimum: from the middle, downhill in steps of two.

    >>> walked(lambda p: (p - 3) ** 2, np.arange(8.0))
    array([nan,  4.,  1.,  0.,  1., nan,  9., nan])
    """
    errors = np.full(len(penalties), np.nan)

    def at(place: int) -> float:
        if np.isnan(errors[place]):
            errors[place] = error(float(penalties[place]))
        return errors[place]

    here = 2 * (len(penalties) // 4)
    at(here)
    for step in (2, -2):
        while 0 <= here + step < len(penalties) and (at(here + step) < at(here) or not np.isfinite(at(here))):
            here += step
    return _refined(error, penalties, errors)


def _refined(error: Callable[[float], float], penalties: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """With the neighbours of the best penalty."""
    best = int(np.nanargmin(errors))
    for place in (best - 1, best + 1):
        if 0 <= place < len(penalties) and np.isnan(errors[place]):
            errors[place] = error(float(penalties[place]))
    return errors


def penalty_grid(sums: NormalSums, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Penalties from nearly none to more than the data; none below the rounding of features of this dtype."""
    rounding = ROUNDING * torch.finfo(dtype).eps * sums.trace
    return np.unique(np.maximum(PENALTIES * (sums.n * sums.variance), rounding))


class FoldErrors:
    """The k-fold error of any penalty, from the sums of the folds.

    >>> import torch
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
