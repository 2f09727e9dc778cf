"""Rows of two sources one after the other: those with labels and those without.

Both must be of one kind. Tables have the columns of the first that the second has too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from krepes.base.rows import Rows, concat_rows, rebatch, take_rows
from krepes.sources.source import Source, TableSource, conform


class JoinedSource(Source):
    """The rows of one source, then those of another.

    >>> from krepes.sources import open_source
    >>> both = one_after_other(open_source([[0.0], [1.0]]), open_source([[2.0]]))
    >>> both.n_rows, both.take(np.array([2, 0])).tolist()
    (3, [[2.0], [0.0]])
    """

    def __init__(self, first: Source, second: Source):
        self.first, self.second = first, second
        self.kind, self.n_rows = first.kind, first.n_rows + second.n_rows
        self.scan_rows = min(first.scan_rows, second.scan_rows)
        self.random_access = first.random_access and second.random_access  # type: ignore[misc]

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        if start < self.n_rows:
            yield from rebatch(self._parts(start), batch_rows, start)

    def _parts(self, start: int) -> Iterator[Rows]:
        if start < self.first.n_rows:
            yield from (batch for _, batch in self.first.batches(self.scan_rows, start))
        yield from (
            batch for _, batch in self.second.batches(self.scan_rows, max(0, start - self.first.n_rows))
        )

    def take(self, indices: np.ndarray) -> Rows:
        indices = self._checked_indices(indices)
        early = indices < self.first.n_rows
        if early.all():
            return self.first.take(indices)
        if not early.any():
            return self.second.take(indices - self.first.n_rows)
        both = [self.first.take(indices[early]), self.second.take(indices[~early] - self.first.n_rows)]
        order = np.empty(len(indices), dtype=np.int64)
        order[np.concatenate([np.flatnonzero(early), np.flatnonzero(~early)])] = np.arange(len(indices))
        return take_rows(concat_rows(both), order)

    @property
    def paths(self) -> list[Path]:
        return [*self.first.paths, *self.second.paths]

    @property
    def by_reference(self) -> bool:
        return self.first.by_reference and self.second.by_reference

    def where(self, row: int) -> str | None:
        early = row < self.first.n_rows
        return self.first.where(row) if early else self.second.where(row - self.first.n_rows)

    def identity(self) -> dict[str, object]:
        return {"first": self.first.identity(), "second": self.second.identity()}

    def describe(self) -> str:
        return f"{self.first.describe()}, then {self.second.describe()}"


class JoinedTableSource(JoinedSource, TableSource):
    """The rows of one table, then those of another, with the columns that both have."""

    def __init__(self, first: TableSource, second: TableSource):
        names = [name for name in first.column_names if name in second.column_names]
        super().__init__(first.select(names), second.select(names))
        self.schema: pa.Schema = pa.schema([first.schema.field(name) for name in names])

    def _parts(self, start: int) -> Iterator[Rows]:
        return (conform(batch, self.schema) for batch in super()._parts(start))

    def take(self, indices: np.ndarray) -> Rows:
        return conform(super().take(indices), self.schema)

    def select(self, columns: Sequence[str]) -> JoinedTableSource:
        columns = self._checked_columns(columns)
        assert isinstance(self.first, TableSource)
        assert isinstance(self.second, TableSource)
        return JoinedTableSource(self.first.select(columns), self.second.select(columns))

    def as_text(self, columns: Sequence[str]) -> JoinedTableSource:
        assert isinstance(self.first, TableSource)
        assert isinstance(self.second, TableSource)
        return JoinedTableSource(self.first.as_text(columns), self.second.as_text(columns))


def one_after_other(first: Source, second: Source) -> JoinedSource:
    """The rows of both."""
    if isinstance(first, TableSource) and isinstance(second, TableSource):
        return JoinedTableSource(first, second)
    if first.kind != second.kind:
        raise ValueError(
            f"The rows differ in kind: {first.describe()}, and {second.describe()}. Give both in the same form."
        )
    return JoinedSource(first, second)
