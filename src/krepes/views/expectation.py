"""Exact expected kernels under tabular augmentation, mostly as one matrix product.

    psi(x)_z = prod_g E_aug kappa_g(x, z)                              [krepes design, exact augmentations]
             = exp( sum_g log E_aug kappa_g(x, z) ) = exp( bias(z) + F(x) . C(z) )

The product over units g is not a matrix product, and multiplying it out costs an exponential per column and
entry. But the logarithm of one factor is, for every landmark z, a function of one column, and most such
functions separate (`krepes.views.separable_forms`): exactly for columns and categories with few values, to a relative
error of psi below 1e-6 (float32) or 1e-12 (float64) where they are smooth. What remains (a kink, a narrow
peak) is multiplied in directly, and so are all factors of the few rows that lie outside the range of the
candidates or have a value never seen there.

Cost O(b m K), K about 8 per smooth column; memory 64 MB beyond the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.kernels.coordinate_product import CoordinateProduct
from krepes.views.chebyshev import coefficients
from krepes.views.separable_forms import Binary, Categories, GatedSeries, Series
from krepes.views.units import Unit

TOLERANCE = {torch.float64: 1e-12}  # of the logarithm of psi; others 1e-6
BLOCK_BYTES = 64 * 2**20  # of the features F of one block of rows
LANDMARK_BYTES = 256 * 2**20  # of the coefficients C, about
FACTOR_BYTES = 2**20  # of one factor multiplied in directly: it is passed over several times
EXP_COST = 60.0  # of an exponential, in flops of a matrix product

Form = Series | GatedSeries | Binary | Categories


class ProductExpectation:
    """X -> E_aug k(aug(x), y) for a kernel that is a product over coordinates.

    Parameters
    ----------
    kernel : CoordinateProduct
    units : list of Unit
        They cover all columns.
    Y : Tensor of shape (m, d)
    """

    def __init__(self, kernel: CoordinateProduct, units: list[Unit], Y: Tensor):
        self.kernel = kernel
        self.units = units
        self.Y = Y
        Z = Y.double()
        constants = [unit.constant(kernel, Z) for unit in units]
        self.constants = [constant.to(Y.dtype) for constant in constants]
        self.forms, self.direct = self._separate(Z, constants)
        self.bias = sum((form.bias for form in self.forms), start=Z.new_zeros(len(Z))).to(Y.dtype)
        self.C = torch.cat([*(form.C for form in self.forms), Z[:, :0].mT]).to(Y.dtype)

    def _separate(self, Z: Tensor, constants: list[Tensor]) -> tuple[list[Form], list[int]]:
        """Forms for the units that have one, and the positions of those that have none."""
        binary: list[tuple[Unit, Tensor]] = []
        series: list[tuple[Unit, Tensor]] = []
        forms: list[Form] = []
        direct = []
        for i, (unit, constant) in enumerate(zip(self.units, constants, strict=True)):
            single, table = len(unit.columns) == 1, self._table(unit, Z, constant)
            if single and table is not None and len(table) <= 2:
                binary.append((unit, table))
                continue
            c = self._coefficients(unit, Z, constant)
            if single and c is not None:
                series.append((unit, c[0]))
            elif c is not None:
                forms.append(GatedSeries(unit, c))
            elif table is not None:
                forms.append(Categories(unit, table))
            else:
                direct.append(i)
        forms += [Binary(*map(list, zip(*binary, strict=True)))] if binary else []
        forms += [Series(*map(list, zip(*series, strict=True)))] if series else []
        return forms, direct

    def _table(self, unit: Unit, Z: Tensor, constant: Tensor) -> Tensor | None:
        """log E_aug kappa_g of every known value of the unit, (q, m)."""
        if not unit.has_few_values:
            return None
        table = unit.expectation(self.kernel, unit.levels.to(Z), Z, constant).log_()
        return table if torch.isfinite(table).all() else None

    def _coefficients(self, unit: Unit, Z: Tensor, constant: Tensor) -> list[Tensor] | None:
        """Chebyshev coefficients of log E_aug kappa_g in the unit's varying column, (K + 1, m).

        One tensor for every value of the unit's other columns; one in all if it has no others.
        """
        varying = unit.varying
        if varying is None or not unit.lower[varying] < unit.upper[varying]:
            return None
        # Errors of different columns are as good as independent.
        tolerance = TOLERANCE.get(self.Y.dtype, 1e-6) / math.sqrt(len(self.units))
        max_degree = max(16, LANDMARK_BYTES // (8 * max(len(Z), 1) * len(self.units)))
        found = []
        for level in unit.levels if len(unit.columns) > 1 else unit.fill[None]:

            def logarithms(x: Tensor, which: slice, level: Tensor = level) -> Tensor:
                values = level.to(x).repeat(len(x), 1)
                values[:, varying] = x
                return unit.expectation(self.kernel, values, Z[which], constant[which]).log_()

            bounds = unit.lower[varying], unit.upper[varying]
            c = coefficients(logarithms, *bounds, tolerance, max_degree, Z.device)
            if c is None:
                return None
            found.append(c)
        return found

    @property
    def cost(self) -> float:
        """Cost of one entry, in flops of a matrix product."""
        return 2.0 * len(self.C) + EXP_COST + sum(self.units[i].cost() for i in self.direct)

    def __call__(self, X: Tensor) -> Tensor:  # (b, d) -> (b, m)
        out = X.new_empty(len(X), len(self.Y))
        for rows in row_blocks(len(X), rows_within(BLOCK_BYTES, X.element_size() * max(len(self.C), 1))):
            self._fill(X[rows], out[rows])
        return out

    def _fill(self, X: Tensor, out: Tensor) -> None:
        features, covered = self._features(X)
        torch.addmm(self.bias, features, self.C, out=out).exp_()
        self._multiply(X, out, self.direct)
        outside = (~covered).nonzero()[:, 0]
        if len(outside):
            products = X.new_ones(len(outside), len(self.Y))
            self._multiply(X[outside], products, range(len(self.units)))
            out[outside] = products

    def _features(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """F(x), (b, K), and the rows it is valid for, (b,)."""
        features = X.new_empty(len(X), len(self.C))
        covered = torch.ones(len(X), dtype=torch.bool, device=X.device)
        start = 0
        for form in self.forms:
            covered &= form.write(X, features[:, start : start + len(form.C)])
            start += len(form.C)
        return features, covered

    def _multiply(self, X: Tensor, out: Tensor, which: Sequence[int]) -> None:
        """Multiply `out` by the factors of the units at the given positions, in blocks that stay in cache."""
        size = rows_within(FACTOR_BYTES, X.element_size() * max(len(self.Y), 1), smallest=1)
        for rows in row_blocks(len(X), size) if len(which) else ():
            for i in which:
                values = X[rows][:, self.units[i].columns]
                out[rows].mul_(self.units[i].expectation(self.kernel, values, self.Y, self.constants[i]))
