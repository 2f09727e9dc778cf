"""Separable forms of the logarithm of kernel factors: features of the row times numbers of the landmark.

    log E_aug kappa_g(x, z) = bias(z) + sum_k F_k(x_g) C_k(z)

- Series: a column in which the logarithm is smooth, F_k = T_k (Chebyshev), accurate to a tolerance;
- GatedSeries: the same beside columns of few values (a number and its missing-indicator), a series for each;
- Binary: a column with one or two values, F = 1 at the second one, exact;
- Categories: a unit with few values, F_k = 1 at the k-th one, exact.

A form holds the landmark side, `bias` (m,) and `C` (K, m), writes the features of a block of rows, and says
for which rows they are valid: those inside the range of the series, or with a known value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Unit:
    """One unit g of a tabular augmentation.

    Attributes
    ----------
    columns : list of the unit's columns
    noise : list of the standard deviations of the noise in these columns
    keep, drop, replace : probabilities, adding up to one
    fill : Tensor of shape (g,)
        The value of a dropped unit.
    table : Tensor of shape (u, g)
        The values of a replaced unit, equally likely.
    levels : Tensor of shape (q, g)
        The values the unit takes in the data, where they are few; else q = 0. One column may be NaN: then the
        others have few values.
    lower, upper : list of the columns' ranges
    """

    columns: list[int]
    noise: list[float]
    keep: float
    drop: float
    replace: float
    fill: Tensor
    table: Tensor
    levels: Tensor
    lower: list[float]
    upper: list[float]


class Series:
    """Columns with Chebyshev coefficients c of shape (K_j + 1, m), all of them at once."""

    def __init__(self, units: list[Unit], c: list[Tensor]):
        order = sorted(range(len(units)), key=lambda i: -len(c[i]))
        units, c = [units[i] for i in order], [c[i] for i in order]
        lower, upper = c[0].new_tensor([(unit.lower[0], unit.upper[0]) for unit in units]).T
        self.columns = torch.tensor([unit.columns[0] for unit in units], device=c[0].device)
        self.center, self.per_half = (lower + upper) / 2, 2 / (upper - lower)
        self.counts = [sum(len(rows) > k for rows in c) for k in range(1, len(c[0]))]
        self.bias = torch.stack([rows[0] for rows in c]).sum(dim=0)
        polynomials = [c[i][k] for k, count in enumerate(self.counts, start=1) for i in range(count)]
        self.C = torch.stack(polynomials) if polynomials else c[0][:0]

    def write(self, X: Tensor, out: Tensor) -> Tensor:
        s = X[:, self.columns].sub_(self.center.to(X)).mul_(self.per_half.to(X))
        write_polynomials(s, self.counts, out)
        return (s.abs() <= 1).all(dim=1)


class GatedSeries:
    """One unit with a column of many values, and coefficients (K_q + 1, m) for every value of its others."""

    def __init__(self, unit: Unit, varying: int, c: list[Tensor]):
        others = [i for i in range(len(unit.columns)) if i != varying]
        self.column, self.others = unit.columns[varying], [unit.columns[i] for i in others]
        self.levels = unit.levels[:, others]
        self.center = (unit.lower[varying] + unit.upper[varying]) / 2
        self.per_half = 2 / (unit.upper[varying] - unit.lower[varying])
        self.widths = [len(rows) for rows in c]
        self.bias = torch.zeros_like(c[0][0])
        self.C = torch.cat(c)

    def write(self, X: Tensor, out: Tensor) -> Tensor:
        index, known = match_levels(X[:, self.others], self.levels.to(X))
        s = X[:, [self.column]].sub_(self.center).mul_(self.per_half)
        polynomials = X.new_ones(len(X), max(self.widths))
        write_polynomials(s, [1] * (max(self.widths) - 1), polynomials[:, 1:])
        start = 0
        for level, width in enumerate(self.widths):
            active = (index == level)[:, None]
            # Not a product: far outside the range a polynomial may be infinite, and 0 * inf is NaN.
            out[:, start : start + width] = torch.where(active, polynomials[:, :width], 0.0)
            start += width
        return known & (s[:, 0].abs() <= 1)


class Binary:
    """Columns with one or two values and tables of logarithms of shape (1 or 2, m), all of them at once."""

    def __init__(self, units: list[Unit], tables: list[Tensor]):
        self.columns = torch.tensor([unit.columns[0] for unit in units], device=tables[0].device)
        self.first = torch.stack([unit.levels[0, 0] for unit in units]).to(tables[0])
        self.second = torch.stack([unit.levels[-1, 0] for unit in units]).to(tables[0])
        self.bias = torch.stack([table[0] for table in tables]).sum(dim=0)
        self.C = torch.stack([table[-1] - table[0] for table in tables])

    def write(self, X: Tensor, out: Tensor) -> Tensor:
        values = X[:, self.columns]
        is_second = values == self.second.to(X)
        out.copy_(is_second)
        return (is_second | (values == self.first.to(X))).all(dim=1)


class Categories:
    """One unit with q values and the table of their logarithms, (q, m)."""

    def __init__(self, unit: Unit, table: Tensor):
        self.columns = unit.columns
        self.levels = unit.levels
        self.bias = torch.zeros_like(table[0])
        self.C = table

    def write(self, X: Tensor, out: Tensor) -> Tensor:
        index, known = match_levels(X[:, self.columns], self.levels.to(X))
        out.zero_().scatter_(1, index[:, None], 1.0)
        return known


def match_levels(values: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """Which level each row of `values` (b, g) is, and whether it is exactly that one: (b,) and (b,).

    >>> match_levels(torch.tensor([[1.0], [5.0]]), torch.tensor([[0.0], [1.0]]))
    (tensor([1, 1]), tensor([ True, False]))
    """
    center = levels.mean(dim=0)
    points = levels - center
    nearest = ((values - center) @ points.mT).sub_(points.square().sum(1) / 2).argmax(dim=1)
    return nearest, (values == levels[nearest]).all(dim=1)


def write_polynomials(s: Tensor, counts: list[int], out: Tensor) -> None:
    """Write T_1, T_2, ... of the columns of s (b, c) into `out`, T_k for the first counts[k - 1] columns.

    The columns are sorted by falling degree, so that the k-th polynomials are one slice of `out`.
    """
    start = 0
    previous: Tensor | None = None
    current: Tensor | None = None
    for count in counts:
        following = out[:, start : start + count]
        if current is None:
            following.copy_(s[:, :count])
        else:
            torch.mul(s[:, :count], current[:, :count], out=following)
            following.mul_(2).sub_(1 if previous is None else previous[:, :count])
        start += count
        previous, current = current, following
