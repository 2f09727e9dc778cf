"""Consecutive rows of a source: as a source that another process can read, and as a reader of raw blocks.

A part of a file travels by its path, rows in memory by themselves. Scans that come before there is an input space read
raw blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import torch

from krepes.base.blocks import Block, Reader, part_edges
from krepes.base.packing import digest
from krepes.base.rows import Rows, concat_rows, count_rows, rebatch, slice_rows, take_rows
from krepes.sources.source import SCAN_ROWS, IndexedSource, PartOfSource, PartOfTable, Source, TableSource
from krepes.sources.tables.frames import table_source


class Section(PartOfSource):
    """The rows start .. stop of a source that reads them from where they are kept."""

    def __init__(self, source: Source, start: int, stop: int):
        super().__init__(source, stop - start)
        self.start = start

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, first = self._checked_range(batch_rows, start)
        if first >= self.n_rows:
            return
        for _, batch in self.source.batches(batch_rows, self.start + first):
            rows = slice_rows(batch, 0, self.n_rows - first)
            yield first, rows
            first += count_rows(rows)
            if first >= self.n_rows:
                return

    def where(self, row: int) -> str | None:
        return self.source.where(self.start + row)

    def identity(self) -> dict[str, object]:
        return {"rows": [self.start, self.n_rows], "of": self.source.identity()}

    def describe(self) -> str:
        return f"rows {self.start:,} to {self.start + self.n_rows:,} of {self.source.describe()}"


class TableSection(Section, PartOfTable):
    """Consecutive rows of a table."""


class SectionInMemory(IndexedSource):
    """Rows that are there.

    >>> import numpy as np
    >>> held = SectionInMemory("vectors", np.arange(6.0).reshape(3, 2))
    >>> [(first, rows.tolist()) for first, rows in held.batches(2)]
    [(0, [[0.0, 1.0], [2.0, 3.0]]), (2, [[4.0, 5.0]])]
    """

    def __init__(self, kind: str, rows: Rows):
        super().__init__()
        self.kind, self.rows, self.n_rows = kind, rows, count_rows(rows)

    def _rows(self, which: slice | np.ndarray) -> Rows:
        if isinstance(which, slice):
            return slice_rows(self.rows, which.start, which.stop)
        return take_rows(self.rows, which)

    def describe(self) -> str:
        return f"{self.n_rows:,} rows in memory"


def section(source: Source, start: int, stop: int) -> Source:
    """The rows start .. stop of a source."""
    if source.by_reference or start == stop:
        source, first = source.narrowed(start, stop)
        last = first + stop - start
        return (
            TableSection(source, first, last)
            if isinstance(source, TableSource)
            else Section(source, first, last)
        )
    rows = concat_rows([rows for _, rows in Section(source, start, stop).batches(SCAN_ROWS)])
    return table_source(rows) if isinstance(rows, pa.Table) else SectionInMemory(source.kind, rows)


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
