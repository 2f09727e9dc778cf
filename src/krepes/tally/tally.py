"""A tally: the sums that a model has, and what is known of the rows in them.

    tally of all rows = tally of some + tally of the others,        tally + more - more = tally

The next row's index is counted apart from the number of rows, so that rows which were forgotten, or are elsewhere,
never lend their random draws to new ones. With a half-life, rows count less, the older they are:

    weight of the row k = 2^(-(t - 1 - k) / half_life),        t = 1 + the largest index so far, the clock `next_row`

The age of a row is counted in rows, by its global index, so that the sums do not depend on how a stream was cut into
calls: sums at the clock t become those at the later clock t' when they are multiplied by 2^(-(t' - t) / half_life).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import T
from krepes.base.split import Parts
from krepes.base.storage.codec import Bounds, State, decode_part, encode
from krepes.tally.grouping import GroupSums

Range = tuple[int, int]
MOST_ROWS = 2**62  # that have an index


@dataclass(frozen=True)
class RowRanges:
    """Which rows a model has seen: ranges first .. stop - 1 of indices, in order, which neither overlap nor touch.

    Rows come in long runs, so that the list is short. Union, difference and intersection cost as many steps as there
    are ranges.

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


@dataclass(frozen=True, eq=False)
class Tally(Generic[T]):
    """What a model has seen; an empty one has seen nothing.

    Attributes
    ----------
    total : value or None
        The sums over all rows.
    n_rows : int
        How many rows are in them.
    next_row : int
        The index that the next row gets.
    rows : RowRanges or None
        Which rows are in them; None where that is not known.
    groups : GroupSums or None
        The sums by group, where they are kept.
    half_life : float or None
        In how many rows the weight of a row falls by half.
    files : mapping
        What is known of the files that were absorbed, by name; see `krepes.streams.follow`.
    """

    total: T | None = None
    n_rows: int = 0
    next_row: int = 0
    rows: RowRanges | None = field(default_factory=RowRanges)
    groups: GroupSums[T] | None = None
    half_life: float | None = None
    files: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, value: T | Parts[T], rows: RowRanges, keys: np.ndarray | None = None) -> Tally[T]:
        """Of the result of a pass over some rows; `keys` are their groups, where it is by group."""
        groups = None if keys is None else GroupSums.of(value, keys)  # type: ignore[arg-type]
        total = value if groups is None else groups.parts.total
        stop = rows.ranges[-1][1] if rows.ranges else 0
        return cls(total, len(rows), stop, rows, groups)  # type: ignore[arg-type]

    def __add__(self, other: Tally[T]) -> Tally[T]:
        if self.n_rows == 0 or other.n_rows == 0:
            some = other if self.n_rows == 0 else self
            clock = max(self.next_row, other.next_row)
            if some.half_life is not None:
                some = some.at(clock)
            return replace(some, next_row=clock, files={**self.files, **other.files})
        if self.half_life != other.half_life:
            lives = [str(each.half_life or "no half-life") for each in (self, other)]
            raise ValueError(f"Sums of different half-lives do not add up: {' and '.join(lives)}.")
        if (self.groups is None) != (other.groups is None):
            raise ValueError("Only one of the two has sums by group: give groups= for all rows, or for none.")
        clock = max(self.next_row, other.next_row)
        mine, theirs = self.at(clock), other.at(clock)
        return Tally(
            _sum(mine.total, theirs.total),
            self.n_rows + other.n_rows,
            clock,
            None if self.rows is None or other.rows is None else self.rows | other.rows,
            None if self.groups is None or other.groups is None else self.groups + other.groups,
            self.half_life,
            {**self.files, **other.files},
        )

    def __sub__(self, other: Tally[T]) -> Tally[T]:
        """Without some of its rows; the next row keeps its index."""
        assert self.total is not None
        assert other.total is not None
        rows = None if self.rows is None or other.rows is None else self.rows - other.rows
        groups = None if self.groups is None or other.groups is None else self.groups - other.groups
        total = self.total - other.total
        return replace(self, total=total, n_rows=self.n_rows - other.n_rows, rows=rows, groups=groups)

    def at(self, clock: int) -> Tally[T]:
        """The same rows at a later clock: older, where they age."""
        if self.half_life is None or clock <= self.next_row:
            return self
        factor = float(np.exp2((self.next_row - clock) / self.half_life))
        total = None if self.total is None or factor == 0 else self.total * factor
        return replace(self, total=total, next_row=clock)

    def of_groups(self, groups: GroupSums[T]) -> Tally[T]:
        """Of some of its groups; which rows these are is not known."""
        total, n_rows = groups.parts.total, sum(groups.rows.values())
        return replace(self, total=total, n_rows=n_rows, rows=None, groups=groups, files={})

    # Files

    def state(self, sums: bool) -> State:
        groups = None
        if sums and self.groups is not None:
            groups = StoredGroups(self.groups.parts.state(), list(self.groups.rows.values()))
        files = dict(self.files)
        return encode(StoredTally(self.n_rows, self.next_row, self.rows, self.half_life, files, groups))

    @classmethod
    def from_state(cls, state: State) -> Tally[T]:
        """What a file says, without its sums."""
        found = decode_part(StoredTally, state)
        n, next_row = found.n_samples_seen, found.next_row
        return cls(None, n, next_row, found.rows_seen, None, found.half_life, found.files)

    def with_groups(self, parts: Parts[T], counts: list[int]) -> Tally[T]:
        """With sums by group from a file, and how many rows each has."""
        if len(counts) != len(parts) or sum(counts) > self.n_rows:
            raise ValueError("The model is damaged: the rows of its groups are not its rows.")
        return replace(self, total=parts.total, groups=GroupSums(parts, dict(zip(parts, counts))))


RowCount = Annotated[int, Bounds(least=0, most=MOST_ROWS)]


@dataclass(frozen=True)
class StoredGroups:
    """What a model file says of sums by group."""

    parts: dict[str, Any]
    rows: list[Annotated[int, Bounds(least=1)]]


@dataclass(frozen=True)
class StoredTally:
    """What a model file says of a tally besides its sums."""

    n_samples_seen: RowCount
    next_row: RowCount
    rows_seen: RowRanges | None
    half_life: Annotated[float | None, Bounds(above=0)]
    files: dict[str, dict[str, Any]]
    groups: StoredGroups | None


def row_weights(first_row: int, n: int, clock: int, half_life: float) -> np.ndarray:
    """The weights at a clock of the n rows from `first_row` on, (n,).

    >>> row_weights(0, 3, clock=3, half_life=1).tolist()
    [0.25, 0.5, 1.0]
    """
    age = clock - 1 - np.arange(first_row, first_row + n, dtype=np.int64)
    return np.exp2(-age / half_life)


def _sum(first: T | None, second: T | None) -> T | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
