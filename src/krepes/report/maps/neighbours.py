"""The rows nearest to each row, by Euclidean distance in the representation.

    d(x, y) = |z(x) - z(y)|,    usual distance = sqrt(E |z(x) - z(y)|^2) = sqrt(2 tr cov Z)

Distances are given as shares of the usual one, between two rows at random. Cost O(n^2 h), memory in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors

N_NEAREST = 6


@dataclass(frozen=True)
class NearestRows:
    """For every row, the k nearest others, nearest first.

    Attributes
    ----------
    rows : ndarray of shape (n, k)
        Places among the rows given.
    distances : ndarray of shape (n, k)
        As shares of the usual distance.
    usual : float
        The usual distance, in the representation's own unit; 0 if rows do not differ.
    """

    rows: np.ndarray
    distances: np.ndarray
    usual: float


def nearest_rows(Z: np.ndarray, k: int = N_NEAREST) -> NearestRows:
    """The k nearest other rows of every row, or all of them if there are fewer.

    >>> found = nearest_rows(np.array([[0.0], [1.0], [5.0]]), 1)
    >>> found.rows[:, 0].tolist(), round(found.usual**2, 3)
    ([1, 0, 1], 9.333)
    """
    k = min(k, len(Z) - 1)
    if k < 1:
        return NearestRows(np.zeros((len(Z), 0), dtype=np.int64), np.zeros((len(Z), 0)), 0.0)
    largest = np.abs(Z).max() or 1.0  # because squares of large numbers overflow
    scaled = Z / largest
    usual = float(np.sqrt(2 * scaled.var(axis=0).sum()))
    distances, rows = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(scaled).kneighbors()
    return NearestRows(rows, distances / usual if usual > 0 else distances, float(usual * largest))
