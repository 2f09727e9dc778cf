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
    forms = "a list of column lists, {name: column list}, or one label per column"
    if groups is None:
        return {str(j): [j] for j in range(n_columns)}
    if isinstance(groups, str) or not hasattr(groups, "__iter__"):
        raise ValueError(f"groups={groups!r}: expected {forms}.")
    given = groups if isinstance(groups, Mapping) else list(groups)
    values: list[Columns | Hashable] = list(given.values()) if isinstance(given, Mapping) else list(given)
    lists = [value for value in values if _lists_columns(value)]
    if not values or 0 < len(lists) < len(values):
        raise ValueError(f"groups={groups!r}: expected {forms}.")
    if isinstance(given, list) and not lists:
        if len(given) != n_columns:
            raise ValueError(f"groups has {len(given)} labels for {n_columns} columns: expected {forms}.")
        return {str(g): [j for j, other in enumerate(given) if other == g] for g in dict.fromkeys(given)}
    if not lists:
        raise ValueError(f"groups={groups!r}: expected lists of columns, {{name: [columns]}}.")
    keys = map(str, given) if isinstance(given, Mapping) else map(str, range(len(given)))
    found = {key: [_column(c, n_columns, names) for c in group] for key, group in zip(keys, lists)}
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
        raise ValueError(
            f"groups: X does not have a column {column!r}"
            + (", because it has no names." if not names else ".")
        )
    if not isinstance(column, int | np.integer) or isinstance(column, bool) or not 0 <= column < n_columns:
        raise ValueError(f"groups: {column!r} is not a column; expected numbers from 0 to {n_columns - 1}.")
    return int(column)
