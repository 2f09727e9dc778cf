"""Inner products and distances of sparse rows, from their entries alone.

    x.y            sparse matrix product
    |x - y|^2      |x|^2 - 2 x.y + |y|^2
    |x - y|_1      |x|_1 + |y|_1 - 2 sum_j min(|x_j|, |y_j|)     over the columns where both have one sign

The landmark side is transposed once. Everything is summed in float64, whatever the rows' dtype: indices cost more than
numbers here, and rows cannot be shifted to their mean, which would fill them. For square roots, the distances of near
neighbours are computed again from their differences, as for dense rows. Cost: one step for every landmark that has an
entry in a column of x; memory beyond the (b, m) result is 64 MB.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.rows import SparseRows

BLOCK_BYTES = 64 * 2**20
PRODUCT_BYTES = 32  # of one value of a sparse product, with its indices and its copy
STEP_BYTES = 48  # of one pair of entries in a common column
NEAR = float(np.finfo(np.float64).eps) ** 0.5

SparseColumns = Callable[[SparseRows], Tensor]  # X (b, d) -> (b, m), float64


def sparse_products_with(Y: SparseRows) -> SparseColumns:
    """A function X -> x.y."""
    right = Y.double().csr.T.tocsr()  # (d, m)

    def block(X: SparseRows) -> Tensor:
        K = np.empty((len(X), len(Y)))
        for rows in row_blocks(len(X), rows_within(BLOCK_BYTES, PRODUCT_BYTES * max(1, len(Y)))):
            K[rows] = (X[rows].csr @ right).toarray()
        return torch.from_numpy(K)

    return block


def sparse_square_norms(X: SparseRows) -> Tensor:
    """|x|^2 of every row."""
    return torch.from_numpy(X.square_norms())


def sparse_squared_distances_to(Y: SparseRows, scale: float = 1.0) -> SparseColumns:
    """A function X -> scale * |x - y|^2, clamped to the sign of `scale`."""
    products, norms = sparse_products_with(Y), sparse_square_norms(Y)

    def block(X: SparseRows) -> Tensor:
        D = products(X).mul_(-2).add_(norms).add_(sparse_square_norms(X)[:, None]).mul_(scale)
        return D.clamp_(max=0) if scale < 0 else D.clamp_(min=0)

    return block


def sparse_distances_to(Y: SparseRows) -> SparseColumns:
    """A function X -> |x - y|; equal rows are at distance zero exactly."""
    squared, Y = sparse_squared_distances_to(Y), Y.double()

    def block(X: SparseRows) -> Tensor:
        D, X = squared(X), X.double()
        neighbours = torch.le(D, NEAR * sparse_square_norms(X)[:, None]).nonzero()
        entries = 24 * (1 + (X.csr.nnz + Y.csr.nnz) // max(1, len(X) + len(Y)))
        for pairs in row_blocks(len(neighbours), rows_within(BLOCK_BYTES, entries)):
            i, j = neighbours[pairs].unbind(1)
            D[i, j] = sparse_square_norms(SparseRows(X[i].csr - Y[j].csr))
        return D.sqrt_()

    return block


def sparse_manhattan_distances_to(Y: SparseRows) -> SparseColumns:
    """A function X -> sum_j |x_j - y_j|."""
    right = SparseRows(Y.double().csr.T)  # (d, m): of every column, the rows that have it
    per_column, total, m = np.diff(right.edges), _absolute_sums(Y), len(Y)

    def block(X: SparseRows) -> Tensor:
        D = (_absolute_sums(X)[:, None] + total).numpy()
        common = np.add.reduceat(np.append(per_column[X.columns], 0), X.edges[:-1]) * (np.diff(X.edges) > 0)
        for rows in _parts(common, BLOCK_BYTES // STEP_BYTES):
            D[rows] -= 2 * _minima(X[rows].double(), right, per_column, m)
        return torch.from_numpy(D).clamp_(min=0)

    return block


def _minima(X: SparseRows, right: SparseRows, per_column: np.ndarray, m: int) -> np.ndarray:
    """sum_j min(|x_j|, |y_j|) over the columns where both have one sign, (b, m)."""
    counts = per_column[X.columns]  # of landmarks that share the column of an entry
    entry = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    place = right.edges[X.columns][entry] + np.arange(len(entry)) - first[entry]
    x, y = X.values[entry], right.values[place]
    shared = np.where(x * y > 0, np.minimum(np.abs(x), np.abs(y)), 0.0)
    where = X.row_of_entry[entry] * m + right.columns[place]
    return np.bincount(where, shared, minlength=len(X) * m).reshape(len(X), m).astype(np.float64, copy=False)


def _parts(costs: np.ndarray, most: int) -> list[slice]:
    """Rows in parts that cost at most so much together, or are one row."""
    parts, start, total = [], 0, 0
    for i, cost in enumerate(costs.tolist()):
        if i > start and total + cost > most:
            parts.append(slice(start, i))
            start, total = i, 0
        total += cost
    return [*parts, slice(start, len(costs))]


def _absolute_sums(X: SparseRows) -> Tensor:
    """|x|_1 of every row."""
    return torch.from_numpy(X.row_sums(np.abs(X.values.astype(np.float64))))
