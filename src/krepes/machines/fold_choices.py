"""Few rows in stratified folds, with a kernel that was chosen without each fold.

With a few dozen rows, a kernel fits the labels that it is judged by. Leaving out single rows of balanced classes errs
the other way, because a row that is left out is always in the smaller class. Folds therefore have equal shares of every
class, or of every part of the range of y. Encoding and scaling of columns, which see no target, come from all rows.

Cost: ten searches for a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.base.rows import Rows, take_rows
from krepes.kernels import Kernel
from krepes.machines.kept_rows import KeptRows, placed_blocks
from krepes.machines.kernel_search import Labelled
from krepes.machines.labelled_machine import LabelledMachine
from krepes.preprocessing.preparing import Candidates

N_FOLDS = 10
JITTER = 1e-11  # of the largest eigenvalue: smaller ones are rounding


@dataclass(frozen=True, eq=False)
class FoldChoice:
    """A fold, and features of all rows under a kernel that was chosen without it.

    Attributes
    ----------
    inside, outside : ndarrays of int64
        Places of the rows.
    Phi : Tensor of shape (n, r), float64
        Their inner products are the kernel, as far as landmarks span it.
    diagonal : Tensor of shape (n,)
        k(x, x).
    """

    inside: np.ndarray
    outside: np.ndarray
    Phi: Tensor
    diagonal: Tensor


def fold_choices(machine: LabelledMachine[Any, Any], kept: KeptRows, weight: Tensor) -> Iterator[FoldChoice]:
    """Every fold of the kept rows, all of which the machine was fitted on; weights are as the search counts rows."""
    space, targets = machine.space_, machine.targets_
    folds = stratified_folds(kept.y, N_FOLDS, space.seed)
    ((_, rows),) = placed_blocks(kept.inputs, space.device)
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        kernel = space.kernel
        if not machine._kernel_given():
            labelled = Labelled(kept.y[outside], weight[outside].numpy(), targets, len(space.landmarks))
            sample = Candidates(take_rows(rows, outside), np.arange(len(outside)))
            kernel = machine._search.choose(sample, space.inputs, space.seed, labelled).kernel
        yield FoldChoice(inside, outside, _spanned(kernel, rows, space.landmarks), kernel.diag(rows).double())


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


def _spanned(kernel: Kernel, rows: Rows, landmarks: Rows) -> Tensor:
    """Features of rows whose inner products are the kernel as far as landmarks span it, (n, r), float64."""
    values, U = descending_eigh(symmetric(kernel(landmarks).double()))
    kept = values > JITTER * values[0].clamp(min=1e-300)
    return kernel(rows, landmarks).double() @ (U[:, kept] * values[kept].rsqrt())
