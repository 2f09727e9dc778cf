"""Exact expected kernels under tabular augmentation, mostly as one matrix product.

    psi(x)_z = prod_g E_aug kappa_g(x, z)                              [krepes design, exact augmentations]
             = exp( sum_g log E_aug kappa_g(x, z) ) = exp( bias(z) + F(x) . C(z) )

The product over units g is not a matrix product, and multiplying it out costs an exponential per column and
entry. But the logarithm of one factor is, for every landmark z, a function of one column, and most such
functions separate (`krepes.views.separable_forms`): exactly for columns and categories with few values, to a relative
error of psi below 1e-6 (float32) or 1e-12 (float64) where they are smooth. What remains (a kink, a narrow
peak) is multiplied in directly, and so are all factors of the few rows that lie outside the range of the
candidates or have a value never seen there.

A unit g is one column, or the columns of one category, which an augmentation keeps, drops or replaces together:

    kappa_g(x, z) = prod_{j in g} E kappa_j(x_j + noise_j * N(0,1), z_j)
    E_aug kappa_g = keep * kappa_g(x, z) + drop * kappa_g(fill, z) + replace * mean_u kappa_g(u, z)

Smooth functions are short sums of Chebyshev polynomials,

    f(x) ~ sum_{k <= K} c_k T_k(s),   s = (x - center) / half in [-1, 1]

c comes from the values of f at Chebyshev points by a cosine transform; the degree K is the smallest one that leaves out
less than the tolerance. The error of interpolating an analytic function falls geometrically with K [trefethen, ch. 8].

Cost O(b m K), K about 8 per smooth column; memory 64 MB beyond the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.kernels.kernel import CoordinateProduct
from krepes.views.separable_forms import Binary, Categories, GatedSeries, Series, Unit

TOLERANCE = {torch.float64: 1e-12}  # of the logarithm of psi; others 1e-6
BLOCK_BYTES = 64 * 2**20  # of the features F of one block of rows
LANDMARK_BYTES = 256 * 2**20  # of the coefficients C, about
# of one factor multiplied in directly: it is passed over several times
FACTOR_BYTES = 2**20
EXP_COST = 60.0  # of an exponential, in flops of a matrix product
# of a coordinate's factor; with noise it may be an erfc
FACTOR_COST, SMOOTHED_COST = 250.0, 5000.0
POINTS = (17, 33, 65, 129, 257)  # of a series

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
        constants = [self._constant(unit, Z) for unit in units]
        self.constants = [constant.to(Y.dtype) for constant in constants]
        self.forms, self.direct = self._separate(Z, constants)
        self.bias = sum((form.bias for form in self.forms), start=Z.new_zeros(len(Z))).to(Y.dtype)
        self.C = torch.cat([*(form.C for form in self.forms), Z[:, :0].mT]).to(Y.dtype)

    def _product(self, unit: Unit, X: Tensor, Z: Tensor) -> Tensor:
        """kappa_g: values X of the unit, (b, g), and rows Z, (m, d) -> (b, m)."""
        return self.kernel.coordinate_product(unit.columns, X, Z[:, unit.columns], unit.noise)

    def _constant(self, unit: Unit, Z: Tensor) -> Tensor:
        """The part of the expectation that does not depend on x, (m,)."""
        constant = Z.new_zeros(len(Z))
        if unit.drop > 0:
            constant += unit.drop * self._product(unit, unit.fill[None, :].to(Z), Z)[0]
        if unit.replace > 0:
            constant += unit.replace * self._product(unit, unit.table.to(Z), Z).mean(dim=0)
        return constant

    def _expected(self, unit: Unit, X: Tensor, Z: Tensor, constant: Tensor) -> Tensor:
        """E_aug kappa_g, from values X of the unit (b, g) and rows Z (m, d): shape (b, m)."""
        return self._product(unit, X, Z).mul_(unit.keep).add_(constant)

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
                forms.append(GatedSeries(unit, _varying(unit) or 0, c))
            elif table is not None:
                forms.append(Categories(unit, table))
            else:
                direct.append(i)
        forms += [Binary(*map(list, zip(*binary, strict=True)))] if binary else []
        forms += [Series(*map(list, zip(*series, strict=True)))] if series else []
        return forms, direct

    def _table(self, unit: Unit, Z: Tensor, constant: Tensor) -> Tensor | None:
        """log E_aug kappa_g of every known value of the unit, (q, m)."""
        if len(unit.levels) == 0 or bool(unit.levels.isnan().any()):
            return None
        table = self._expected(unit, unit.levels.to(Z), Z, constant).log_()
        return table if torch.isfinite(table).all() else None

    def _coefficients(self, unit: Unit, Z: Tensor, constant: Tensor) -> list[Tensor] | None:
        """Chebyshev coefficients of log E_aug kappa_g in the unit's varying column, (K + 1, m).

        One tensor for every value of the unit's other columns; one in all if it has no others.
        """
        varying = _varying(unit)
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
                return self._expected(unit, values, Z[which], constant[which]).log_()

            bounds = unit.lower[varying], unit.upper[varying]
            c = coefficients(logarithms, *bounds, tolerance, max_degree, Z.device)
            if c is None:
                return None
            found.append(c)
        return found

    @property
    def cost(self) -> float:
        """Cost of one entry, in flops of a matrix product."""
        noises = [noise for i in self.direct for noise in self.units[i].noise]
        factors = sum(SMOOTHED_COST if noise > 0 else FACTOR_COST for noise in noises)
        return 2.0 * len(self.C) + EXP_COST + factors

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
                out[rows].mul_(self._expected(self.units[i], values, self.Y, self.constants[i]))


def _varying(unit: Unit) -> int | None:
    """The position of the only column that has many values, if there is just one."""
    if len(unit.columns) == 1:
        return 0
    unknown = unit.levels[:1].isnan().nonzero()[:, 1].tolist()
    return unknown[0] if len(unknown) == 1 else None


def coefficients(
    f: Callable[[Tensor, slice], Tensor],
    lower: float,
    upper: float,
    tolerance: float,
    max_degree: int,
    device: torch.device | str = "cpu",
) -> Tensor | None:
    """Coefficients of m functions on [lower, upper], shape (K + 1, m), float64.

    Parameters
    ----------
    f : callable (x of shape (N,), which) -> (N, m')
        The values of the functions selected by the slice `which`. Every 64th one is tried first, so that
        functions out of reach (a kink, a narrow peak) cost little.
    lower, upper : float
    tolerance : float
        Bound on the error, on top of rounding.
    max_degree : int

    Returns
    -------
    None where no allowed degree reaches the tolerance, or f is not finite.

    Examples
    --------
    x^2 = (T_0 + T_2) / 2 on [-1, 1]:

    >>> c = coefficients(lambda x, which: x[:, None] ** 2, -1.0, 1.0, 1e-12, max_degree=16)
    >>> c.flatten().round(decimals=9).tolist()
    [0.5, 0.0, 0.5]
    """

    def series(n_points: int, which: slice) -> Tensor | None:
        angles = (torch.arange(n_points, dtype=torch.float64, device=device) + 0.5) * (math.pi / n_points)
        x = (lower + upper) / 2 + (upper - lower) / 2 * angles.cos()
        return _series(f(x, which), angles, tolerance)

    sizes = [n for n in POINTS if n <= 4 * max_degree + 1]
    some = series(sizes[-1], slice(None, None, 64)) if sizes else None
    for n_points in sizes if some is not None else ():
        if some is not None and len(some) <= 3 * n_points // 4:
            c = series(n_points, slice(None))
            if c is not None:
                return c if len(c) <= max_degree + 1 else None
    return None


@cache
def _cosines(n_points: int) -> Tensor:
    """cos(k angle_j) of the Chebyshev points, (n, n)."""
    orders = torch.arange(n_points, dtype=torch.float64)
    return torch.cos(orders[:, None] * ((orders + 0.5) * (math.pi / n_points)))


def _series(values: Tensor, angles: Tensor, tolerance: float) -> Tensor | None:
    """The cosine transform of values at Chebyshev points, cut at the tolerance; None if it has not died out."""
    n_points = len(angles)
    if not torch.isfinite(values).all():
        return None
    c = _cosines(n_points).to(angles.device) @ values * (2 / n_points)
    c[0] /= 2
    largest = c.abs().amax(dim=1)
    allowed = tolerance + 16 * n_points * torch.finfo(c.dtype).eps * largest.max().item()
    # entry k bounds the sum of the terms from k on
    left_out = largest.flip(0).cumsum(0).flip(0)
    if left_out[3 * n_points // 4] > allowed:
        return None
    return c[: max(int((left_out > allowed).sum()), 1)]
