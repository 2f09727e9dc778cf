"""Consecutive rows of a source, as another process needs them: files by their path, rows in memory by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from krepes.base.rows import Rows, concat_rows, count_rows, slice_rows
from krepes.sources.source import SCAN_ROWS, Source, TableSource
from krepes.sources.tables.frames import table_source


class Section(Source):
    """The rows start .. stop of a source that reads them from where they are kept."""

    def __init__(self, source: Source, start: int, stop: int):
        self.source, self.start, self.kind, self.n_rows = source, start, source.kind, stop - start
        self.scan_rows = source.scan_rows

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

    @property
    def paths(self) -> list[Path]:
        return self.source.paths

    @property
    def by_reference(self) -> bool:
        return self.source.by_reference

    def where(self, row: int) -> str | None:
        return self.source.where(self.start + row)

    def identity(self) -> dict[str, object]:
        return {"rows": [self.start, self.n_rows], "of": self.source.identity()}

    def describe(self) -> str:
        return f"rows {self.start:,} to {self.start + self.n_rows:,} of {self.source.describe()}"


class TableSection(Section, TableSource):
    """Consecutive rows of a table."""

    def __init__(self, source: TableSource, start: int, stop: int):
        super().__init__(source, start, stop)
        self.schema: pa.Schema = source.schema

    def select(self, columns: Sequence[str]) -> TableSection:
        assert isinstance(self.source, TableSource)
        return TableSection(self.source.select(columns), self.start, self.start + self.n_rows)

    def as_text(self, columns: Sequence[str]) -> TableSection:
        assert isinstance(self.source, TableSource)
        return TableSection(self.source.as_text(columns), self.start, self.start + self.n_rows)


class SectionInMemory(Source):
    """Rows that are there.

    >>> import numpy as np
    >>> held = SectionInMemory("vectors", np.arange(6.0).reshape(3, 2))
    >>> [(first, rows.tolist()) for first, rows in held.batches(2)]
    [(0, [[0.0, 1.0], [2.0, 3.0]]), (2, [[4.0, 5.0]])]
    """

    def __init__(self, kind: str, rows: Rows):
        self.kind, self.rows, self.n_rows = kind, rows, count_rows(rows)

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        for first in range(start, self.n_rows, batch_rows):
            yield first, slice_rows(self.rows, first, min(first + batch_rows, self.n_rows))

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
