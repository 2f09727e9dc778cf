"""A fit: a feature space and the sums over rows that were learned in it, as one value.

    fit of all rows = fit of some + rows of the others = fit of some + fit of the others

Estimators own a fit, and solve it. What adds rows, merges fits, takes rows back and picks groups is written here and
in `krepes.tally.forgetting`, once for all estimators: functions that return another fit and change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import numpy as np
from numpy.typing import ArrayLike

from krepes.base.accumulator import Accumulator, T
from krepes.base.split import Key, Split, by_group
from krepes.base.storage.codec import State, decode_part, encode
from krepes.base.storage.files import same_file
from krepes.base.validation import check_number
from krepes.features import FeatureSpace, FitData, Run
from krepes.labelled import labels_of
from krepes.sources import open_source
from krepes.tally.grouping import GroupSums, by_groups, group_keys
from krepes.tally.tally import MOST_ROWS, RowRanges, StoredTally, Tally, row_weights


@dataclass(frozen=True, eq=False)
class Fit(Generic[T]):
    """What a model has learned before it is solved.

    Attributes
    ----------
    space : FeatureSpace
    tally : Tally
    group_column : str or None
        The column that groups are read from, if they were given by name.
    """

    space: FeatureSpace
    tally: Tally[T] = field(default_factory=Tally)
    group_column: str | None = None

    def empty(self) -> Fit[T]:
        """The same space with no rows seen."""
        return Fit(self.space, group_column=self.group_column)

    def by_group(self) -> GroupSums[T]:
        """The sums by group, or an error."""
        if self.tally.groups is None:
            raise ValueError("This model keeps no sums by group: fit it with groups=.")
        return self.tally.groups

    def only(self, groups: Key | Iterable[Key]) -> Fit[T]:
        """The fit of some groups alone."""
        return replace(self, tally=self.tally.of_groups(self.by_group().only(groups)))

    def without(self, groups: Key | Iterable[Key]) -> Fit[T]:
        """The fit of all groups but these."""
        return replace(self, tally=self.tally.of_groups(self.by_group().without(groups)))

    # Files

    def state(self, name: str, total: bool) -> State:
        """What a file keeps; sums under this name, if they are wanted."""
        state = {
            "group_column": self.group_column,
            **self.tally.state(total),
            **self.space.state(factors=total),
        }
        if not total:
            return state
        grouped = self.tally.groups is not None  # their sums are in the file already
        return state | {name: None if grouped else encode(self.tally.total)}

    def with_sums(
        self, state: State, name: str, accumulator: Callable[[FeatureSpace], Accumulator[Any, T]]
    ) -> Fit[T]:
        """This fit with the sums of a file, if it has any."""
        groups = decode_part(StoredTally, state).groups
        if groups is not None:
            parts = Split(accumulator(self.space), by_group).value_from(groups.parts)
            return replace(self, tally=self.tally.with_groups(parts, groups.rows))
        if state.get(name) is None:
            return self
        return replace(self, tally=replace(self.tally, total=accumulator(self.space).value_from(state[name])))


def total(
    accumulator: Accumulator[Any, T],
    data: FitData,
    space: FeatureSpace,
    run: Run,
    checkpoint: str | os.PathLike | None = None,
    first_row: int = 0,
) -> Tally[T]:
    """The sums over all rows of the data: the one expensive pass. `first_row` is the global index of the first."""
    sums: Accumulator[Any, Any] = accumulator if data.group is None else by_groups(accumulator, data.group)
    reader = data.reader(space.inputs, space.placement, first_row)
    value = run.engine.reduce(sums, reader, checkpoint=checkpoint, progress=run.progress)
    data.check_unchanged()
    return Tally.of(value, RowRanges.of(first_row, data.n_rows), data.group)


def unsummed(n_rows: int) -> Tally[T]:
    """The tally of a fit that read the rows, and kept no sums of them."""
    return Tally(None, n_rows, n_rows, RowRanges.of(0, n_rows))


def with_rows(
    fit: Fit[T],
    accumulator: Accumulator[Any, T],
    data: FitData,
    run: Run,
    first_row: int | None = None,
    half_life: float | None = None,
) -> Fit[T]:
    """The fit with more rows. They are numbered from `first_row`, by default after those that were seen."""
    first = fit.tally.next_row if first_row is None else int(first_row)
    if half_life is None:
        more = total(accumulator, data, fit.space, run, first_row=first)
    else:
        more = _aged(accumulator, data, fit, run, first, half_life)
    return replace(fit, tally=fit.tally + more, group_column=data.group_column or fit.group_column)


def _aged(
    accumulator: Accumulator[Any, T], data: FitData, fit: Fit[T], run: Run, first_row: int, half_life: float
) -> Tally[T]:
    """The sums of more rows, whose weights follow from their age."""
    clock = max(fit.tally.next_row, first_row + data.n_rows)
    weight = row_weights(first_row, data.n_rows, clock, half_life)
    if data.weight is not None:
        weight = weight * data.weight
    if not (weight > 0).any():  # all of them are too old to count
        seen = RowRanges.of(first_row, data.n_rows)
        return Tally(None, data.n_rows, clock, seen, half_life=half_life)
    found = total(accumulator, replace(data, weight=weight), fit.space, run, first_row=first_row)
    return replace(found, next_row=clock, half_life=half_life)


def merged(mine: Fit[T], theirs: Fit[T]) -> Fit[T]:
    """Both fits in one. Aged rows must have been counted together, or nobody knows how old one's are for the other."""
    a, b = mine.tally, theirs.tally
    if a.n_rows and b.n_rows and not (a.half_life is None and b.half_life is None):
        common = None if a.rows is None or b.rows is None else a.rows & b.rows
        if common is None or len(common):
            what = "which rows they hold is not known" if common is None else f"both count rows {common}"
            raise ValueError(
                f"These streams have no common clock: {what}. The weight of a row follows from how many came after it, "
                "in both. Number the rows of all streams by one count, and give it with partial_fit(first_row=...)."
            )
    return replace(mine, tally=a + b)


