"""The penalty with the lowest error on rows that were not fitted: by folds from sums, or by leaving out single rows.

    error(penalty) = 1 / sum w  sum over folds f of  sum over rows of f of  w |y - W_f^T phi - b_f|^2

W_f and b_f are the fit on all rows but the fold. All of it follows from the sums of the folds, without a second read
of the rows, and equals refits to rounding. Cost: one Cholesky decomposition, O(r^3), per fold and penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from krepes.base.split import Key, Parts
from krepes.machines.kernel_ridge.normal_sums import NormalSums

PENALTIES = 10.0 ** np.arange(-8, 1.01, 0.5)  # of the variance of all rows together in the kernel's space
ROUNDING = 32  # units in the last place by which sums of squares may be off


@dataclass(frozen=True, eq=False)
class PenaltyErrors:
    """Errors of penalties on rows that were not fitted.

    Attributes
    ----------
    penalties : ndarray of shape (p,)
    errors : ndarray of shape (p,)
        Weighted mean squared errors, summed over outputs; infinite where a penalty is too small to be solved.
    by : "folds", "leave one out" or "given"
    """

    penalties: np.ndarray
    errors: np.ndarray
    by: str

    @property
    def best(self) -> float:
        if not np.isfinite(self.errors).any():
            raise ValueError(
                "No penalty gives a stable solution: look for extreme values in the rows, or give a larger penalty."
            )
        return float(self.penalties[int(np.nanargmin(self.errors))])


def penalty_grid(sums: NormalSums, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """Penalties from nearly none to more than the data; none below the rounding of features of this dtype."""
    rounding = ROUNDING * torch.finfo(dtype).eps * sums.trace
    return np.unique(np.maximum(PENALTIES * (sums.n * sums.variance), rounding))


def fold_errors(folds: Parts[NormalSums], penalties: np.ndarray, intercept: bool) -> np.ndarray:
    """The k-fold error of every penalty, (p,)."""
    total, errors = folds.total, np.zeros(len(penalties))
    for sums in folds.values():
        others = total - sums
        means = others.about(intercept)
        training, held_out = others.centred(*means), sums.centred(*means)
        for i, penalty in enumerate(penalties):
            W = training.solved(float(penalty))
            errors[i] += np.inf if W is None else held_out.error(W)
    return errors / total.n


def fold_solutions(
    folds: Parts[NormalSums], penalty: float, intercept: bool
) -> dict[Key, tuple[Tensor, Tensor]]:
    """W and b of the fit without each fold."""
    total = folds.total
    return {key: (total - sums).solution(penalty, intercept) for key, sums in folds.items()}
