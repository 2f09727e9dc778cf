"""A kernel matrix as a source: the rows of K, each with the number of the column that is its own.

fitting     K (n, n): row i is [i, k(x_i, x_1), ..., k(x_i, x_n)]
later       K (b, n) or (b, n + 1): a new row is [-k(x, x), k(x, x_1), ..., k(x, x_n)], where k(x, x) comes last in K,
            and begins with -3e38 where it is not known
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from krepes.base.reporting import warn
from krepes.base.rows import UNKNOWN_DIAGONAL
from krepes.base.validation import as_array
from krepes.sources.source import IndexedSource, Source

BLOCK_ROWS = 1024
_TAKES = "kernel='precomputed' takes a matrix of kernel values"
SYMMETRY = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-8}  # of the largest value


class KernelMatrixSource(IndexedSource):
    """Rows of a kernel matrix, each after a number.

    >>> next(KernelMatrixSource(np.eye(2), np.arange(2)).batches(2))[1].tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    kind = "precomputed"

    def __init__(self, K: np.ndarray, numbers: np.ndarray):
        super().__init__()
        self.K, self.n_rows = K, len(K)
        self._numbers = numbers.astype(K.dtype)

    def describe(self) -> str:
        return f"kernel matrix, {self.n_rows:,} × {self.K.shape[1]:,}"

    def _rows(self, which: slice | np.ndarray) -> np.ndarray:
        return np.concatenate([self._numbers[which, None], self.K[which]], axis=1)


def fitted_matrix(X: Any) -> KernelMatrixSource:
    """The matrix that a model is fitted on: square, symmetric, with a diagonal >= 0."""
    K = _matrix(X)
    if K.shape[0] != K.shape[1]:
        square = "the square matrix of all pairs of rows"
        raise ValueError(f"kernel='precomputed' is fitted on {square}; got shape {K.shape}.")
    _check_definite(K)
    return KernelMatrixSource(K, np.arange(len(K)))


def new_rows(X: Any, n_fitted: int) -> KernelMatrixSource:
    """Kernel values between new rows and the n rows that were fitted; a column more holds k(x, x)."""
    K = _matrix(X)
    if K.shape[1] == n_fitted + 1:
        if (K[:, -1] < 0).any():
            raise ValueError(
                "The last column of the kernel matrix is k(x, x) of new rows, which is never negative."
            )
        return KernelMatrixSource(K[:, :-1], -K[:, -1].clip(min=np.finfo(K.dtype).tiny))
    if K.shape[1] != n_fitted:
        expected = f"krepes is expecting {n_fitted} features as input: kernel values with all fitted rows"
        raise ValueError(f"X has {K.shape[1]} features, but {expected}.")
    return KernelMatrixSource(K, np.full(len(K), UNKNOWN_DIAGONAL))


def _matrix(X: Any) -> np.ndarray:
    if isinstance(X, str | os.PathLike | Source):
        raise TypeError(f"{_TAKES} in memory, not files or sources.")
    array = as_array(X)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"{_TAKES}; got shape {array.shape} and dtype {array.dtype}.")
    if len(array) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    array = array if array.dtype in SYMMETRY else array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError("Input X contains NaN or infinity: a kernel matrix has finite values.")
    return array


def _check_definite(K: np.ndarray) -> None:
    """Symmetric, and k(x, y)^2 <= k(x, x) k(y, y): what all definite matrices are, in O(n^2)."""
    diagonal = np.diagonal(K).astype(np.float64)
    largest, allowed = float(np.abs(K).max()), SYMMETRY[K.dtype]
    if (diagonal < 0).any():
        place = int(np.argmin(diagonal))
        raise ValueError(
            f"The kernel matrix has k(x, x) = {diagonal[place]:.4g} in row {place}; a kernel is never negative there."
        )
    indefinite = False
    for first in range(0, len(K), BLOCK_ROWS):
        rows = slice(first, first + BLOCK_ROWS)
        difference = np.abs(K[rows] - K[:, rows].T)
        if difference.max() > allowed * largest:
            i, j = np.unravel_index(int(difference.argmax()), difference.shape)
            raise ValueError(
                f"The kernel matrix is not symmetric: rows {first + i} and {j} differ by {difference.max():.3g}. If "
                "that is rounding, give (K + K.T) / 2."
            )
        bound = np.sqrt(diagonal[rows, None] * diagonal)
        indefinite |= bool((np.abs(K[rows]) > bound + allowed * largest).any())
    if indefinite:
        warn(
            "The kernel matrix is not positive semi-definite: |k(x, y)| is larger than sqrt(k(x, x) k(y, y)) for some "
            "rows. Its negative part is dropped; distances are not a kernel."
        )
