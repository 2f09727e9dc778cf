"""A source as a reader of raw blocks: for scans that come before there is an input space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from krepes.base.blocks import Block, Reader, part_edges
from krepes.base.packing import digest
from krepes.base.rows import count_rows, rebatch
from krepes.sources.sections import section
from krepes.sources.source import Source


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
        batches = (
            rows for _, rows in section(self.source, first, self._stop).batches(self.read_rows or batch_rows)
        )
        for place, rows in rebatch(batches, batch_rows, first):
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
