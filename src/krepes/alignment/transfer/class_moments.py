"""Second moments of features and their sums by class, in one pass: all that CKA, LogME and the H-score need.

    G = sum_i (x_i, |x_i|^2, 1) (x_i, |x_i|^2, 1)^T,     s_c = sum over rows of class c of (x_i, |x_i|^2, 1)

Rows are seen from the mean of the first batch, against cancellation, and in a unit near their size, against overflow;
changing either later is linear, so that streams merge. Cost O(n d^2) (a symmetric product, half of it), memory 8 d^2
bytes whatever n is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dsyrk

from krepes.alignment.similarity.augmented_rows import augmented, origin_move, origin_of, unit_of
from krepes.base.codec import Shape

BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Sums over n rows, seen from an origin.

    Attributes
    ----------
    n : float
    origin : ndarray of shape (d,)
    triangle : ndarray of shape (d + 2, d + 2)
        G; entries below the diagonal mean nothing.
    sums : ndarray of shape (n_classes, d + 2)
        s_c.
    unit : float
        A power of two that x is divided by, after the origin is subtracted.

    Examples
    --------
    >>> moments = ClassMoments.of(np.array([[1.0], [3.0], [8.0]]), np.array([0, 0, 1]), 2)
    >>> gram, sums = moments.seen_from(np.zeros(1))
    >>> gram[0].tolist(), sums[:, 0].tolist()          # sums of x^2, x^3, x; of x by class
    ([74.0, 540.0, 12.0], [4.0, 8.0])
    """

    n: float
    origin: Annotated[np.ndarray, Shape("d")]
    triangle: Annotated[np.ndarray, Shape("e", "e")]
    sums: Annotated[np.ndarray, Shape("c", "e")]
    unit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "triangle", np.asfortranarray(self.triangle)
        )  # for the same bits after a file

    @classmethod
    def of(
        cls, X: np.ndarray, codes: np.ndarray, n_classes: int, origin: np.ndarray | None = None
    ) -> ClassMoments:
        """The moments of rows (b, d), finite, with their class codes (b,); seen from their mean by default."""
        size = X.shape[1] + 2
        origin = origin_of(X) if origin is None else origin
        unit = unit_of(X, origin)
        triangle, sums = np.zeros((size, size), order="F"), np.zeros((n_classes, size))
        for start in range(0, len(X), BLOCK_ROWS):
            A = augmented(X[start : start + BLOCK_ROWS], origin, unit)
            block = codes[start : start + BLOCK_ROWS]
            triangle = dsyrk(1.0, A.T, beta=1.0, c=triangle, overwrite_c=1)
            S = scipy.sparse.csc_array(
                (np.ones(len(A)), block, np.arange(len(A) + 1)), shape=(n_classes, len(A))
            )
            sums += S @ A
        return cls(len(X), origin, triangle, sums, unit)

    @property
    def width(self) -> int:
        return len(self.origin)

    @property
    def mean(self) -> np.ndarray:
        """The mean of all rows, (d,)."""
        return self.origin + self.sums[:, :-2].sum(axis=0) / self.n * self.unit

    def about_zero(self) -> tuple[np.ndarray, np.ndarray]:
        """G and the sums by class of the rows as given, in a unit that suits their size."""
        zero = np.zeros(self.width)
        return self.seen_from(zero, max(self.unit, unit_of(self.mean[None], zero)))

    def seen_from(self, origin: np.ndarray, unit: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """G (d + 2, d + 2) and the sums by class (n_classes, d + 2), of rows seen from an origin, in a unit."""
        G = np.triu(self.triangle) + np.triu(self.triangle, 1).T
        unit = self.unit if unit is None else unit
        T = origin_move((origin - self.origin) / unit, self.unit / unit)
        return T @ G @ T.T, self.sums @ T.T

    def __add__(self, other: ClassMoments) -> ClassMoments:
        return self._combined(other, 1.0)

    def __sub__(self, other: ClassMoments) -> ClassMoments:
        return self._combined(other, -1.0)

    def __mul__(self, factor: float) -> ClassMoments:
        return ClassMoments(
            self.n * factor, self.origin, self.triangle * factor, self.sums * factor, self.unit
        )

    def _combined(self, other: ClassMoments, sign: float) -> ClassMoments:
        unit = max(self.unit, other.unit, unit_of(other.origin[None], self.origin))
        (gram, sums), (theirs, their_sums) = (part._from(self.origin, unit) for part in (self, other))
        triangle = np.asfortranarray(gram + sign * np.triu(theirs))
        return ClassMoments(self.n + sign * other.n, self.origin, triangle, sums + sign * their_sums, unit)

    def _from(self, origin: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
        if self.origin is origin and self.unit == unit:  # then nothing has to be moved
            return self.triangle, self.sums
        return self.seen_from(origin, unit)
