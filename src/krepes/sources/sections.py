"""Consecutive rows of a source, as another process needs them: files by their path, rows in memory by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from krepes.base.rows import Rows, concat_rows, count_rows, slice_rows
from krepes.sources.source import SCAN_ROWS, Source


class FileSection(Source):
    """The rows start .. stop of a source that reads files."""

    def __init__(self, source: Source, start: int, stop: int):
        self.source, self.start, self.kind, self.n_rows = source, start, source.kind, stop - start

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, first = self._checked_range(batch_rows, start)
        for _, batch in self.source.batches(batch_rows, self.start + first):
            if first >= self.n_rows:
                return
            rows = slice_rows(batch, 0, self.n_rows - first)
            yield first, rows
            first += count_rows(rows)

    @property
    def paths(self) -> list[Path]:
        return self.source.paths

    def describe(self) -> str:
        return f"rows {self.start:,} to {self.start + self.n_rows:,} of {self.source.describe()}"


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
    part = FileSection(source, start, stop)
    if source.paths or start == stop:
        return part
    return SectionInMemory(source.kind, concat_rows([rows for _, rows in part.batches(SCAN_ROWS)]))
