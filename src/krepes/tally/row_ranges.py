"""Which rows a model has seen, as ranges of their global indices.

    {0, ..., 999} and {2000, ..., 2999}  ->  ((0, 1000), (2000, 3000))

Rows come in long runs, so that the list is short: two numbers for every run. Union, difference and intersection cost
as many steps as there are ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Range = tuple[int, int]


@dataclass(frozen=True)
class RowRanges:
    """Ranges first .. stop - 1 of row indices, in order, which neither overlap nor touch.

    Examples
    --------
    >>> seen = RowRanges.of(0, 1000) | RowRanges.of(1000, 500) | RowRanges.of(2000, 1)
    >>> seen.ranges, len(seen)
    (((0, 1500), (2000, 2001)), 1501)
    >>> (seen - RowRanges.of(10, 5)).ranges[:2], (seen & RowRanges.of(1400, 9999)).ranges
    (((0, 10), (15, 1500)), ((1400, 1500), (2000, 2001)))
    >>> str(seen)
    '0 to 1,499 and 2,000'
    """

    ranges: tuple[Range, ...] = ()

    @classmethod
    def of(cls, first: int, n: int) -> RowRanges:
        """The n rows from `first` on."""
        return cls(((int(first), int(first + n)),) if n else ())

    @classmethod
    def of_rows(cls, rows: np.ndarray) -> RowRanges:
        """Some rows by their indices, in any order."""
        ordered = np.unique(rows)
        runs = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1) if len(ordered) else []
        return cls(tuple((int(run[0]), int(run[-1]) + 1) for run in runs))

    def __len__(self) -> int:
        return sum(stop - first for first, stop in self.ranges)

    def __or__(self, other: RowRanges) -> RowRanges:
        joined: list[Range] = []
        for first, stop in sorted((*self.ranges, *other.ranges)):
            if joined and first <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], stop)
            else:
                joined.append((first, stop))
        return RowRanges(tuple(joined))

    def __sub__(self, other: RowRanges) -> RowRanges:
        return RowRanges(tuple(self._less(other)))

    def _less(self, other: RowRanges) -> Iterator[Range]:
        cuts, place = other.ranges, 0
        for first, stop in self.ranges:
            while place < len(cuts) and cuts[place][1] <= first:
                place += 1
            for cut, end in cuts[place:]:
                if cut >= stop:
                    break
                if cut > first:
                    yield first, cut
                first = max(first, end)
            if first < stop:
                yield first, stop

    def __and__(self, other: RowRanges) -> RowRanges:
        return self - (self - other)

    def __str__(self) -> str:
        words = [f"{a:,}" if b == a + 1 else f"{a:,} to {b - 1:,}" for a, b in self.ranges]
        if len(words) > 3:
            words = [*words[:2], f"{len(words) - 2:,} more ranges"]
        return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"

    def state(self) -> Tensor:  # shape: (k, 2)
        """For a file."""
        return torch.tensor(self.ranges, dtype=torch.int64).reshape(-1, 2)

    @classmethod
    def from_state(cls, state: Tensor) -> RowRanges:
        edges = state.flatten()
        ordered = bool((edges.diff() > 0).all())
        if state.dtype != torch.int64 or state.ndim != 2 or state.shape[1] != 2 or not ordered:
            raise ValueError("The model is damaged: the ranges of its rows are not in order.")
        if len(edges) and edges[0] < 0:
            raise ValueError("The model is damaged: rows are counted from 0.")
        return cls(tuple((first, stop) for first, stop in state.tolist()))
