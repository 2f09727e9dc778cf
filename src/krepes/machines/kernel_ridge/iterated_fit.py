"""A fit by conjugate gradients: many reads of the rows and no sums, for more landmarks than can be solved directly.

The penalty is chosen on the kept rows with a part of the landmarks; then the machine and those without each fold are
iterated side by side, in the same reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from krepes.base.accumulator import Accumulator
from krepes.base.split import ByFold, Key, Parts
from krepes.features import FeatureSpace
from krepes.features.landmark_choice import AUTO_LANDMARKS
from krepes.machines.kept_rows import KeepRows, KeptRows
from krepes.machines.kernel_ridge.conjugate_solver import KernelProducts, iterated
from krepes.machines.kernel_ridge.solution import (
    HeldOutPredictions,
    RidgeSolution,
    folds_of,
    kept_features,
    predictions_by_folds,
)
from krepes.machines.kernel_ridge.solving import FEW_ROWS, penalty_errors
from krepes.machines.targets import Targets
from krepes.regression.leave_one_out import LeaveOneOut
from krepes.regression.normal_sums import NormalSums
from krepes.regression.penalty_choice import PenaltyErrors

Reduce = Callable[[Accumulator[Any, Any], str], Any]  # one read of the rows, with a name for its progress


@dataclass(frozen=True)
class IteratedFit:
    """Settings of a machine that is fitted so."""

    space: FeatureSpace
    targets: Targets
    penalty: float | str  # a number, or "auto"
    intercept: bool
    n_folds: int
    n_kept: int

    def solution(self, reduced: Reduce) -> RidgeSolution:
        """Coefficients, the fits without each fold, and predictions of the kept rows."""
        space = self.space
        kept: KeptRows = reduced(KeepRows(self.n_kept, space.seed), "Keeping rows")
        folds, of_row = ByFold(self.n_folds, space.seed), folds_of(space, kept, self.n_folds)
        keys = [int(key) for key in np.unique(of_row)]
        keys = keys if len(keys) > 1 else []
        errors = self._errors_of_sample(kept, of_row) if self.penalty == "auto" else None
        penalty = float(self.penalty) if errors is None else errors.best
        products = KernelProducts(space, self.targets, folds, keys)
        found = iterated(products, reduced, kept, penalty, self.intercept)
        fold_A, fold_b = (found.A[1:], found.b[1:]) if keys else (found.A, found.b)
        keys = keys or [0]
        places = torch.from_numpy(np.searchsorted(keys, of_row)).clamp(max=len(keys) - 1)
        predictions = predictions_by_folds(space, kept, fold_A, fold_b, places)
        if errors is None:
            misses = (self.targets.matrix(kept.y) - predictions).square().sum(1)
            error = (kept.weight @ misses / kept.weight.sum()).item()
            errors = PenaltyErrors.of(np.array([penalty]), np.array([error]), "folds")
        held = HeldOutPredictions(kept.rows, places, kept.y, kept.weight, predictions, predictions)
        return RidgeSolution(
            found.A[0], found.b[0], penalty, errors, keys, fold_A, fold_b, held, found.iterations
        )

    def _errors_of_sample(self, kept: KeptRows, folds: np.ndarray) -> PenaltyErrors:
        """Errors of penalties on the kept rows, with at most AUTO_LANDMARKS of the landmarks."""
        Phi = kept_features(self.space.with_few_landmarks(AUTO_LANDMARKS), kept)
        Y, weight = self.targets.matrix(kept.y).to(Phi), kept.weight.to(Phi)
        inside = {int(key): torch.from_numpy(folds == key).to(Phi.device) for key in np.unique(folds)}
        sums: dict[Key, NormalSums] = {
            key: NormalSums.of_rows(Phi[i], Y[i], weight[i]) for key, i in inside.items()
        }
        left_out = None
        if len(Phi) <= FEW_ROWS or len(sums) < 2:
            left_out = LeaveOneOut.of_features(Phi, Y, weight, self.intercept)
        return penalty_errors(Parts(sums), left_out, self.penalty, self.space.dtype, self.intercept)
