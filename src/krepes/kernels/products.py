"""Inner products of rows, dense or sparse, with the landmark side prepared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from krepes.base.rows import SparseRows
from krepes.kernels import sparse_products

Vectors = Tensor | SparseRows  # (n, d)


def products_with(Y: Vectors) -> Callable[[Any], Tensor]:
    """A function X -> x.y, shape (b, m)."""
    return sparse_products.sparse_products_with(Y) if isinstance(Y, SparseRows) else lambda X: X @ Y.mT


def square_norms(X: Vectors) -> Tensor:
    """|x|^2 of every row, shape (n,)."""
    return sparse_products.sparse_square_norms(X) if isinstance(X, SparseRows) else X.square().sum(1)
