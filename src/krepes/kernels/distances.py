"""Inner products and distances between blocks of rows, with the landmark side computed once.

    |x - y|^2 = |x|^2 - 2 x.y + |y|^2 = [x, |x|^2, 1] . [-2y, 1, |y|^2]          one matrix product

Dense rows are shifted by the mean of Y first: distances do not change, and float32 does not lose the spread of data far
from the origin. The product's rounding error is a few eps |x|^2, which two guards keep out of the results: exponents
(`scale` < 0) are computed in float64 for rows that lie very many lengthscales from the mean, and for square roots the
distances of near neighbours are computed again from their differences.

Sparse rows are multiplied entry by entry and summed in float64. They are not shifted, which would fill them. Memory
beyond the (b, m) result is 64 MB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.rows import SparseRows

Vectors = Tensor | SparseRows  # (n, d)
Columns = Callable[[Any], Tensor]  # X (b, d) -> (b, m)

LARGEST_EXPONENT_ERROR = 1e-5
# numbers held at once when pairs are computed from their differences
PAIR_NUMBERS = 2**23
SPARSE_BYTES = 64 * 2**20
# of one value of a sparse product, with its indices and its copy
PRODUCT_BYTES = 32
STEP_BYTES = 48  # of one pair of entries in a common column
NEAR = float(np.finfo(np.float64).eps) ** 0.5
SMALLEST_SHARE = 2**18  # multiplications for which a thread is worth starting


def products_with(Y: Vectors) -> Columns:
    """A function X -> x.y, shape (b, m)."""
    if not isinstance(Y, SparseRows):
        return lambda X: X @ Y.mT
    right = Y.double().csr.T.tocsr()  # (d, m)

    def block(X: SparseRows) -> Tensor:
        K = np.empty((len(X), len(Y)))
        for rows in row_blocks(len(X), rows_within(SPARSE_BYTES, PRODUCT_BYTES * max(1, len(Y)))):
            K[rows] = (X[rows].csr @ right).toarray()
        return torch.from_numpy(K)

    return block


def square_norms(X: Vectors) -> Tensor:
    """|x|^2 of every row, shape (n,)."""
    return torch.from_numpy(X.square_norms()) if isinstance(X, SparseRows) else X.square().sum(1)


def squared_distances_to(Y: Vectors, scale: float = 1.0) -> Columns:
    """A function X -> scale * |x - y|^2, shape (b, m), clamped to the sign of `scale`."""
    if isinstance(Y, SparseRows):
        return _sparse_squared_distances_to(Y, scale)
    center = Y.mean(dim=0)
    Yc = Y - center
    right = torch.cat([-2 * Yc, Yc.new_ones(len(Yc), 1), Yc.square().sum(1, keepdim=True)], dim=1).mul_(scale)
    right_T = right.mT.contiguous()
    largest_norm = LARGEST_EXPONENT_ERROR / (abs(scale) * torch.finfo(Y.dtype).eps)

    def block(X: Tensor) -> Tensor:
        left = X.new_empty(len(X), right.shape[1])
        Xc = left[:, :-2]
        if X.requires_grad or center.requires_grad:
            Xc.copy_(X - center)
        else:
            torch.sub(X, center, out=Xc)
        left[:, -2] = Xc.square().sum(1)
        left[:, -1] = 1
        D = left @ right_T
        if scale < 0 and X.dtype != torch.float64 and bool((far := left[:, -2] > largest_norm).any()):
            D[far] = squared_distances_to(Y.double(), scale)(X[far].double()).to(D.dtype)
        elif bool((beyond := left[:, -2].isinf()).any()):  # because infinity - infinity is NaN
            D[beyond] = math.copysign(math.inf, scale)
        return D.clamp_(max=0) if scale < 0 else D.clamp_(min=0)

    return block


def distances_to(Y: Vectors) -> Columns:
    """A function X -> |x - y|, shape (b, m).

    A square root turns an error of eps |x|^2 into one of sqrt(eps) |x| where x and y coincide. Squared
    distances below sqrt(eps) |x|^2 are therefore computed again: the error falls to eps^(3/4) |x|, and
    equal rows are at distance zero exactly.
    """
    if isinstance(Y, SparseRows):
        return _sparse_distances_to(Y)
    squared, center = squared_distances_to(Y), Y.mean(dim=0)
    near = torch.finfo(Y.dtype).eps ** 0.5

    def block(X: Tensor) -> Tensor:
        D = squared(X)
        radius = near * (X - center).square().sum(1, keepdim=True)
        neighbours = torch.le(D, radius).nonzero()
        for pairs in neighbours.split(max(1, PAIR_NUMBERS // max(1, Y.shape[1]))):
            i, j = pairs.unbind(1)
            D[i, j] = (X[i] - Y[j]).square_().sum(1)
        if not D.requires_grad:
            return D.sqrt_()
        equal = D == 0  # where the slope is zero, the mean of both sides
        return D.masked_fill(equal, 1).sqrt().masked_fill(equal, 0)

    return block


def manhattan_distances_to(Y: Vectors) -> Columns:
    """A function X -> sum_j |x_j - y_j|, shape (b, m); of dense rows with numba where it is installed, else torch."""
    if isinstance(Y, SparseRows):
        return _sparse_manhattan_distances_to(Y)
    if Y.dtype.itemsize < 4:  # neither torch nor numba has sums of short floats
        wide = manhattan_distances_to(Y.float())
        return lambda X: wide(X.float()).to(Y.dtype)
    return _compiled_or("manhattan", Y, lambda X: torch.cdist(X, Y, p=1))


def chi_squared_distances_to(Y: Tensor) -> Columns:
    """A function X -> sum_j (x_j - y_j)^2 / (x_j + y_j) of numbers >= 0, shape (b, m); 0 / 0 is 0.

    Numba where it is installed, else column by column with torch.
    """
    tiny = torch.finfo(Y.dtype).tiny

    def by_columns(X: Tensor) -> Tensor:
        total = X.new_zeros(len(X), len(Y))
        for x, y in zip(X.mT, Y.mT):
            total += (x[:, None] - y).square_().div_(x[:, None] + y + tiny)
        return total

    return _compiled_or("chi_squared", Y, by_columns)


def _compiled_or(name: str, Y: Tensor, plain: Columns) -> Columns:
    """The compiled sum of that name on a CPU where numba is installed; otherwise, and for gradients, the plain one."""
    fits = Y.device.type == "cpu" and Y.dtype in (torch.float32, torch.float64)
    loop = compiled(name) if fits else None
    if loop is None:
        return plain
    right = np.ascontiguousarray(Y.detach().numpy())

    def block(X: Tensor) -> Tensor:
        if X.requires_grad or Y.requires_grad:
            return plain(X)
        return torch.from_numpy(by_rows(loop, X.detach().numpy(), right, torch.get_num_threads()))

    return block


def by_rows(loop: Callable[..., Any], X: np.ndarray, Y: np.ndarray, n_threads: int) -> np.ndarray:
    """A compiled sum of all pairs of rows, (n, m), with rows of X divided among plain threads.

    Numba's own parallel loops would set the number of threads of the OpenMP library that torch shares, for the whole
    process and for good.
    """
    X = np.ascontiguousarray(X)
    out = np.empty((len(X), len(Y)), dtype=X.dtype)
    shares = int(min(n_threads, max(1, X.size * len(Y) // SMALLEST_SHARE)))
    if shares == 1:
        loop(X, Y, out)
        return out
    edges = np.linspace(0, len(X), shares + 1).astype(int)
    with ThreadPoolExecutor(shares) as pool:
        list(pool.map(lambda a, b: loop(X[a:b], Y, out[a:b]), edges[:-1], edges[1:]))
    return out


@cache
def compiled(name: str) -> Callable[..., Any] | None:
    """A function of `krepes.kernels.loops`, compiled on first use; None without numba."""
    try:
        return getattr(import_module("krepes.kernels.loops"), name)
    except ImportError:
        return None


def _sparse_squared_distances_to(Y: SparseRows, scale: float = 1.0) -> Columns:
    """A function X -> scale * |x - y|^2, clamped to the sign of `scale`."""
    products, norms = products_with(Y), square_norms(Y)

    def block(X: SparseRows) -> Tensor:
        D = products(X).mul_(-2).add_(norms).add_(square_norms(X)[:, None]).mul_(scale)
        return D.clamp_(max=0) if scale < 0 else D.clamp_(min=0)

    return block


def _sparse_distances_to(Y: SparseRows) -> Columns:
    """A function X -> |x - y|; equal rows are at distance zero exactly."""
    squared, Y = _sparse_squared_distances_to(Y), Y.double()

    def block(X: SparseRows) -> Tensor:
        D, X = squared(X), X.double()
        neighbours = torch.le(D, NEAR * square_norms(X)[:, None]).nonzero()
        entries = 24 * (1 + (X.csr.nnz + Y.csr.nnz) // max(1, len(X) + len(Y)))
        for pairs in neighbours.split(rows_within(SPARSE_BYTES, entries)):
            i, j = pairs.unbind(1)
            D[i, j] = square_norms(SparseRows(X[i].csr - Y[j].csr))
        return D.sqrt_()

    return block


def _sparse_manhattan_distances_to(Y: SparseRows) -> Columns:
    """A function X -> sum_j |x_j - y_j|."""
    # (d, m): of every column, the rows that have it
    right = SparseRows(Y.double().csr.T)
    per_column, total, m = np.diff(right.edges), _absolute_sums(Y), len(Y)

    def block(X: SparseRows) -> Tensor:
        D = (_absolute_sums(X)[:, None] + total).numpy()
        common = np.add.reduceat(np.append(per_column[X.columns], 0), X.edges[:-1]) * (np.diff(X.edges) > 0)
        for rows in _parts(common, SPARSE_BYTES // STEP_BYTES):
            D[rows] -= 2 * _minima(X[rows].double(), right, per_column, m)
        return torch.from_numpy(D).clamp_(min=0)

    return block


def _minima(X: SparseRows, right: SparseRows, per_column: np.ndarray, m: int) -> np.ndarray:
    """sum_j min(|x_j|, |y_j|) over the columns where both have one sign, (b, m)."""
    # of landmarks that share the column of an entry
    counts = per_column[X.columns]
    entry = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    place = right.edges[X.columns][entry] + np.arange(len(entry)) - first[entry]
    x, y = X.values[entry], right.values[place]
    shared = np.where(x * y > 0, np.minimum(np.abs(x), np.abs(y)), 0.0)
    where = X.row_of_entry[entry] * m + right.columns[place]
    return np.bincount(where, shared, minlength=len(X) * m).reshape(len(X), m).astype(np.float64, copy=False)


def _parts(costs: np.ndarray, most: int) -> list[slice]:
    """Rows in parts that cost about `most` together, or are one row."""
    starts = np.flatnonzero(np.diff(np.cumsum(costs) // most, prepend=-1))
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], len(costs)])]


def _absolute_sums(X: SparseRows) -> Tensor:
    """|x|_1 of every row."""
    return torch.from_numpy(X.row_sums(np.abs(X.values.astype(np.float64))))
