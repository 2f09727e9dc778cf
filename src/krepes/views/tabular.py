"""Views of table rows: noise, dropped features and features replaced from their marginal.

    aug(x)_g = fill_g  with probability (1-c) p,   u_g with probability c,   x_g otherwise;   then + noise_j N(0,1)

for every unit g, which is one column or the columns of one category together; u_g comes from a table of up to
256 rows of the data, a fresh row for every unit (SCARF [bahri]). Gaussian noise and dropped features are
the tabular augmentations of [krepes, App. B.1].

Noise is added last, also to dropped and replaced features. Then noise is nothing but a smoother kernel, and
for a kernel that is a product over coordinates the expectation of all three is

    E_aug k(aug(x), z) = prod_g [ (1-c)(1-p) k_g(x, z) + (1-c) p k_g(fill, z) + c mean_u k_g(u, z) ]

with k_g smoothed by the noise (`krepes.views.expectation`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.random_streams import normal, uniform
from krepes.base.rows import Rows
from krepes.base.validation import check_number
from krepes.kernels.kernel import Kernel, KernelColumns
from krepes.kernels.vectors import as_rows
from krepes.views.columns import columns_by_unit, summarize
from krepes.views.expectation import EXP_COST, ProductExpectation
from krepes.views.separable_forms import Unit
from krepes.views.views import Draws, Groups, Views

CHOICE, TABLE_ROW, NOISE = range(3)  # purposes of the draws of one view


@dataclass(eq=False, repr=False)
class Tabular(Views):
    """Noise, feature drop and marginal replacement.

    Parameters
    ----------
    noise : float, default=0.05
        Standard deviation of the Gaussian noise, in standard deviations of the column. Cells that lie very far
        from the others do not count for the column's deviation (`krepes.base.column_scale`).
    drop : float in [0, 1), default=0.0
        Probability p with which a feature is dropped, that is, set to `fill`. [krepes] drops features; on the
        tables we measured, weak noise alone is at least as good and its expectation costs one matrix product.
    replace : float in [0, 1), default=0.0
        Probability c with which a feature is replaced by its value in another row.
    fill : "mean" or float, default="mean"
        The value of a dropped feature; [krepes] uses 0, the mean of a standardised column.
    n_views : int, default=2

    Attributes
    ----------
    mean_, scale_ : Tensor of shape (d,)
        Mean and standard deviation of the columns' usual values, known after `fitted`.
    units_ : Tensor of shape (d,)
        The unit of every column: columns of one unit are kept, dropped or replaced together.
    table_ : Tensor of shape (u, d), or None
        The rows from which features are replaced, where `replace` > 0.
    lower_, upper_, levels_ : Tensor
        Range and, where they are few, values of the columns (`krepes.views.columns`).

    Notes
    -----
    Constant columns get no noise. `expected` has a formula for every kernel that has `product_terms`, and for
    every kernel at all if nothing is augmented.

    Examples
    --------
    A feature is dropped with probability 1/2: the mean of exp(-1/2) and exp(0).

    >>> from krepes.kernels import Gaussian
    >>> X = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    >>> views = Tabular(noise=0.0, drop=0.5).fitted(X)
    >>> views.expected(Gaussian(1.0), X[1:], torch.zeros(1, 1, dtype=torch.float64))
    tensor([[0.8033]], dtype=torch.float64)
    """

    name = "tabular"

    # columns with fewer levels are filled up with NaN
    not_finite = ("levels_",)

    noise: float = 0.05
    drop: float = 0.0
    replace: float = 0.0
    fill: float | str = "mean"
    n_views: int = 2

    mean_: Tensor = field(init=False)
    scale_: Tensor = field(init=False)
    lower_: Tensor = field(init=False)
    upper_: Tensor = field(init=False)
    units_: Tensor = field(init=False)
    levels_: Tensor = field(init=False)
    table_: Tensor | None = field(init=False)

    def check(self) -> None:
        super().check()
        check_number("noise", self.noise, "standard deviations of a column", least=0)
        for name in ("drop", "replace"):
            check_number(name, getattr(self, name), "a probability", least=0, below=1)
        if self.fill != "mean":
            check_number("fill", self.fill, "'mean' or a number")

    @property
    def shift_equivariant(self) -> bool:
        return self.drop == 0 or self.fill == "mean"

    def fitted(self, X: Rows, generator: Draws = None, groups: Groups = None) -> Tabular:
        self.check()
        copy = clone(self)
        for name, value in summarize(as_rows(X), groups, generator, self.replace > 0).items():
            setattr(copy, f"{name}_", value)
        return copy

    def view(self, X: Tensor, rows: Tensor, seed: int, index: int) -> Tensor:
        if self._strength() == 0:
            return X.clone()
        flat = X.flatten(1)
        self._check_width(flat.shape[1])
        out = self._corrupted(flat, rows, seed, index) if self.drop > 0 or self.replace > 0 else flat.clone()
        if self.noise > 0:
            draws = normal(rows, flat.shape[1], seed, index, NOISE).to(out)
            # Not addcmul: it rounds once or twice depending on where a row stands in its block.
            out.add_(draws.mul_(self._noise().to(out)))
        return out.reshape(X.shape)

    def _corrupted(self, X: Tensor, rows: Tensor, seed: int, index: int) -> Tensor:
        """X with features dropped and replaced, (b, d)."""
        units = self.units_.to(X.device)
        n_units, d = int(units.max()) + 1, X.shape[1]
        grouped = n_units < d
        choice = uniform(rows, n_units, seed, index, CHOICE).to(X.device)
        choice = choice[:, units] if grouped else choice
        changed = self.replace + (1 - self.replace) * self.drop
        out = torch.where(choice < changed, self._fill().to(X), X)
        if self.table_ is not None:
            draws = uniform(rows, n_units, seed, index, TABLE_ROW).to(X.device)
            picked = draws.mul_(len(self.table_)).long()
            picked = picked[:, units] if grouped else picked
            drawn = self.table_.to(X)[picked, torch.arange(d, device=X.device)]
            out = torch.where(choice < self.replace, drawn, out)
        return out

    def exact(self, kernel: Kernel) -> bool:
        if self._strength() == 0 or kernel.product_terms() is not None:
            return True
        only_noise = self.drop == self.replace == 0
        return only_noise and hasattr(self, "scale_") and kernel.smoothed(self._noise()) is not None

    def expected_against(self, kernel: Kernel, Y: Any) -> KernelColumns | None:
        self.check()
        if not self.exact(kernel):
            return None
        equivalent = self._equivalent_kernel(kernel)
        return self._products_against(kernel, as_rows(Y)) if equivalent is None else equivalent.against(Y)

    def expected_cost(self, kernel: Kernel, n_features: int, dtype: torch.dtype = torch.float32) -> float:
        self.check()
        if not self.exact(kernel):
            return math.inf
        if self._equivalent_kernel(kernel) is not None:
            return 2.0 * n_features + EXP_COST
        self._check_width(n_features)
        units = self._units()
        probe = self._typical_rows(units).to(dtype)
        return sum(
            ProductExpectation(factor, units, probe).cost for _, factor in kernel.product_terms() or []
        )

    def _typical_rows(self, units: list[Unit]) -> Tensor:
        """A few rows spread over the range: stand-ins for landmarks where only the cost matters, (9, d)."""
        steps = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
        rows = self.lower_ + steps * (self.upper_ - self.lower_)
        for unit in units:
            if len(unit.levels):
                repeated = unit.levels[torch.arange(len(rows)) % len(unit.levels)]
                rows[:, unit.columns] = torch.where(repeated.isnan(), rows[:, unit.columns], repeated)
        return rows

    def _equivalent_kernel(self, kernel: Kernel) -> Kernel | None:
        """The expectation as an ordinary kernel: where at most noise is added, and the kernel knows how."""
        if self.drop > 0 or self.replace > 0:
            return None
        return kernel if self.noise == 0 else kernel.smoothed(self._noise())

    def _products_against(self, kernel: Kernel, Y: Tensor) -> KernelColumns:
        self._check_width(Y.shape[1])
        units = self._units()
        terms = [(w, ProductExpectation(factor, units, Y)) for w, factor in kernel.product_terms() or []]

        def block(X: Any) -> Tensor:
            X = as_rows(X, like=Y)
            self._check_width(X.shape[1])
            return reduce(Tensor.add_, (term(X).mul_(weight) for weight, term in terms))

        return block

    def _units(self) -> list[Unit]:
        noise, fill, known = self._noise(), self._fill(), ~self.levels_.isnan()
        keep, drop = (1 - self.replace) * (1 - self.drop), (1 - self.replace) * self.drop
        table = fill[None, :] if self.table_ is None else self.table_
        return [
            Unit(
                columns=columns,
                noise=noise[columns].tolist(),
                keep=keep,
                drop=drop,
                replace=self.replace,
                fill=fill[columns],
                table=table[:, columns],
                levels=self.levels_[known[:, columns].any(dim=1)][:, columns],
                lower=self.lower_[columns].tolist(),
                upper=self.upper_[columns].tolist(),
            )
            for columns in columns_by_unit(self.units_)
        ]

    def _strength(self) -> float:
        return self.noise + self.drop + self.replace

    def _noise(self) -> Tensor:
        """Standard deviation of the noise in every column, (d,)."""
        self._check_fitted()
        return self.scale_ * self.noise

    def _fill(self) -> Tensor:
        """The value of every column when dropped, (d,)."""
        self._check_fitted()
        return self.mean_ if self.fill == "mean" else torch.full_like(self.mean_, float(self.fill))

    def _check_fitted(self) -> None:
        if not hasattr(self, "scale_"):
            raise ValueError("Tabular views need means and deviations: call views.fitted(X) first.")

    def _check_width(self, n_features: int) -> None:
        self._check_fitted()
        if n_features != len(self.scale_):
            raise ValueError(f"X has {n_features} features, but the views were fitted on {len(self.scale_)}.")
