"""Predictions of few rows by machines that knew nothing of them: everything is chosen without each fold.

    for every fold:  kernel, metric, penalty from the other rows -> fit to these -> predictions of the fold

With a few dozen rows a metric fits the labels that it is judged by: with 40 rows, leaving out single rows under the
chosen kernel was 5 to 6 points of accuracy too good. Leaving out a row of balanced classes errs the other way, because
it is always in the smaller class. Folds are therefore stratified: each has its share of every class, or of every part
of the range of y. Encoding and scaling of columns, which see no target, come from all rows.

Cost: ten searches for a kernel, when the score is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.base.rows import Rows, take_rows
from krepes.kernels import Kernel
from krepes.machines.kept_rows import KeptRows, placed_blocks
from krepes.machines.kernel_ridge.sample_fit import JITTER
from krepes.machines.kernel_search import Labelled
from krepes.preprocessing.preparing import Candidates
from krepes.regression.ridge_algebra import PENALTIES, LeaveOneOut

if TYPE_CHECKING:
    from krepes.machines.kernel_ridge.machine import RidgeMachine

LEAST_NESTED, MOST_NESTED = 4, 200  # rows from and up to which kernels are chosen again without each fold
N_FOLDS = 10


def stratified_folds(y: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """A fold for every row, (n,), with equal shares of every class, or of every part of the range of y.

    >>> folds = stratified_folds(np.array([0, 1, 0, 1, 0, 1]), 3, 0)
    >>> sorted(folds[::2].tolist()), sorted(folds[1::2].tolist())
    ([0, 1, 2], [0, 1, 2])
    """
    draws = np.random.default_rng(seed)
    first = y if y.ndim == 1 else y[:, 0]
    order = np.lexsort([draws.random(len(y)), first])
    starts = range(0, len(y), n_folds)
    dealt = np.concatenate([draws.permutation(n_folds) for _ in starts])[: len(y)]
    folds = np.empty(len(y), dtype=np.int64)
    folds[order] = dealt
    return folds


def nested_predictions(machine: RidgeMachine, kept: KeptRows, weight: Tensor) -> Tensor:
    """What the kept rows are predicted to be by machines without their folds, (k, c); weights count classes, too."""
    space, targets = machine.space_, machine.targets_
    folds = stratified_folds(kept.y, N_FOLDS, space.seed)
    ((_, rows),) = placed_blocks(kept.inputs, space.device)
    Y, counts = (each.to(space.device) for each in (targets.matrix(kept.y), weight))
    found = torch.empty_like(Y)
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        y, kernel = kept.y[outside], space.kernel
        if not machine._kernel_given():
            labelled = Labelled(y, weight[outside].numpy(), targets, len(space.landmarks))
            sample = Candidates(take_rows(rows, outside), np.arange(len(y)))
            kernel = machine._search.choose(sample, space.inputs, space.seed, labelled).kernel
        Phi = _spanned(kernel, rows, space.landmarks)
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
        found[inside] = Phi[inside] @ W + b
    return found.cpu()


def _spanned(kernel: Kernel, rows: Rows, landmarks: Rows) -> Tensor:
    """Features of rows whose inner products are the kernel as far as landmarks span it, (n, r), float64."""
    values, U = descending_eigh(symmetric(kernel(landmarks).double()))
    kept = values > JITTER * values[0].clamp(min=1e-300)
    return kernel(rows, landmarks).double() @ (U[:, kept] * values[kept].rsqrt())
