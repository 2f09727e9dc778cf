"""Tallied: a model that knows which rows its sums are of, and can be taken apart by group without data."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sized
from dataclasses import replace
from typing import Any, Generic, Self

from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.accumulator import T
from krepes.base.split import Key
from krepes.features import FeatureSpace, FitData
from krepes.labelled import labels_of
from krepes.sources import open_source
from krepes.tally.grouping import GroupSums, group_keys
from krepes.tally.row_ranges import RowRanges
from krepes.tally.tally import Tally


class Tallied(ABC, Generic[T]):
    """Gives a model `groups_`, `only`, `without` and `forget_groups`, and the facts of its tally.

    Attributes
    ----------
    tally_ : Tally
    group_column_ : str or None
        The column that groups are read from, where they were given by name.
    """

    tally_: Tally[T]
    group_column_: str | None = None
    _solution: Any

    @abstractmethod
    def empty_copy(self) -> Self:
        """The same model with no rows seen."""

    @abstractmethod
    def _check_has_total(self) -> None:
        """Refuse a model that has no sums."""

    @abstractmethod
    def _still_dependent(self) -> list[str]:
        """What forgetting leaves as it was."""

    @property
    def total_(self) -> T | None:
        """The sums over all rows seen; None where a file came without them."""
        return self.tally_.total

    @property
    def n_samples_seen_(self) -> int:
        """How many rows the sums hold."""
        return self.tally_.n_rows

    @property
    def next_row_(self) -> int:
        """The global index of the next row that is added: no random draw is ever used twice."""
        return self.tally_.next_row

    @property
    def rows_seen_(self) -> RowRanges | None:
        """Which rows the sums hold; None where that is not known."""
        return self.tally_.rows

    @property
    def half_life_(self) -> float | None:
        """In how many rows the weight of a row falls by half; None where rows do not age."""
        return self.tally_.half_life

    # Groups

    @property
    def groups_(self) -> dict[Key, int]:
        """The number of rows of every group; empty where sums are not kept by group."""
        return {} if self.tally_.groups is None else dict(self.tally_.groups.rows)

    def only(self, groups: Key | Iterable[Key]) -> Self:
        """A new model of some groups alone, without data.

        It is the model that a fit of their rows in the same `space_` gives: scales, kernel and landmarks stay.

        Parameters
        ----------
        groups : one of `groups_`, or several
        """
        return self._of_groups(self._by_group().only(groups))

    def without(self, groups: Key | Iterable[Key]) -> Self:
        """A new model of all groups but these, without data; see `only`.

        Parameters
        ----------
        groups : one of `groups_`, or several
        """
        return self._of_groups(self._by_group().without(groups))

    def forget_groups(self, groups: Key | Iterable[Key]) -> list[str]:
        """Take groups back, as `forget` does for rows; returns what may still depend on them."""
        left = self._by_group().without(groups)
        self._solution = None
        self.tally_ = self.tally_.of_groups(left)
        return self._still_dependent()

    def _of_groups(self, groups: GroupSums[T]) -> Self:
        copy = self.empty_copy()
        copy.tally_ = self.tally_.of_groups(groups)
        return copy

    def _by_group(self) -> GroupSums[T]:
        self._check_has_total()
        if self.tally_.groups is None:
            raise ValueError("This model keeps no sums by group: fit it with groups=.")
        return self.tally_.groups

    def _with_groups(
        self,
        data: FitData,
        X: Any,
        groups: ArrayLike | None,
        space: FeatureSpace | None = None,
        seen: Tally[T] | None = None,
    ) -> FitData:
        """Data with the groups of their rows: an array, a column's name, or the column that the model knows.

        `seen` are the rows that these are added to, where there are any.
        """
        if seen is not None and groups is None:
            groups = self.group_column_
        if groups is None:
            if seen is not None and seen.groups is not None:
                raise ValueError("This model keeps sums by group: give groups=, one for every row.")
            return data
        if seen is not None and seen.n_rows > 0 and seen.groups is None:
            raise ValueError(
                "This model has seen rows without groups, which cannot be divided afterwards: give groups= from the "
                "first call on, or start from empty_copy()."
            )
        if not isinstance(groups, str):
            return replace(data, group=group_keys(_as_array(groups, data.n_rows)))
        encoder = None if space is None else space.inputs.encoder
        if encoder is not None and groups in encoder.used_columns_:
            raise ValueError(
                f"groups={groups!r} is a feature of this space. Prepare one without it: "
                f"preprocess=TableEncoder(exclude=[{groups!r}])."
            )
        where = X if isinstance(X, str | os.PathLike) else "X"
        whole = data.sources[0] if space is None else open_source(X)  # a space opens its own columns only
        values = labels_of(whole, where, groups)[0]
        return replace(data, group=group_keys(values), group_column=groups)


def _as_array(groups: ArrayLike, n_rows: int) -> ArrayLike:
    """Groups that are as many as the rows."""
    if not isinstance(groups, Sized) or len(groups) != n_rows:
        given = f"{len(groups):,} values" if isinstance(groups, Sized) else repr(groups)
        raise ValueError(f"groups= has {given} for {n_rows:,} rows; one is needed for every row.")
    return groups.tolist() if isinstance(groups, Tensor) else groups
