"""Units: columns that an augmentation keeps, drops or replaces together, and their kernel factor.

    kappa_g(x, z) = prod_{j in g} E kappa_j(x_j + noise_j * N(0,1), z_j)
    E_aug kappa_g = keep * kappa_g(x, z) + drop * kappa_g(fill, z) + replace * mean_u kappa_g(u, z)

A unit is one column, or the one-hot columns of one category. u runs over the rows of the marginal table.
Everything but the first term depends on the landmark z alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from torch import Tensor

from krepes.kernels.coordinate_product import CoordinateProduct


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

    @property
    def varying(self) -> int | None:
        """The position of the only column that has many values, if there is just one."""
        if len(self.columns) == 1:
            return 0
        unknown = [i for i in range(len(self.columns)) if len(self.levels) and self.levels[0, i].isnan()]
        return unknown[0] if len(unknown) == 1 else None

    @property
    def has_few_values(self) -> bool:
        return len(self.levels) > 0 and not bool(self.levels.isnan().any())

    def product(self, kernel: CoordinateProduct, X: Tensor, Z: Tensor) -> Tensor:
        """kappa_g: values X of the unit, (b, g), and rows Z, (m, d) -> (b, m)."""
        factors = (
            kernel.coordinate_factor(column, X[:, i], Z[:, column], noise)
            for i, (column, noise) in enumerate(zip(self.columns, self.noise, strict=True))
        )
        return reduce(Tensor.mul_, factors)

    def constant(self, kernel: CoordinateProduct, Z: Tensor) -> Tensor:
        """The part of the expectation that does not depend on x, (m,)."""
        constant = Z.new_zeros(len(Z))
        if self.drop > 0:
            constant += self.drop * self.product(kernel, self.fill[None, :].to(Z), Z)[0]
        if self.replace > 0:
            constant += self.replace * self.product(kernel, self.table.to(Z), Z).mean(dim=0)
        return constant

    def expectation(self, kernel: CoordinateProduct, X: Tensor, Z: Tensor, constant: Tensor) -> Tensor:
        """E_aug kappa_g, from values X of the unit (b, g) and rows Z (m, d): shape (b, m)."""
        return self.product(kernel, X, Z).mul_(self.keep).add_(constant)

    def cost(self) -> float:
        """Cost of one entry of `expectation`, in flops of a matrix product; a smoothed factor may be an erfc."""
        return sum(5000.0 if noise > 0 else 250.0 for noise in self.noise)
