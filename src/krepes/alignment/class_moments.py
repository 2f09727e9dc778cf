"""Second moments of features and their sums by class, in one pass: all that CKA, LogME and the H-score need.

    G = sum_i (x_i, |x_i|^2, 1) (x_i, |x_i|^2, 1)^T,     s_c = sum over rows of class c of (x_i, |x_i|^2, 1)

Rows are seen from the mean of the first batch, against cancellation; moving the origin later is linear, so that
streams merge. Cost O(n d^2) (a symmetric product, half of it), memory 8 d^2 bytes whatever n is.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dsyrk

from krepes.alignment.streamed import augmented, origin_move

BLOCK_ROWS = 4096


class ClassMoments:
    """Sums over rows that arrive in batches.

    Attributes
    ----------
    n_classes : int
    n_rows : int
    width : int or None
        Features of a row.

    Examples
    --------
    >>> moments = ClassMoments(2).update(np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1]))
    >>> gram, sums = moments.seen_from(np.zeros(1))
    >>> gram[0].tolist(), sums[:, 0].tolist()          # sums of x^2, x^3, x; of x by class
    ([74.0, 540.0, 12.0], [4.0, 8.0])
    """

    def __init__(self, n_classes: int):
        self.n_classes, self.n_rows = n_classes, 0
        self.origin: np.ndarray | None = None
        self.triangle = np.empty((0, 0))  # G above its diagonal, (d + 2, d + 2)
        self.sums = np.empty((0, 0))  # s_c, (n_classes, d + 2)

    @property
    def width(self) -> int | None:
        return None if self.origin is None else len(self.origin)

    def update(self, X: np.ndarray, codes: np.ndarray) -> ClassMoments:
        """Add rows (b, d), finite, with their class codes (b,)."""
        if self.origin is None:
            self.origin = X.mean(axis=0, dtype=np.float64)
            size = X.shape[1] + 2
            self.triangle, self.sums = np.zeros((size, size), order="F"), np.zeros((self.n_classes, size))
        for start in range(0, len(X), BLOCK_ROWS):
            A = augmented(X[start : start + BLOCK_ROWS] - self.origin)
            block = codes[start : start + BLOCK_ROWS]
            self.triangle = dsyrk(1.0, A.T, beta=1.0, c=self.triangle, overwrite_c=1)
            S = scipy.sparse.csc_array(
                (np.ones(len(A)), block, np.arange(len(A) + 1)), shape=(self.n_classes, len(A))
            )
            self.sums += S @ A
        self.n_rows += len(X)
        return self

    def merge(self, other: ClassMoments) -> ClassMoments:
        """Add the rows that another has seen; returns self."""
        if other.origin is None:
            return self
        if self.origin is None:
            self.origin, self.n_rows = other.origin, other.n_rows
            self.triangle, self.sums = other.triangle.copy(order="F"), other.sums.copy()
            return self
        gram, sums = other.seen_from(self.origin)
        self.triangle = np.asfortranarray(self.triangle + np.triu(gram))
        self.sums, self.n_rows = self.sums + sums, self.n_rows + other.n_rows
        return self

    def seen_from(self, origin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G (d + 2, d + 2) and the sums by class (n_classes, d + 2), of rows seen from an origin."""
        if self.origin is None:
            raise ValueError("No rows were given: call update first.")
        G = np.triu(self.triangle) + np.triu(self.triangle, 1).T
        T = origin_move(origin - self.origin)
        return T @ G @ T.T, self.sums @ T.T

    @property
    def mean(self) -> np.ndarray:
        """Of all rows, (d,)."""
        if self.origin is None:
            raise ValueError("No rows were given: call update first.")
        return self.origin + self.sums[:, :-2].sum(axis=0) / self.n_rows
