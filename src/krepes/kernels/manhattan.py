"""Sums over columns compiled by numba: L1 distances are three to five times faster than torch.cdist on a CPU.

    sum_k |x_k - y_k|        and        sum_k (x_k - y_k)^2 / (x_k + y_k),   of numbers >= 0

Importing this module fails where numba is not installed (the extra `fast`); torch serves then. Rows are
divided among plain threads, as many as torch uses: numba's own parallel loops set the number of threads of
the OpenMP library that torch shares, for the whole process and for good.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

SMALLEST_SHARE = 2**18  # multiplications for which a thread is worth starting


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"}, cache=True)
def _manhattan(X: np.ndarray, Y: np.ndarray, out: np.ndarray) -> None:  # (n, d), (m, d), (n, m)
    for i in range(X.shape[0]):
        for j in range(Y.shape[0]):
            total = X.dtype.type(0)
            for k in range(X.shape[1]):
                total += abs(X[i, k] - Y[j, k])
            out[i, j] = total


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"}, cache=True)
def _chi_squared(X: np.ndarray, Y: np.ndarray, out: np.ndarray) -> None:  # (n, d), (m, d), (n, m)
    tiny = np.finfo(X.dtype).tiny
    for i in range(X.shape[0]):
        for j in range(Y.shape[0]):
            total = X.dtype.type(0)
            for k in range(X.shape[1]):
                difference = X[i, k] - Y[j, k]
                total += difference * difference / (X[i, k] + Y[j, k] + tiny)
            out[i, j] = total


def manhattan(X: np.ndarray, Y: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Sum_k |X_ik - Y_jk|, shape (n, m)."""
    return _by_rows(_manhattan, X, Y, n_threads)


def chi_squared_sums(X: np.ndarray, Y: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Sum_k (X_ik - Y_jk)^2 / (X_ik + Y_jk) of numbers >= 0, shape (n, m)."""
    return _by_rows(_chi_squared, X, Y, n_threads)


def _by_rows(loop: Callable[..., Any], X: np.ndarray, Y: np.ndarray, n_threads: int) -> np.ndarray:
    X, Y = np.ascontiguousarray(X), np.ascontiguousarray(Y)
    out = np.empty((len(X), len(Y)), dtype=X.dtype)
    shares = int(min(n_threads, max(1, X.size * len(Y) // SMALLEST_SHARE)))
    if shares == 1:
        loop(X, Y, out)
        return out
    edges = np.linspace(0, len(X), shares + 1).astype(int)
    with ThreadPoolExecutor(shares) as pool:
        list(pool.map(lambda a, b: loop(X[a:b], Y, out[a:b]), edges[:-1], edges[1:]))
    return out
