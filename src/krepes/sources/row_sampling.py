"""A uniform sample of rows in one scan, the same for any batch size.

Row i has a priority u_i, the i-th number of one Philox stream keyed by the seed; the sample is the rows with
the `size` smallest priorities, in the order of their indices. Every subset of that size is equally likely.
The stream is counter-based: rows 1024 c to 1024 (c + 1) start at counter 256 c, so that any part of it is
drawn without the parts before. Samples nest: the sample of size s is part of the sample of size 2 s. Which rows they
are follows from n, size and seed, so that a scan, here or in the workers of a cluster, only picks them up.

Memory O(size) and one batch; O(n) draws and about size·(1 + log(n / size)) rows copied.
"""

from __future__ import annotations

import operator

import numpy as np
import torch

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.codec import State
from krepes.base.rows import Rows, concat_rows, count_rows, take_rows
from krepes.sources.source import SCAN_ROWS, Source

CHUNK = 1024  # rows per chunk of the stream
_MANY_PARTS = 64  # more are put together, because each has a cost of its own
_STREAM = 0x5EED_0001  # sets this stream apart from others that are keyed by the same seed


def priorities(seed: int, start: int, stop: int) -> np.ndarray:
    """The priorities of rows start to stop, uniform on [0, 1).

    >>> bool((priorities(0, 0, 5000)[3000:] == priorities(0, 3000, 5000)).all())
    True
    """
    if operator.index(seed) < 0:
        raise ValueError(f"A seed must be a non-negative integer; got {seed}.")
    key = np.random.SeedSequence([operator.index(seed), _STREAM]).generate_state(2, np.uint64)
    chunk = start // CHUNK
    # A Philox block of one counter is four 64-bit numbers, one number per double.
    stream = np.random.Generator(np.random.Philox(key=key, counter=chunk * CHUNK // 4))
    return stream.random(stop - chunk * CHUNK)[start - chunk * CHUNK :]


class Reservoir:
    """The rows with the smallest priorities among those added so far.

    >>> sample = Reservoir(size=2, seed=0)
    >>> sample.add(0, np.arange(10, 13))
    >>> sample.add(3, np.arange(13, 20))
    >>> rows, indices = sample.rows()
    >>> bool((rows == indices + 10).all()), len(rows)
    (True, 2)
    """

    def __init__(self, size: int, seed: int):
        if operator.index(size) < 1:
            raise ValueError(f"A sample needs at least one row; got size={size}.")
        self.size, self.seed = operator.index(size), seed
        self._parts: list[Rows] = []
        self._indices = np.empty(0, dtype=np.int64)
        self._priorities = np.empty(0)
        self._bound = np.inf  # no row above it can be in the sample

    def add(self, start: int, batch: Rows) -> None:
        """Offer the rows start, start + 1, ...; batches come in the order of their rows."""
        draws = priorities(self.seed, start, start + count_rows(batch))
        chosen = np.flatnonzero(draws < self._bound)
        if len(chosen) > self.size:
            chosen = np.sort(chosen[_smallest(draws[chosen], chosen, self.size)])
        if not len(chosen):
            return
        self._parts.append(take_rows(batch, chosen))
        self._indices = np.concatenate([self._indices, start + chosen])
        self._priorities = np.concatenate([self._priorities, draws[chosen]])
        if len(self._indices) >= 2 * self.size:
            self._shrink()

    def rows(self, size: int | None = None) -> tuple[Rows, np.ndarray]:
        """The sampled rows and their global indices, in the order of the indices; `size` asks for fewer."""
        if not self._parts:
            raise ValueError("No rows were added to the sample.")
        self._shrink()
        self._parts = [concat_rows(self._parts)]
        size = min(size or self.size, len(self._indices))
        keep = np.sort(_smallest(self._priorities, self._indices, size))
        return take_rows(self._parts[0], keep), self._indices[keep]

    def _shrink(self) -> None:
        """Keep the rows with the smallest priorities, part by part, so that they are never copied all at once."""
        if len(self._indices) > self.size:
            keep = np.sort(_smallest(self._priorities, self._indices, self.size))
            first, kept = 0, 0
            for i, part in enumerate(self._parts):
                stop = int(np.searchsorted(keep, first + count_rows(part)))
                self._parts[i] = take_rows(part, keep[kept:stop] - first)
                first, kept = first + count_rows(part), stop
            self._parts = [part for part in self._parts if count_rows(part)]
            if len(self._parts) > _MANY_PARTS:
                self._parts = [take_rows(concat_rows(self._parts), np.arange(self.size))]
            self._indices, self._priorities = self._indices[keep], self._priorities[keep]
        if len(self._indices) == self.size:
            self._bound = self._priorities.max()


def reservoir(source: Source, size: int, seed: int, batch_rows: int | None = None) -> tuple[Rows, np.ndarray]:
    """A uniform sample of `size` rows (all of them if there are fewer) and their global indices, sorted.

    Sources with random access read the sampled rows only; the others are scanned once. Both give the same
    rows, for any `batch_rows`.
    """
    indices = sampled_indices(source.n_rows, size, seed)
    if source.random_access:
        return source.take(indices), indices
    picked = PickedRows(indices)
    for start, batch in source.batches(batch_rows or source.scan_rows):
        picked.add(Block(torch.arange(start, start + count_rows(batch)), (batch,)))
    return picked.result(), indices


def sampled_indices(n_rows: int, size: int, seed: int) -> np.ndarray:
    """Which rows of n the sample of this size has, sorted: known before any row is read.

    >>> few, more = sampled_indices(10_000, 5, 0), sampled_indices(10_000, 50, 0)
    >>> len(few), set(few.tolist()) <= set(more.tolist())
    (5, True)
    """
    sample = Reservoir(size, seed)
    for start in range(0, n_rows, SCAN_ROWS):
        sample.add(start, np.arange(start, min(start + SCAN_ROWS, n_rows)))
    return sample.rows()[1]


class PickedRows(Accumulator[tuple[Rows, ...], Rows]):
    """The rows at some indices, in one pass over all of them.

    Blocks and workers may come in any number; parts are joined in the order of the rows.

    >>> picked = PickedRows(np.array([1, 3]))
    >>> picked.add(Block(torch.arange(4), (np.arange(10, 14),)))
    >>> picked.result()
    array([11, 13])
    """

    def __init__(self, indices: np.ndarray):
        self.indices = indices
        super().__init__()

    def zero(self) -> tuple[Rows, ...]:
        return ()

    def plus(self, sums: tuple[Rows, ...], block: Block) -> tuple[Rows, ...]:
        first, last = int(block.rows[0]), int(block.rows[-1])
        low, high = np.searchsorted(self.indices, [first, last + 1])
        if low == high:
            return sums
        return self.joined(sums, (take_rows(block.inputs[0], self.indices[low:high] - first),))

    def joined(self, first: tuple[Rows, ...], second: tuple[Rows, ...]) -> tuple[Rows, ...]:
        both = (*first, *second)
        return both if len(both) <= _MANY_PARTS else (concat_rows(both),)

    def value(self, sums: tuple[Rows, ...]) -> Rows:
        return concat_rows(sums) if sums else []

    def sums_state(self, sums: tuple[Rows, ...]) -> State:
        return {"rows": sums}

    def sums_from(self, state: State) -> tuple[Rows, ...]:
        return tuple(state["rows"])

    def value_from(self, state: State) -> Rows:
        return self.value(self.sums_from(state))


def _smallest(draws: np.ndarray, indices: np.ndarray, size: int) -> np.ndarray:
    """Positions of the `size` smallest priorities; equal priorities are ordered by their index."""
    return np.lexsort((indices, draws))[:size]
