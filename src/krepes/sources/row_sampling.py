"""Scans of raw rows, before there is an input space: blocks of a source, and a uniform sample in one scan.

The sample is the same for any batch size.

Row i has a priority u_i, the i-th number of one Philox stream keyed by the seed; the sample is the rows with
the `size` smallest priorities, in the order of their indices. Every subset of that size is equally likely.
The stream is counter-based: rows 1024 c to 1024 (c + 1) start at counter 256 c, so that any part of it is
drawn without the parts before. Samples nest: the sample of size s is part of the sample of size 2 s. Which rows they
are follows from n, size and seed, so that a scan, here or in the workers of a cluster, only picks them up.

Memory O(size) and one batch; O(n) draws.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block, Reader, part_edges
from krepes.base.rows import Rows, concat_rows, count_rows, rebatch, take_rows
from krepes.base.storage.codec import State
from krepes.base.storage.packing import digest
from krepes.sources.row_subset import section
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
    if operator.index(size) < 1:
        raise ValueError(f"A sample needs at least one row; got size={size}.")
    draws, rows, bound = np.empty(0), np.empty(0, dtype=np.int64), np.inf
    for start in range(0, n_rows, SCAN_ROWS):
        new = priorities(seed, start, min(start + SCAN_ROWS, n_rows))
        below = np.flatnonzero(new < bound)
        draws, rows = np.concatenate([draws, new[below]]), np.concatenate([rows, start + below])
        if len(rows) >= 2 * size or start + SCAN_ROWS >= n_rows:
            best = np.lexsort((rows, draws))[:size]  # equal priorities are ordered by their index
            draws, rows = draws[best], rows[best]
            bound = draws[-1] if len(draws) == size else np.inf
    return np.sort(rows)


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


@dataclass(frozen=True)
class RawReader(Reader):
    """The rows start .. stop of a source, as the source gives them.

    >>> from krepes.sources import open_source
    >>> blocks = list(RawReader(open_source([[1.0], [2.0], [3.0]])).read(2))
    >>> [(block.rows.tolist(), block.inputs[0].tolist()) for block in blocks]
    [([0, 1], [[1.0], [2.0]]), ([2], [[3.0]])]
    """

    source: Source
    start: int = 0
    stop: int | None = None
    chunk_rows: int = 1  # parts begin at multiples of it
    read_rows: int | None = None  # to read at once; None: as many as are asked for
    first_row: int = 0  # the global index of row 0 of the source

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self._stop - self.start

    @property
    def _stop(self) -> int:
        return self.source.n_rows if self.stop is None else self.stop

    def read(self, batch_rows: int, start: int = 0) -> Iterator[Block]:
        first = self.start + start
        batches = section(self.source, first, self._stop).batches(self.read_rows or batch_rows)
        for place, rows in rebatch((rows for _, rows in batches), batch_rows, first):
            indices = torch.arange(place, place + count_rows(rows))
            yield Block(self.first_row + indices, (rows,))

    def parts(self, n: int) -> list[RawReader]:
        seams = self.source.seams if self.chunk_rows == 1 else None
        edges = part_edges(self.start, self._stop, n, self.chunk_rows, seams)
        return [replace(self, start=first, stop=stop) for first, stop in pairwise(edges)]

    def portable(self) -> RawReader:
        """With no more of the source than is needed; of data in memory only its own rows."""
        part = section(self.source, self.start, self._stop)
        return replace(self, source=part, start=0, stop=None, first_row=self.first_row + self.start)

    def identity(self) -> dict[str, str]:
        data = [self.start, self._stop, self.source.identity()]
        return {"number of rows": digest(self.n_rows), "data": digest(data)}
