"""Sums of rows with random signs, of one representation and of several: what a sketch keeps.

    a_b = sum_i s_b(i) (x_i - mean),   b = 1 .. M                                      [charikar; tang, Alg. 1]

What is stored are plain sums of the rows, with sign + and with sign -, so that parts add up. Products of products of
them, fourth powers of the data, would overflow at 1e77 and vanish at 1e-81: so the sums are first divided by a power
of two, which does not round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.linalg

from krepes.base.codec import Count, Shape

CONSTANT = 1e-12  # of the sums of a column: what rounding leaves of it once the mean is subtracted


@dataclass(frozen=True, eq=False)
class SignedSums:
    """The signed sums of one representation.

    Attributes
    ----------
    table : ndarray of shape (2 M, d)
        Sums of rows with sign +, then with sign -.
    count : ndarray of shape (2 M,)
        The same sums of ones.
    next_row : int
        The global index that follows the last row seen.
    """

    table: Annotated[np.ndarray, Shape("M", "d")]
    count: Annotated[np.ndarray, Shape("M")]
    next_row: Count

    def __add__(self, other: SignedSums) -> SignedSums:
        if self.table.shape != other.table.shape:
            raise ValueError(f"The rows have {self.table.shape[1]} and {other.table.shape[1]} features.")
        next_row = max(self.next_row, other.next_row)
        return SignedSums(self.table + other.table, self.count + other.count, next_row)

    def scaled(self, n_hashes: int) -> tuple[np.ndarray, int]:
        """The sums a_b over 2^e, (M, d), centred exactly, and e: the largest is near 1, so that products are in range.

        Columns that are constant are zero: only rounding of their mean is left.
        """
        M = len(self.count) // 2
        largest = np.abs(self.table).max()
        if not np.isfinite(largest):
            raise ValueError(
                "The sums of rows overflow float64: divide all rows by one number, such as 1e100."
            )
        first = math.frexp(largest)[1]
        table = np.ldexp(self.table, -first)
        mean = table.sum(axis=0) / self.count.sum()
        A = table[:M] - table[M:] - np.outer(self.count[:M] - self.count[M:], mean)
        A[:, np.abs(A).max(axis=0) <= CONSTANT * np.abs(table).max(axis=0)] = 0.0
        size = M // n_hashes
        H = scipy.linalg.hadamard(size)
        A = np.concatenate([H @ A[start : start + size] for start in range(0, M, size)])
        second = math.frexp(np.abs(A).max())[1]
        return np.ldexp(A, -second), first + second

    def unit_gram(self, n_hashes: int, debias: bool) -> tuple[np.ndarray, int]:
        """The M x M Gram matrix of the sums over sqrt(M (M - 1)), without its diagonal if debiased, over 2^e; and e."""
        A, exponent = self.scaled(n_hashes)
        G, M = A @ A.T, len(A)
        if not debias:
            return G / M, 2 * exponent
        np.fill_diagonal(G, 0.0)
        return G / np.sqrt(M * (M - 1)), 2 * exponent


@dataclass(frozen=True, eq=False)
class Sketches:
    """Sketches by the name of the representation. When two are added, a name that only one of them has is kept."""

    sketches: dict[str, SignedSums]
    n_hashes: int = 1

    @property
    def n(self) -> float:
        """Rows seen of the representation that has seen most."""
        return max((sketch.count.sum() / self.n_hashes for sketch in self.sketches.values()), default=0.0)

    def __add__(self, other: Sketches) -> Sketches:
        found = dict(self.sketches)
        for name, sketch in other.sketches.items():
            found[name] = found[name] + sketch if name in found else sketch
        return Sketches(found, self.n_hashes)
