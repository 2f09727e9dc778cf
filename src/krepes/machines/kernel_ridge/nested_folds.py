"""Predictions of few rows by machines that knew nothing of them: everything is chosen without each fold.

    for every fold:  kernel, metric, penalty from the other rows -> fit to these -> predictions of the fold

With 40 rows, leaving out single rows under the chosen kernel was 5 to 6 points of accuracy too good. Conformal sets
and intervals take these predictions, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from krepes.machines.fold_choices import fold_choices, stratified_folds
from krepes.machines.kept_rows import KeptRows
from krepes.regression.ridge_algebra import PENALTIES, LeaveOneOut

if TYPE_CHECKING:
    from krepes.machines.kernel_ridge.machine import RidgeMachine

LEAST_NESTED, MOST_NESTED = 4, 200  # rows from and up to which kernels are chosen again without each fold


def nested_predictions(machine: RidgeMachine, kept: KeptRows, weight: Tensor) -> Tensor:
    """What the kept rows are predicted to be by machines without their folds, (k, c); weights count classes, too."""
    space = machine.space_
    Y, counts = (each.to(space.device) for each in (machine.targets_.matrix(kept.y), weight))
    found = torch.empty_like(Y)
    for fold in fold_choices(machine, kept, weight):
        outside, Phi, y = fold.outside, fold.Phi, kept.y[fold.outside]
        fits = machine._fits_of_rows(
            Phi[outside], y, weight[outside], stratified_folds(y, machine.n_folds, space.seed)
        )
        if fits is not None:
            W, b = fits.W, fits.b
        else:
            left_out = LeaveOneOut.of_features(
                Phi[outside], Y[outside], counts[outside], machine.fit_intercept
            )
            penalties = PENALTIES * left_out.e.sum().item()
            best = left_out.chosen(penalties)[0] if machine.penalty == "auto" else float(machine.penalty)
            W, b = left_out.coefficients(best)
        found[fold.inside] = Phi[fold.inside] @ W + b
    return found.cpu()
