"""Some rows of a source as a source: the training part of a table that does not fit into memory.

Rows keep their order and are numbered from 0. Sources with random access read only the rows kept; the others are
scanned as a whole, and what is not wanted is dropped. Memory is one batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from krepes.base.rows import Rows, count_rows, rebatch, take_rows
from krepes.sources.identity_of_rows import content_hash
from krepes.sources.source import PartOfSource, PartOfTable, Source, TableSource


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