def check_first_row(first_row: int | None) -> None:
    """Refuse what is not the index of a row."""
    if first_row is not None and not (isinstance(first_row, int | np.integer) and 0 <= first_row < MOST_ROWS):
        raise ValueError(f"first_row={first_row!r}: expected the index of a row, an integer >= 0.")


def check_checkpoint(checkpoint: str | os.PathLike | None, data: FitData, random_state: object) -> None:
    """Refuse a checkpoint of a fit that cannot be repeated, and one that is a file of the data."""
    if checkpoint is None:
        return
    if random_state is None:
        raise ValueError("checkpoint= needs a fixed random_state: without it, a second run is another fit.")
    for path in (path for source in data.sources for path in source.paths):
        if same_file(checkpoint, path):
            raise ValueError(
                f"checkpoint={str(checkpoint)!r} is a file of the data ({path}), and would be overwritten: name "
                "another file."
            )


def half_life_of(fit: Fit[T] | None, given: float | None, groups: ArrayLike | None) -> float | None:
    """The half-life of a stream: what was given, or that of the rows before; an error if they differ."""
    if given is not None:
        check_number("half_life", given, "a number of rows", above=0)
    if given is not None and groups is not None:
        raise ValueError(
            "half_life= and groups= do not go together: rows of one group would weigh more or less by their age."
        )
    if fit is None or fit.tally.n_rows == 0:
        return given
    known = fit.tally.half_life
    if given is not None and given != known:
        before = "without a half-life" if known is None else f"with half_life={known:g}"
        raise ValueError(
            f"half_life={given:g}: this model has seen rows {before}. A stream has one half-life, from its first row "
            "on: start again from empty_copy()."
        )
    return known


def with_groups(
    data: FitData,
    X: Any,
    groups: ArrayLike | None,
    space: FeatureSpace | None = None,
    fit: Fit[T] | None = None,
) -> FitData:
    """Data with the groups of their rows: an array, a column's name, or the column that the fit knows.

    `space` is that of the data, if it is known already; `fit` is what the rows are added to.
    """
    if fit is not None and groups is None:
        groups = fit.group_column
    if groups is None:
        if fit is not None and fit.tally.groups is not None:
            raise ValueError("This model keeps sums by group: give groups=, one for every row.")
        return data
    if fit is not None and fit.tally.n_rows > 0 and fit.tally.groups is None:
        raise ValueError(
            "This model has seen rows without groups, which cannot be divided afterwards: give groups= from the "
            "first call on, or start from empty_copy()."
        )
    if not isinstance(groups, str):
        return replace(data, group=group_keys(groups, data.n_rows))
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
