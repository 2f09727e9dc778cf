"""The transductive form of a classifier: rows without labels take part with the class that a first fit gives them.

See `krepes.regression.TransductiveRidge`, which is fitted on the features of the labelled rows, all of which are kept
with the model, and of at most 5000 unlabelled ones. The solution has the form of any other: what it predicts for rows
left out are predictions without their label and without the guesses that it has helped to make.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from krepes.features.space import FeatureSpace
from krepes.machines.kernel_ridge.solution import RidgeSolution
from krepes.regression.transductive import TransductiveRidge

MOST_UNLABELLED = 5000


def transduced(
    solution: RidgeSolution,
    space: FeatureSpace,
    Phi: Tensor,  # (n, r), in the order of the held-out rows
    Y: Tensor,  # (n, c)
    unlabelled: Tensor,  # (n', r)
) -> tuple[RidgeSolution, TransductiveRidge]:
    """The solution with the unlabelled rows, and the regression behind it."""
    fit = TransductiveRidge().fit(Phi.cpu().numpy(), Y.cpu().numpy(), unlabelled.cpu().numpy())
    F = space.features.F
    held_out = replace(solution.held_out, predictions=torch.from_numpy(fit.loo_predictions_))
    A, b = F @ torch.from_numpy(fit.coef_).to(F), torch.from_numpy(fit.intercept_).to(F)
    return replace(solution, A=A, b=b, penalty=float(fit.alpha_ * fit.unit_), held_out=held_out), fit
