"""Count, mean, sum of squares and range of columns, over chunks of rows.

A chunk's moments are taken in two passes over the chunk and merged with the moments of other rows [chan],

    delta = mean_b - mean_a,   mean = mean_a + delta n_b / n,   M2 = M2_a + M2_b + delta^2 n_a n_b / n,   n = n_a + n_b,

in float64, so that a large mean does not swallow a small variance. Cost O(n k).

Chunks are merged as in a tree: 0 with 1, 2 with 3, then these two with one another. Which chunks are merged follows
from their places alone, so that workers that add up consecutive chunks get the bits of one process.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, reduce

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

    @classmethod
    def of(cls, M: np.ndarray) -> ColumnMoments:  # shape: (k, b), overwritten
        """The moments of some rows, one column after the other."""
        found = cls(len(M))
        missing = np.isnan(M)
        found.infinite = np.isinf(M).any(axis=1)
        found.count = M.shape[1] - missing.sum(axis=1)
        found.low = np.fmin.reduce(M, axis=1, initial=np.inf)
        found.high = np.fmax.reduce(M, axis=1, initial=-np.inf)
        M[missing] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            found.mean = M.sum(axis=1) / np.maximum(found.count, 1)
            M -= found.mean[:, None]
            M[missing] = 0.0
            found.squares = np.square(M, out=M).sum(axis=1)
        return found

    def joined(self, other: ColumnMoments) -> ColumnMoments:
        """The moments of the rows of both."""
        both = ColumnMoments(len(self.count))
        both.count = self.count + other.count
        share = other.count / np.maximum(both.count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = other.mean - self.mean
            both.mean = self.mean + delta * share
            both.squares = self.squares + other.squares + delta**2 * (self.count * share)
        both.low, both.high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)
        both.infinite = self.infinite | other.infinite
        return both

    def add(self, M: np.ndarray) -> None:  # shape: (k, b), overwritten
        vars(self).update(vars(self.joined(ColumnMoments.of(M))))


class MomentTree:
    """Moments of chunks by their places, merged in a way that does not depend on who added which of them.

    >>> ones, twos = (ColumnMoments.of(np.full((1, 4), value)) for value in (1.0, 2.0))
    >>> whole = MomentTree(1).with_chunk(0, ones).joined(MomentTree(1).with_chunk(1, twos))
    >>> whole.total.mean.tolist(), whole.total.count.tolist()
    ([1.5], [8])
    """

    def __init__(self, k: int):
        self.k = k
        self.nodes: dict[tuple[int, int], ColumnMoments] = {}  # (level, place): of 2^level chunks

    def with_chunk(self, place: int, moments: ColumnMoments) -> MomentTree:
        """This tree with one more chunk."""
        return self._with([((0, place), moments)])

    def joined(self, other: MomentTree) -> MomentTree:
        """The chunks of both."""
        return self._with(other.nodes.items())

    def _with(self, nodes: Iterable[tuple[tuple[int, int], ColumnMoments]]) -> MomentTree:
        grown = MomentTree(self.k)
        grown.nodes = dict(self.nodes)
        for (level, place), moments in nodes:
            while (level, place ^ 1) in grown.nodes:
                beside = grown.nodes.pop((level, place ^ 1))
                moments = beside.joined(moments) if place & 1 else moments.joined(beside)
                level, place = level + 1, place >> 1
            if (level, place) in grown.nodes:  # a chunk that came in halves, because memory was short
                moments = grown.nodes[level, place].joined(moments)
            grown.nodes[level, place] = moments
        return grown

    @cached_property
    def total(self) -> ColumnMoments:
        """The moments of all chunks."""
        in_order = sorted(self.nodes, key=lambda node: node[1] << node[0])
        return reduce(ColumnMoments.joined, (self.nodes[node] for node in in_order), ColumnMoments(self.k))
