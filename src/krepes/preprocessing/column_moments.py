"""Count, mean, sum of squares and range of columns, over chunks of rows.

A chunk's moments are taken in two passes over the chunk and merged into those of the rows before [chan],

    delta = mean_b - mean,   mean += delta n_b / n,   M2 += M2_b + delta^2 n_a n_b / n,   n = n_a + n_b,

in float64, so that a large mean does not swallow a small variance. Cost O(n k).
"""

from __future__ import annotations

import numpy as np


class ColumnMoments:
    """Moments of k columns; NaN is a missing value.

    >>> moments = ColumnMoments(1)
    >>> for rows in ([[1.0, 3.0]], [[5.0, np.nan]]):
    ...     moments.add(np.array(rows))
    >>> moments.count.tolist(), moments.mean.tolist(), moments.variance.round(4).tolist()
    ([3], [3.0], [2.6667])
    """

    def __init__(self, k: int):
        self.count = np.zeros(k, dtype=np.int64)
        self.mean, self.squares = np.zeros(k), np.zeros(k)
        self.low, self.high = np.full(k, np.inf), np.full(k, -np.inf)
        self.infinite = np.zeros(k, dtype=bool)

    @property
    def variance(self) -> np.ndarray:
        """Population variances of the values that are there."""
        return self.squares / np.maximum(self.count, 1)

    def variance_of(self, j: int) -> float:
        """That of one column, where there may be very many."""
        return self.squares[j] / max(self.count[j], 1)

    def add(self, M: np.ndarray) -> None:  # shape: (k, b), overwritten
        missing = np.isnan(M)
        self.infinite |= np.isinf(M).any(axis=1)
        count = M.shape[1] - missing.sum(axis=1)
        self.low = np.fmin(self.low, np.fmin.reduce(M, axis=1, initial=np.inf))
        self.high = np.fmax(self.high, np.fmax.reduce(M, axis=1, initial=-np.inf))
        M[missing] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            mean = M.sum(axis=1) / np.maximum(count, 1)
            M -= mean[:, None]
            M[missing] = 0.0
            squares = np.square(M, out=M).sum(axis=1)
            total = np.maximum(self.count + count, 1)
            delta = mean - self.mean
            self.mean = self.mean + delta * (count / total)
            self.squares = self.squares + squares + delta**2 * (self.count * (count / total))
        self.count = self.count + count
