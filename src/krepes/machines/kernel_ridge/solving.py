"""From sums to a solution: the penalty, the fit on all rows, those without each fold, and predictions of kept rows.

Direct solves only; `conjugate_solver` serves where there are too many landmarks for sums.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from krepes.base.split import Parts
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeptRows
from krepes.machines.kernel_ridge.solution import Fits, HeldOutPredictions, RidgeSolution
from krepes.regression.leave_one_out import LeaveOneOut
from krepes.regression.normal_sums import NormalSums
from krepes.regression.penalty_choice import (
    FoldErrors,
    PenaltyErrors,
    fold_solutions,
    penalty_grid,
    searched,
    walked,
)

FEW_ROWS = 2000  # up to which single rows are left out instead of folds


def penalty_errors(
    folds: Parts[NormalSums],
    left_out: LeaveOneOut | None,
    penalty: float | str,  # a number, or "auto"
    dtype: torch.dtype,  # of the features: smaller penalties are rounding
    intercept: bool,
) -> PenaltyErrors:
    """Errors on rows that were not fitted: single rows left out where they are given, else folds."""
    penalties = penalty_grid(folds.total, dtype) if penalty == "auto" else np.array([float(penalty)])
    if left_out is not None:
        return PenaltyErrors.of(penalties, searched(left_out.error, penalties), "leave one out")
    if len(folds) < 2:  # a row or two, all in one fold: nothing to choose by
        return PenaltyErrors(penalties[len(penalties) // 2 :][:1], np.zeros(1), "folds")
    return PenaltyErrors.of(penalties, walked(FoldErrors(folds, intercept), penalties), "folds")


def ridge_fits(
    folds: Parts[NormalSums],
    Phi: Tensor,  # (k, r), features of the kept rows
    Y: Tensor,  # (k, c)
    weight: Tensor,  # (k,)
    complete: bool,  # whether all rows are kept
    penalty: float | str,
    dtype: torch.dtype,
    intercept: bool,
) -> Fits:
    """Ridge regression on all rows and without each fold; without each row where all of them are at hand."""
    left_out = None
    if complete and (len(Phi) <= FEW_ROWS or len(folds) < 2):
        left_out = LeaveOneOut.of_features(Phi, Y.to(Phi), weight.to(Phi), intercept)
    errors = penalty_errors(folds, left_out, penalty, dtype, intercept)
    W, b = folds.total.solution(errors.best, intercept)
    without = {0: (W, b)}
    if len(folds) > 1:
        solved = fold_solutions(folds, errors.best, intercept)
        without = {int(key): fit for key, fit in solved.items()}
    single = None if left_out is None else left_out.predictions(errors.best).cpu()
    return Fits(errors, W, b, without, single)


def solution_of(
    fits: Fits, space: FeatureSpace, kept: KeptRows, Phi: Tensor, weight: Tensor, fold_of_row: np.ndarray
) -> RidgeSolution:
    """Coefficients of the landmarks, and what the fits predict for kept rows that they have not seen."""
    places = fits.places(fold_of_row)
    by_folds = torch.empty(len(Phi), len(fits.b), dtype=torch.float64)
    for place, (fold_W, fold_b) in enumerate(fits.without.values()):
        inside = places == place
        by_folds[inside] = (Phi[inside.to(Phi.device)] @ fold_W + fold_b).cpu()
    F, single = space.features.F, by_folds if fits.left_out is None else fits.left_out
    return RidgeSolution(
        F @ fits.W,
        fits.b,
        fits.errors.best,
        fits.errors,
        list(fits.without),
        torch.stack([F @ fold_W for fold_W, _ in fits.without.values()]),
        torch.stack([fold_b for _, fold_b in fits.without.values()]),
        HeldOutPredictions(kept.rows, places, kept.y, weight, single, by_folds),
    )
