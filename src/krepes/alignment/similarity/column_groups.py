"""Groups of the columns of a matrix: lists of columns, names for them, or a label per column."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeGuard

import numpy as np

Columns = Iterable[int | str]  # numbers, or names
ColumnGroups = Mapping[str, Columns] | Iterable[Columns] | Iterable[Hashable]  # the last: a label per column


def column_groups(groups: ColumnGroups | None, n_columns: int, names: list[str]) -> dict[str, list[int]]:
    """Groups of columns in any of the forms that `AlignmentSelector` takes, as {name: column numbers}.

    >>> column_groups(["a", "b", "a"], 3, []), column_groups({"first": ["x"]}, 2, ["x", "y"])
    ({'a': [0, 2], 'b': [1]}, {'first': [0]})
    """
    if groups is None:
        return {str(j): [j] for j in range(n_columns)}
    wrong = f"groups={groups!r}: expected lists of columns, {{name: columns}}, or one label per column."
    if isinstance(groups, str) or not hasattr(groups, "__iter__"):
        raise ValueError(wrong)
    given = groups if isinstance(groups, Mapping) else dict(enumerate(groups))
    lists = {str(key): group for key, group in given.items() if _lists_columns(group)}
    if not given or 0 < len(lists) < len(given) or (isinstance(groups, Mapping) and not lists):
        raise ValueError(wrong)
    if not lists:
        if len(given) != n_columns:
            raise ValueError(f"There are {len(given)} labels for {n_columns} columns. {wrong}")
        labels = {str(label): label for label in given.values()}
        return {
            name: [j for j, other in enumerate(given.values()) if other == g] for name, g in labels.items()
        }
    found = {key: [_column(c, n_columns, names) for c in group] for key, group in lists.items()}
    empty = [key for key, group in found.items() if not group]
    if empty:
        raise ValueError(f"groups: group {empty[0]!r} has no columns.")
    return found


def _lists_columns(value: Columns | Hashable) -> TypeGuard[Columns]:
    return not isinstance(value, str) and hasattr(value, "__iter__")


def _column(column: int | str, n_columns: int, names: list[str]) -> int:
    if isinstance(column, str):
        if column in names:
            return names.index(column)
        raise ValueError(f"groups: X does not have a column {column!r}; its columns are {names[:30]}.")
    if not isinstance(column, int | np.integer) or isinstance(column, bool) or not 0 <= column < n_columns:
        raise ValueError(f"groups: {column!r} is not a column; expected numbers from 0 to {n_columns - 1}.")
    return int(column)
