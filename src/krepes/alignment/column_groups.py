"""Groups of the columns of a matrix: lists of columns, names for them, or a label per column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def column_groups(groups: Any, n_columns: int, names: list[str]) -> dict[str, list[int]]:
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
    nested = [not isinstance(g, str) and hasattr(g, "__iter__") for g in _values(given)]
    if not nested or (any(nested) and not all(nested)):
        raise ValueError(f"groups={groups!r}: expected {forms}.")
    if isinstance(given, list) and not nested[0]:
        if len(given) != n_columns:
            raise ValueError(f"groups has {len(given)} labels for {n_columns} columns: expected {forms}.")
        return {str(g): [j for j, other in enumerate(given) if other == g] for g in dict.fromkeys(given)}
    if not nested[0]:
        raise ValueError(f"groups={groups!r}: expected lists of columns, {{name: [columns]}}.")
    keys = map(str, given) if isinstance(given, Mapping) else map(str, range(len(given)))
    found = {key: [_column(c, n_columns, names) for c in group] for key, group in zip(keys, _values(given))}
    empty = [key for key, group in found.items() if not group]
    if empty:
        raise ValueError(f"groups: group {empty[0]!r} has no columns.")
    return found


def _values(groups: Any) -> list[Any]:
    return list(groups.values()) if isinstance(groups, Mapping) else groups


def _column(column: Any, n_columns: int, names: list[str]) -> int:
    if isinstance(column, str):
        if column in names:
            return names.index(column)
        raise ValueError(
            f"groups: there is no column {column!r}" + (". X has no names." if not names else ".")
        )
    if not isinstance(column, int | np.integer) or isinstance(column, bool) or not 0 <= column < n_columns:
        raise ValueError(f"groups: {column!r} is no column; expected numbers from 0 to {n_columns - 1}.")
    return int(column)
