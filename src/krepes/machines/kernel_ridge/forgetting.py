"""Rows taken back: the sums lose them, as if they had never been added.

    sums of the other rows = sums of all rows - sums of these rows

exactly, to rounding, in the same feature space. What was fixed before the sums, such as landmarks and lengthscale, may
still depend on the rows: `still_dependent` lists it. Cost: one pass over the rows to forget, and O(k r^2) for k folds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.blocks import Block, Reader
from krepes.base.caller_warning import named_few
from krepes.base.sparse_rows import SparseRows
from krepes.base.split import Key, Parts
from krepes.features import FeatureSpace
from krepes.machines.kept_rows import KeptRows
from krepes.machines.kernel_ridge.ridge_pass import RidgeTotal
from krepes.machines.normal_sums import NormalSums
from krepes.machines.targets import Quantities, Targets

ROUNDING = 1e-10  # of the weight of a fold; less than that is no row
SAME = 1e-5  # relative difference up to which two numbers may be the same number


@dataclass(frozen=True, eq=False)
class Numbered(Reader):
    """Another reader's rows under their own global indices."""

    reader: Reader
    rows: np.ndarray
    start: int = 0

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.reader.n_rows

    def read(self, batch_rows: int, start: int = 0) -> Iterator[Block]:
        first = self.start + start
        for block in self.reader.read(batch_rows, start):
            last = first + len(block)
            yield replace(block, rows=torch.from_numpy(self.rows[first:last]))
            first = last

    def parts(self, n: int) -> list[Numbered]:
        found, first = [], self.start
        for part in self.reader.parts(n):
            found.append(Numbered(part, self.rows, first))
            first += part.n_rows
        return found

    def identity(self) -> dict[str, str]:
        raise TypeError("Forgetting has no checkpoints.")


def row_numbers(rows: ArrayLike, n: int, space: FeatureSpace) -> np.ndarray:
    """The global indices of n rows that may be forgotten; an error where they may not."""
    given = np.asarray(rows)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"rows= must be the indices of the {n:,} rows of X, as they were counted when they were added; got "
            f"{given.dtype} of shape {given.shape}."
        )
    numbers = given.astype(np.int64)
    if len(numbers) and numbers.min() < 0:
        raise ValueError(f"rows= has the index {numbers.min()}; rows are counted from 0.")
    if len(np.unique(numbers)) < n:
        raise ValueError("rows= names a row twice.")
    if space.landmark_rows is not None:
        landmarks = np.intersect1d(numbers, space.landmark_rows)
        if len(landmarks):
            raise ValueError(
                f"{named_few('row', landmarks.tolist())}: every row is compared with landmarks, and these are some of "
                f"the {len(np.unique(space.landmark_rows)):,}, so they cannot be forgotten. Fit again without them. A "
                "model whose landmarks are points of your own (landmarks=array) can forget any row."
            )
    return numbers


def without(total: RidgeTotal, gone: RidgeTotal, n: int) -> RidgeTotal:
    """The sums without those of n rows; an error where the rows cannot have been added."""
    _check_kept(total.kept, gone.kept)
    left: dict[Key, NormalSums] = {}
    for key, sums in gone.parts.items():
        if key not in total.parts or sums.n > (1 + ROUNDING) * total.parts[key].n:
            raise ValueError(
                "These rows cannot all have been added: one of the folds has fewer rows than are to be forgotten. "
                "Check rows= and sample_weight=."
            )
    for key, sums in total.parts.items():
        if key not in gone.parts:
            left[key] = sums
        elif gone.parts[key].n < (1 - ROUNDING) * sums.n:
            left[key] = sums - gone.parts[key]
    kept = total.kept - gone.kept
    if not left or not len(kept.rows):
        raise ValueError(
            "Nothing would be left of this model: these are all of its rows, or all that are kept."
        )
    return RidgeTotal(Parts(left), replace(kept, forgotten=kept.forgotten + n))


def _check_kept(kept: KeptRows, gone: KeptRows) -> None:
    """Refuse rows that would have been kept, and were not, or not with these values."""
    known = np.isin(gone.rows.numpy(), kept.rows.numpy())
    if not kept.complete:
        known |= (gone.draws >= kept.draws.max()).numpy()
    never = gone.rows.numpy()[~known]
    if len(never):
        raise ValueError(
            f"{named_few('row', np.sort(never).tolist())}: never added to this model, or forgotten before."
        )
    common = np.intersect1d(kept.rows.numpy(), gone.rows.numpy())
    first, second = (part.take(_places(part.rows.numpy(), common)) for part in (kept, gone))
    different = ~(
        _same_inputs(first, second)
        & _same(first.y, second.y)
        & _same(first.weight.numpy(), second.weight.numpy())
    )
    if different.any():
        raise ValueError(
            f"{named_few('row', common[different].tolist())}: X, y or sample_weight is not what was added under this "
            "index."
        )


def _places(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    order = np.argsort(rows)
    return order[np.searchsorted(rows, wanted, sorter=order)]


def _same(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether rows of numbers are the same, (n,)."""
    if not len(first):
        return np.ones(0, dtype=bool)
    first, second = (np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in (first, second))
    size = np.abs(first).max(axis=1, keepdims=True)
    return (np.abs(first - second) <= SAME * size).all(axis=1)


def _same_inputs(first: KeptRows, second: KeptRows) -> np.ndarray:
    if isinstance(first.inputs, Tensor) and isinstance(second.inputs, Tensor):
        return _same(first.inputs.numpy(), second.inputs.numpy())
    if isinstance(first.inputs, SparseRows) and isinstance(second.inputs, SparseRows):
        one, other = first.inputs.csr, second.inputs.csr
        size, apart = (abs(part).max(axis=1).toarray().reshape(-1) for part in (one, one - other))
        return apart <= SAME * size
    return np.array(
        [not isinstance(a, str | int | float) or a == b for a, b in zip(first.inputs, second.inputs)],
        dtype=bool,
    )


def still_dependent(space: FeatureSpace, targets: Targets, kernel_given: bool) -> list[str]:
    """What forgetting leaves as it was: all that the first rows have fixed."""
    inputs = space.inputs
    parts = {
        "which rows are landmarks": space.landmark_rows is not None,
        "the kernel, its lengthscale and metric": not kernel_given,
        "the scales and levels of columns": not (
            inputs.encoder is None and inputs.normalize is None and inputs.shift_ is None
        ),
        "the unit of the targets": isinstance(targets, Quantities),
        "the list of classes": not isinstance(targets, Quantities),
    }
    return [name for name, depends in parts.items() if depends]
