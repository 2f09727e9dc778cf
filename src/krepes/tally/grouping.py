"""Sums by group of rows: one for every day, site or class, so that any union or difference of them is a model.

    sums of some groups = the sum of their sums

Memory: one accumulator's sums for every group, 16 r^2 bytes for moments with views. It is checked before the pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.accumulator import Accumulator, T
from krepes.base.blocks import available_memory
from krepes.base.reporting import named_few, warn
from krepes.base.split import Key, Parts, Split, by_group
from krepes.base.storage.files import readable_bytes
from krepes.preprocessing.labels import missing_values

LARGER_BLOCKS = 8  # times as large, at most, because a block is divided by group
MIDNIGHT = " 00:00:00"  # a time that is a day
MUCH = 0.25  # of the free memory; more is worth a warning


@dataclass(frozen=True, eq=False)
class GroupSums(Generic[T]):
    """Sums by group, and how many rows each has.

    Attributes
    ----------
    parts : Parts
    rows : dict
        Rows by group.
    """

    parts: Parts[T]
    rows: dict[Key, int]

    @classmethod
    def of(cls, parts: Parts[T], keys: np.ndarray) -> GroupSums[T]:
        """Of sums, and the group of every row that is in them."""
        found, counts = np.unique(keys, return_counts=True)
        counted = dict(zip(found.tolist(), counts.tolist()))
        return cls(parts, {key: counted[key] for key in parts})

    def __add__(self, other: GroupSums[T]) -> GroupSums[T]:
        parts = self.parts + other.parts
        return GroupSums(parts, {key: self.rows.get(key, 0) + other.rows.get(key, 0) for key in parts})

    def __sub__(self, other: GroupSums[T]) -> GroupSums[T]:
        parts = self.parts - other.parts
        return GroupSums(parts, {key: self.rows[key] - other.rows.get(key, 0) for key in parts})

    def only(self, groups: Key | Iterable[Key]) -> GroupSums[T]:
        """The sums of some groups; an error where there is no such group."""
        wanted = list(dict.fromkeys(_keys_of(groups)))
        unknown = [key for key in wanted if key not in self.parts]
        if unknown:
            raise ValueError(
                f"There is no {named_few('group', [repr(key) for key in unknown])}. This model has "
                f"{named_few('group', [repr(key) for key in self.parts], 5)}."
            )
        if not wanted:
            raise ValueError("No groups are left: a model needs at least one.")
        return GroupSums(
            Parts({key: self.parts[key] for key in wanted}), {key: self.rows[key] for key in wanted}
        )

    def without(self, groups: Key | Iterable[Key]) -> GroupSums[T]:
        """The sums of the other groups."""
        gone = self.only(groups).rows
        return self.only([key for key in self.parts if key not in gone])


def _keys_of(groups: Key | Iterable[Key]) -> list[Key]:
    """One group, or several, as plain values."""
    named = [groups] if isinstance(groups, str) or not isinstance(groups, Iterable) else list(groups)
    return group_keys(named).tolist() if named else []


def group_keys(values: ArrayLike, n_rows: int | None = None) -> np.ndarray:
    """One key for each of the n rows, as a file can hold it: numbers, truth values or text; dates become text.

    >>> group_keys(np.array(["2026-01-05", "2026-01-06"], dtype="datetime64[D]")).tolist()
    ['2026-01-05', '2026-01-06']
    """
    if n_rows is not None and (not isinstance(values, Sized) or len(values) != n_rows):
        given = f"{len(values):,} values" if isinstance(values, Sized) else repr(values)
        raise ValueError(f"groups= has {given} for {n_rows:,} rows; one is needed for every row.")
    array = np.asarray(values.tolist() if isinstance(values, Tensor) else values)
    if array.ndim != 1:
        raise ValueError(f"groups= has the shape {array.shape}; expected one group per row.")
    missing = np.isnat(array) if array.dtype.kind in "mM" else missing_values(array)
    if missing.any():
        raise ValueError(
            f"groups= has no value in {int(missing.sum()):,} of {len(array):,} rows, the first of them "
            f"{int(np.flatnonzero(missing)[0]):,}: give each row a group, such as 'unknown', or leave these rows out."
        )
    if array.dtype.kind in "biufU":
        return array
    kinds = {type(value) for value in array.tolist()} if array.dtype.kind == "O" else set()
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.array(array.tolist())
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]").astype(object)
    dated = (str(v).removesuffix(MIDNIGHT) if isinstance(v, datetime) else str(v) for v in array.tolist())
    return np.array(list(dated), dtype=np.str_)


def by_groups(accumulator: Accumulator[Any, T], keys: np.ndarray) -> Split[Any, T]:
    """The accumulator once for every group; an error if memory cannot hold it."""
    n = len(np.unique(keys))
    needed, free = n * accumulator.bytes_of_sums, available_memory()
    what = (
        f"Sums of {n:,} groups take {readable_bytes(needed)}, {readable_bytes(accumulator.bytes_of_sums)} each, and "
        f"{readable_bytes(free)} are free"
    )
    advice = "Use coarser groups (weeks instead of days), or fewer landmarks (n_landmarks=...)."
    if needed > free:
        raise MemoryError(f"{what}. {advice}")
    if needed > MUCH * free:
        warn(f"{what}; the model file will be as large. {advice}")
    return Split(accumulator, by_group, min(n, LARGER_BLOCKS))
