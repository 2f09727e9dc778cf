"""Mixed rows of numbers and categories, compared column by column, in the manner of Gower.            [gower]

    d_j(x, y) = |x_j - y_j| in standard deviations for numbers; 1 for two different categories, 0 for the same
    s_j = exp(-d_j / l), or exp(-d_j^2 / (2 l^2))
    k(x, y) = prod_j s_j(x, y)      or      mean_j s_j(x, y)

and where a column has missing values, with c = `missing`,

    s_j = c^2 + (1 - c^2) exp(-d_j / l) where both values are there,    c where one is missing,    1 where both are

Positive semi-definite, because every s_j is and products and means of such kernels are: with the features f(x_j) of the
exponential, s_j is the inner product of (c, sqrt(1 - c^2) f(x_j)), and of (1, 0) for a missing value. Leaving a column
out where a value is missing, as Gower does, is s_j = 1 there, which is not definite: a row that is missing
would be equal to two rows that are unlike each other.

Cost O(n m d). The product without missing values is one distance of all columns; every other column takes a few passes
over the block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.rows import EncodedColumn, RowLayout
from krepes.base.storage.codec import decode
from krepes.base.validation import check_choice, check_number
from krepes.kernels.distances import manhattan_distances_to, squared_distances_to
from krepes.kernels.kernel import KernelColumns
from krepes.kernels.vectors import VectorKernel, as_rows, fixed_lengthscale, median_distance, medians

SMALLEST = 1e-300  # of a lengthscale, or its square


@dataclass(frozen=True)
class _StoredColumn:
    """An entry of `layout`, as a file holds it."""

    category: bool
    places: list[int]
    missing: int | None


@dataclass(eq=False, repr=False)
class Gower(VectorKernel):
    """Rows of numbers and categories, as a product or a mean of similarities of single columns.

    Parameters
    ----------
    lengthscale : float or "median", default="median"
        l. "median" makes the exponential 1/e at the median of the distances that it is taken of.
    combine : "product" or "mean", default="product"
        A product asks for likeness in all columns; a mean is a sum of functions of single columns.
    profile : "laplacian" or "gaussian", default="laplacian"
    missing : float, default=0.5
        c, the similarity between a missing and a present value, from 0 to 1. It matters in columns that had missing
        values when the table was encoded.
    layout : list of dict, default=None
        The encoded columns that each column has become; an estimator sets it. None: every column is a number.

    Examples
    --------
    >>> Gower(lengthscale=1.0)([[0.0, 0.0]], [[1.0, 2.0]])                      # exp(-3)
    tensor([[0.0498]], dtype=torch.float64)
    >>> Gower(lengthscale=1.0, combine="mean")([[0.0, 0.0]], [[1.0, 2.0]])      # (exp(-1) + exp(-2)) / 2
    tensor([[0.2516]], dtype=torch.float64)
    """

    lengthscale: float | str = "median"
    combine: str = "product"
    profile: str = "laplacian"
    missing: float = 0.5
    layout: list[dict[str, Any]] | None = None

    def check_restored(self) -> None:
        self._check()
        for column in self.layout or []:
            decode(_StoredColumn, column)

    @property
    def shift_invariant(self) -> bool:
        return self.layout is None

    @property
    def one_scale(self) -> bool:
        return self.layout is None

    def suited(self, layout: RowLayout) -> Gower:
        return clone(self).set_params(layout=[_laid_out(column) for column in layout.columns] or None)

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Gower:
        if not isinstance(self.lengthscale, str):
            return self
        multiple, rows = medians(self.lengthscale), as_rows(X)
        columns = self._columns(rows.shape[1])

        def distances_to(Y: Tensor) -> Callable[[Tensor], Tensor]:
            total = self._powers_to(Y, columns)
            power = 1 / len(columns) if self.combine == "mean" else 1.0
            return lambda Z: total(Z).mul_(power).pow_(1.0 if self.profile == "laplacian" else 0.5)

        length = median_distance(rows, distances_to, generator)
        return clone(self).set_params(lengthscale=multiple * length / self._reach)

    def against_rows(self, Y: Tensor) -> KernelColumns:
        self._check()
        length = fixed_lengthscale(self.lengthscale)
        scale = -1 / max((self._reach * length) ** (1 if self.profile == "laplacian" else 2), SMALLEST)
        columns, mean = self._columns(Y.shape[1]), self.combine == "mean"
        alone = columns if mean else [column for column in columns if column["missing"] is not None]
        together = [column for column in columns if column not in alone]
        block = self._powers_to(Y, together) if together else None
        singles = [(column, self._powers_to(Y, [column])) for column in alone]

        def values(X: Tensor) -> Tensor:
            K = X.new_zeros(len(X), len(Y)) if mean else X.new_ones(len(X), len(Y))
            if block is not None:
                K = block(X).mul_(scale).exp_()
            for column, powers in singles:
                s = self._with_missing(powers(X).mul_(scale).exp_(), X, Y, column["missing"])
                K = K.add_(s, alpha=1 / len(columns)) if mean else K.mul_(s)
            return K

        return values

    def diag_rows(self, X: Tensor) -> Tensor:
        self._check()
        return X.new_ones(len(X))

    def _with_missing(self, s: Tensor, X: Tensor, Y: Tensor, place: int | None) -> Tensor:
        if place is None:
            return s
        c, x, y = float(self.missing), X[:, place, None], Y[:, place]
        s.mul_((1 - c * c) * (1 - x)).mul_(1 - y)
        return s.add_((c + (1 - c) * x) * (c + (1 - c) * y))

    def _powers_to(self, Y: Tensor, columns: list[dict[str, Any]]) -> Callable[[Tensor], Tensor]:
        """X -> sum of d_j over some columns, (b, m), or of d_j^2 for the Gaussian profile.

        A category is half the L1 distance of its indicators, and half their squared distance: 1 where they differ.
        """
        places = [place for column in columns for place in column["places"]]
        halves = [0.5 if column["category"] else 1.0 for column in columns for _ in column["places"]]
        weight = torch.tensor(halves, dtype=Y.dtype, device=Y.device)
        if self.profile == "laplacian":
            distances = manhattan_distances_to(Y[:, places] * weight)
        else:
            weight = weight.sqrt()
            distances = squared_distances_to(Y[:, places] * weight)
        return lambda X: distances(X[:, places] * weight)

    @property
    def _reach(self) -> float:
        return 1.0 if self.profile == "laplacian" else math.sqrt(2)

    def _columns(self, width: int) -> list[dict[str, Any]]:
        if self.layout is None:
            return [{"category": False, "places": [j], "missing": None} for j in range(width)]
        return self.layout

    def _check(self) -> None:
        check_choice("combine", self.combine, ("product", "mean"))
        check_choice("profile", self.profile, ("laplacian", "gaussian"))
        check_number("missing", self.missing, least=0, most=1)


def _laid_out(column: EncodedColumn) -> dict[str, Any]:
    """Where the encoded values of a column are, and what says that one is missing.

    Points of length 1 are compared as categories: half of their squared distance is 1 on average, as for levels.
    """
    return {
        "category": column.kind != "number",
        "places": list(column.values),
        "missing": column.missing,
    }
