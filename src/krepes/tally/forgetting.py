"""Rows taken back: read again under the global indices that they were added with, and subtracted.

    sums of the other rows = sums of all rows - sums of these rows

Random draws (views, folds, kept rows) are keyed by the index of a row, so its share of the sums can be computed again,
to rounding. Cost: one pass over the rows to forget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from krepes.base.accumulator import Accumulator, T
from krepes.base.blocks import Block, Reader
from krepes.base.reporting import named_few
from krepes.base.split import ROUNDING
from krepes.features import FeatureSpace, FitData, Run
from krepes.tally.fit import Fit
from krepes.tally.grouping import by_groups
from krepes.tally.tally import RowRanges, Tally


def forgotten(
    fit: Fit[T],
    accumulator: Accumulator[Any, T],
    data: FitData,
    rows: ArrayLike,
    run: Run,
    check_holds: Callable[[T, T], None],
) -> Fit[T]:
    """The fit without some rows; `check_holds(total, gone)` refuses rows that cannot all be in the sums."""
    space, tally = fit.space, fit.tally
    numbers = row_numbers(rows, data.n_rows, space, tally.rows)
    if tally.total is None or data.n_rows >= tally.n_rows:
        raise ValueError(
            f"Asked to forget {data.n_rows:,} rows of a model that has seen {tally.n_rows:,}: some must be left."
        )
    reader = Numbered(data.reader(space.inputs, space.placement), numbers)
    sums: Accumulator[Any, Any] = accumulator if data.group is None else by_groups(accumulator, data.group)
    value = run.engine.reduce(sums, reader, progress=run.progress)
    gone: Tally[T] = Tally.of(value, RowRanges.of_rows(numbers), data.group)
    assert gone.total is not None
    check_holds(tally.total, gone.total)
    return replace(fit, tally=tally - gone)


def check_weight_of(total: T, gone: T) -> None:
    """Refuse rows that weigh more than all rows of the model."""
    if gone.n > (1 + ROUNDING) * total.n:
        raise ValueError(
            "These rows cannot all have been added: the model has fewer rows, by weight. Check rows= and "
            "sample_weight=."
        )


def check_does_not_age(half_life: float | None) -> None:
    """Refuse to forget rows that have aged."""
    if half_life is not None:
        raise ValueError(
            f"The rows of this model have aged (half_life={half_life:g}), and what is left of each is not known "
            "exactly enough to be taken away. They fade by themselves; a window forgets (krepes.streams)."
        )


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


def row_numbers(rows: ArrayLike, n: int, space: FeatureSpace, seen: RowRanges | None) -> np.ndarray:
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
    if seen is not None:
        never = RowRanges.of_rows(numbers) - seen
        if len(never):
            raise ValueError(
                f"Row{'s' * (len(never) > 1)} {never}: never added to this model, or forgotten before."
            )
    if space.landmark_rows is not None:
        landmarks = np.intersect1d(numbers, space.landmark_rows)
        if len(landmarks):
            raise ValueError(
                f"{named_few('row', landmarks.tolist())}: every row is compared with landmarks, and these are some of "
                f"the {len(np.unique(space.landmark_rows)):,}, so they cannot be forgotten. Fit again without them. A "
                "model whose landmarks are points of your own (landmarks=array) can forget any row."
            )
    return numbers
