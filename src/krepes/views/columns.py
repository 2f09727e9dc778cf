"""What tabular views know of the columns: moments, range, few-valued columns, groups, a table of rows.

Found once, from the candidate rows, in two passes over them; O(n d) beyond the distinct values of columns
that have few.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.column_scale import usual_range
from krepes.views.views import Draws, Groups

TABLE_ROWS = 256  # rows kept as the marginal distribution
# distinct values up to which a single column is known by its values
MAX_LEVELS = 16
GLANCE_ROWS = 512  # rows that tell columns with many values at once
RANGE_MARGIN = 0.1  # of the range, on either side


def summarize(X: Tensor, groups: Groups, generator: Draws, keep_table: bool) -> dict[str, Tensor | None]:
    """Columns of the candidate rows X, (n, d), float64, by the names that `Tabular` keeps them under.

    mean, scale (d,): mean and standard deviation (divided by n) of the usual values (`krepes.base.column_scale`).
    lower, upper (d,): the range of the usual values, widened by a tenth on either side.
    units (d,), int64: columns with the same number belong together, as the lists of columns in `groups` say.
    levels (L, d): the values of each unit, one per row, where they are few; NaN below them. In a unit with one column
    of many values (a number and its missing-indicator) that column is NaN and the others have their values.
    table (u, d), or None: up to 256 of the rows.
    """
    X = X.detach().cpu()
    if X.numel() == 0:
        raise ValueError(f"Views cannot be fitted on zero rows or columns: X has shape {tuple(X.shape)}.")
    mean = X.mean(dim=0, dtype=torch.float64)
    blocks = list(row_blocks(len(X), 4096))
    squares = sum(
        ((X[rows].double() - mean).square_().sum(0) for rows in blocks), start=torch.zeros_like(mean)
    )
    low, high = X.amin(dim=0).double(), X.amax(dim=0).double()
    constant = low == high  # the mean of equal values may round to another one
    mean = torch.where(constant, low, mean)
    scale = (squares / len(X)).sqrt_().masked_fill_(constant, 0.0)
    first, last = usual_range(X)
    for j in ((low < first) | (high > last)).nonzero()[:, 0].tolist():
        usual = X[(X[:, j] >= first[j]) & (X[:, j] <= last[j]), j].double()
        mean[j], scale[j] = usual.mean(), usual.std(correction=0)
        low[j], high[j] = usual.min(), usual.max()
    margin = RANGE_MARGIN * (high - low)
    units = number_units(X.shape[1], groups)
    table = None
    if keep_table:
        table = X[torch.randperm(len(X), generator=generator)[:TABLE_ROWS]].double()
    return {
        "mean": mean,
        "scale": scale,
        "lower": low - margin,
        "upper": high + margin,
        "units": units,
        "levels": find_levels(X, units),
        "table": table,
    }


def number_units(n_features: int, groups: Groups) -> Tensor:
    """The unit of every column, (d,): groups first, then every other column by itself.

    >>> number_units(4, [[1, 3]])
    tensor([1, 0, 2, 0])
    """
    units = torch.full((n_features,), -1, dtype=torch.int64)
    groups = [list(group) for group in groups or [] if len(group)]
    for unit, group in enumerate(groups):
        for column in group:
            if not 0 <= column < n_features:
                raise ValueError(f"groups name column {column}, but there are {n_features} columns.")
            if units[column] >= 0:
                raise ValueError(f"Column {column} is named twice in groups; each may be in one group only.")
            units[column] = unit
    single = units < 0
    units[single] = torch.arange(len(groups), len(groups) + int(single.sum()))
    return units


def columns_by_unit(units: Tensor) -> list[list[int]]:
    """The columns of every unit: the inverse of `number_units`."""
    columns: list[list[int]] = [[] for _ in range(int(units.max()) + 1)]
    for column, unit in enumerate(units.tolist()):
        columns[unit].append(column)
    return columns


def find_levels(X: Tensor, units: Tensor) -> Tensor:
    """The distinct values of every unit that has few, (L, d), NaN elsewhere."""
    glance = X[:GLANCE_ROWS].sort(dim=0).values
    n_distinct = ((glance[1:] != glance[:-1]).sum(dim=0) + 1).tolist()
    found: list[tuple[list[int], Tensor]] = []
    for columns in columns_by_unit(units):
        limit = MAX_LEVELS if len(columns) == 1 else 2 * len(columns) + 2
        few = [column for column in columns if n_distinct[column] <= limit]
        if not few or len(few) < len(columns) - 1:
            continue
        values = _with_all_categories(_distinct(X[:, few]))
        if len(values) <= limit:
            found.append((few, values.double()))
    n_levels = max((len(values) for _, values in found), default=0)
    levels = torch.full((n_levels, len(units)), torch.nan, dtype=torch.float64)
    for columns, values in found:
        levels[: len(values), columns] = values
    return levels


def _distinct(X: Tensor) -> Tensor:
    """The distinct rows of X."""
    # torch.unique is twenty times faster on a vector than on the rows of a one-column matrix.
    return X[:, 0].unique()[:, None] if X.shape[1] == 1 else X.unique(dim=0)


def _with_all_categories(values: Tensor) -> Tensor:
    """One-hot values completed: every category, and none, also where the candidates lack it."""
    width = values.shape[1]
    one_hot = (
        width > 1 and bool(((values == 0) | (values == 1)).all()) and bool((values.sum(dim=1) <= 1).all())
    )
    if not one_hot:
        return values
    return torch.cat([values.new_zeros(1, width), torch.eye(width, dtype=values.dtype)])
