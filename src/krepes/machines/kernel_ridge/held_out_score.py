"""How well a machine predicts rows that were left out, from what it has solved: no data are read.

    accuracy  = sum of w over rows that are predicted right / sum w         beside it, the share of the largest class
    R^2       = 1 - sum w (y - prediction)^2 / sum w (y - mean y)^2         beside it, 0 of the mean

Kernel, metric and penalty were chosen with these rows, so that the score is a little too good. Rows that were kept
apart tell the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krepes.machines.kernel_ridge.solution import RidgeSolution
from krepes.machines.targets import Classes, Targets


@dataclass(frozen=True)
class HeldOutScore:
    """A score on rows that were left out. `str(score)` is one line.

    Attributes
    ----------
    metric : "accuracy" or "r2"
    value : float
    floor : float
        What a constant would have: the share of the largest class, or 0.
    n_rows : int
    by : "leave one out" or "folds"
    """

    metric: str
    value: float
    floor: float
    n_rows: int
    by: str

    def __str__(self) -> str:
        how = "leaving out one row at a time" if self.by == "leave one out" else "leaving out folds"
        rows = f"{self.n_rows:,} rows, {how}"
        if self.metric == "r2":
            return f"R² {self.value:.3f} ({rows})"
        return f"accuracy {100 * self.value:.1f} %; the largest class has {100 * self.floor:.1f} % ({rows})"


def held_out_score(solution: RidgeSolution, targets: Targets) -> HeldOutScore:
    """The score of the predictions that a solution keeps of rows it was not fitted on."""
    held = solution.held_out
    predicted, w = held.predictions.double().cpu().numpy(), held.weight.double().cpu().numpy()
    by = "leave one out" if solution.errors.by == "leave one out" else "folds"
    if isinstance(targets, Classes):
        codes = np.asarray(held.y)
        shares = np.bincount(codes, weights=w) / w.sum()
        right = predicted.argmax(axis=1) == codes
        return HeldOutScore("accuracy", float(w @ right / w.sum()), float(shares.max()), len(w), by)
    Y = targets.matrix(held.y).numpy()
    around = Y - w @ Y / w.sum()
    left, spread = (float((w @ np.square(part)).sum()) for part in (Y - predicted, around))
    return HeldOutScore("r2", 1 - left / spread if spread > 0 else float("nan"), 0.0, len(w), by)
