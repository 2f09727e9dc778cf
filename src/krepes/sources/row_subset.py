"""Some rows of a source as a source: consecutive rows, or rows at given indices.

A section is what another process reads: a part of a file travels by its path, rows in memory by themselves. A subset
is, for example, the training part of a table that does not fit into memory. Rows keep their order and are numbered from
0. Sources with random access read only the rows kept; the others are scanned as a whole, and what is not wanted is
dropped. Memory is one batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from krepes.base.rows import Rows, concat_rows, count_rows, rebatch, slice_rows, take_rows
from krepes.sources.identity_of_rows import content_hash
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
        kind = TableSection if isinstance(source, TableSource) else Section
        return kind(source, first, first + stop - start)
    rows = concat_rows([rows for _, rows in Section(source, start, stop).batches(SCAN_ROWS)])
    return table_source(rows) if isinstance(rows, pa.Table) else SectionInMemory(source.kind, rows)


class SubsetSource(PartOfSource):
    """The rows of a source at sorted indices.

    >>> from krepes.sources import open_source
    >>> part = subset(open_source([[0.0], [1.0], [2.0], [3.0]]), np.array([1, 3]))
    >>> part.describe(), next(part.batches(2))[1].tolist()
    ('2 rows of numpy array, 4 × 1, float64', [[1.0], [3.0]])
    """

    def __init__(self, source: Source, rows: np.ndarray):
        super().__init__(source, len(rows))
        self.rows = rows
        self.random_access = source.random_access  # type: ignore[misc]

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        if self.random_access:
            for first in range(start, self.n_rows, batch_rows):
                yield first, self.source.take(self.rows[first : first + batch_rows])
        elif start < self.n_rows:
            yield from rebatch(self._scan(self.rows[start:]), batch_rows, start)

    def _scan(self, rows: np.ndarray) -> Iterator[Rows]:
        """The wanted rows of every batch, from the first to the last of them."""
        for first, batch in self.source.batches(self.scan_rows, int(rows[0])):
            low, high = np.searchsorted(rows, [first, first + count_rows(batch)])
            if high > low:
                yield take_rows(batch, rows[low:high] - first)
            if high == len(rows):
                return

    def take(self, indices: np.ndarray) -> Rows:
        return self.source.take(self.rows[self._checked_indices(indices)])

    def narrowed(self, start: int, stop: int) -> tuple[SubsetSource, int]:
        """Only the rows that are asked for, of only what is needed to read them."""
        first, last = int(self.rows[start]), int(self.rows[stop - 1]) + 1
        source, offset = self.source.narrowed(first, last)
        return subset(source, self.rows[start:stop] - first + offset), 0

    def where(self, row: int) -> str | None:
        return self.source.where(int(self.rows[row]))

    def identity(self) -> dict[str, object]:
        return {"rows": content_hash([self.rows]), "of": self.source.identity()}

    @property
    def labels(self) -> np.ndarray | None:
        labels = self.source.labels
        return None if labels is None else labels[self.rows]

    def describe(self) -> str:
        return f"{self.n_rows:,} rows of {self.source.describe()}"


class SubsetTableSource(SubsetSource, PartOfTable):
    """The rows of a table at sorted indices."""


def subset(source: Source, rows: np.ndarray) -> SubsetSource:
    """The rows of a source at `rows`: distinct indices in increasing order."""
    rows = source._checked_indices(rows)
    if len(rows) == 0 or (np.diff(rows) <= 0).any():
        raise ValueError("The rows of a subset must be distinct indices in increasing order, at least one.")
    return SubsetTableSource(source, rows) if isinstance(source, TableSource) else SubsetSource(source, rows)
