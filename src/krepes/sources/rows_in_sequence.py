"""Sources one after the other: files of a folder, partitions of a Dask collection, rows with labels and rows without.

    row i of the sequence is row i - first_k of source k,   first_k <= i < first_(k + 1)

Sources without rows are left out. Arrays must have rows of one shape; tables the same columns, of types that go
together: where one file has text and another numbers, the column is text in all of them. Memory is one batch. A part is
sent with no more than the sources that hold its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from krepes.base.rows import Rows, concat_rows, rebatch, take_rows
from krepes.sources.identity_of_files import files_identity
from krepes.sources.source import Source, TableSource, conform


@dataclass(frozen=True)
class Named:
    """A source and what it is called in errors; "" where its own errors say enough."""

    name: str
    source: Source


class SequenceSource(Source):
    """The rows of several sources, in their order.

    >>> from krepes.sources import open_source
    >>> parts = [Named("a", open_source([[1.0], [2.0]])), Named("b", open_source([[3.0]]))]
    >>> both = in_sequence(parts, "two arrays")
    >>> both.n_rows, both.take(np.array([2, 0])).tolist(), both.where(2)
    (3, [[3.0], [1.0]], 'b')
    """

    def __init__(self, parts: Sequence[Named], title: str, whole: bool = False, files: Sequence[Path] = ()):
        self.title, self.whole, self.files = title, whole, files
        self.kind = parts[0].source.kind
        self.scan_rows = min(part.source.scan_rows for part in parts)
        self.random_access = all(part.source.random_access for part in parts)  # type: ignore[misc]
        self._hold(parts)

    def _hold(self, parts: Sequence[Named]) -> None:
        self.parts = list(parts)
        self.edges = np.cumsum([0, *(part.source.n_rows for part in parts)])
        self.n_rows = int(self.edges[-1])

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        yield from rebatch(self._from(start, batch_rows), batch_rows, start)

    def _from(self, start: int, batch_rows: int) -> Iterator[Rows]:
        for first, part in zip(self.edges.tolist(), self.parts):
            if start < first + part.source.n_rows:
                for _, rows in part.source.batches(batch_rows, max(0, start - first)):
                    yield self._like_all(rows)

    def take(self, indices: np.ndarray) -> Rows:
        indices = self._checked_indices(indices)
        owner = np.searchsorted(self.edges, indices, side="right") - 1
        found, order = [], []
        for k in np.unique(owner).tolist():
            places = np.flatnonzero(owner == k)
            found.append(self._like_all(self.parts[k].source.take(indices[places] - self.edges[k])))
            order.append(places)
        if not found:
            return take_rows(next(self.batches(1))[1], indices)
        return take_rows(concat_rows(found), np.argsort(np.concatenate(order)))

    def _like_all(self, rows: Rows) -> Rows:
        return rows

    @property
    def paths(self) -> list[Path]:
        return [path for part in self.parts for path in part.source.paths]

    @property
    def by_reference(self) -> bool:
        return all(part.source.by_reference for part in self.parts)

    @property
    def seams(self) -> Sequence[int] | None:
        return self.edges.tolist() if self.whole else None

    def narrowed(self, start: int, stop: int) -> tuple[SequenceSource, int]:
        held = [
            k for k, first in enumerate(self.edges[:-1]) if first < stop and start < self.edges[k + 1]
        ] or [0]
        narrow = copy(self)
        narrow.files = ()
        narrow._hold([self.parts[k] for k in held])
        return narrow, start - int(self.edges[held[0]])

    def where(self, row: int) -> str | None:
        k = int(np.searchsorted(self.edges, row, side="right")) - 1
        return self.parts[k].source.where(row - int(self.edges[k])) or self.parts[k].name or None

    def identity(self) -> dict[str, object]:
        if self.files:
            return files_identity(self.files)
        return {"in sequence": [part.source.identity() for part in self.parts]}

    def describe(self) -> str:
        return f"{self.title}, {self.n_rows:,} rows"


class TableSequence(SequenceSource, TableSource):
    """The rows of several tables with the same columns."""

    def __init__(self, parts: Sequence[Named], title: str, schema: pa.Schema, *how: Any):
        super().__init__(parts, title, *how)
        self.schema = schema

    def _like_all(self, rows: Rows) -> pa.Table:
        assert isinstance(rows, pa.Table)
        return conform(rows, self.schema)

    def select(self, columns: Sequence[str]) -> Self:
        chosen = super().select(columns)
        names = chosen.schema.names
        chosen.parts = [Named(part.name, _table(part).select(names)) for part in self.parts]
        return chosen

    def as_text(self, columns: Sequence[str]) -> Self:
        """Where every part knows how its cells are written."""
        changed = copy(self)
        changed.parts = [Named(part.name, _table(part).as_text(columns)) for part in self.parts]
        schemas = [_table(part).schema for part in changed.parts]
        for i, field in enumerate(self.schema):
            if all(pa.types.is_string(schema.field(field.name).type) for schema in schemas):
                changed.schema = changed.schema.set(i, field.with_type(pa.string()))
        return changed

    def identity(self) -> dict[str, object]:
        return {"columns": [str(field) for field in self.schema], **super().identity()}

    def describe(self) -> str:
        return f"{self.title}, {self.n_rows:,} rows × {len(self.schema):,} columns"


def in_sequence(
    parts: Sequence[Named], title: str, whole: bool = False, files: Sequence[Path] = ()
) -> SequenceSource:
    """One source of several.

    `whole` says that the rows of a part are made together, so that work is divided there; `files` are the files whose
    rows these are, where the parts are whole files.
    """
    full = [part for part in parts if part.source.n_rows]
    if not full:
        raise ValueError(f"{title}: there are no rows in it.")
    kinds = {part.source.kind for part in full}
    if len(kinds) > 1:
        raise ValueError(f"{title}: expected rows of one kind; found {', '.join(sorted(kinds))}.")
    if isinstance(full[0].source, TableSource):
        alike, schema = _of_one_schema(parts)
        filled = [part for part in alike if part.source.n_rows]
        return TableSequence(filled, title, schema, whole, files)
    _check_shapes(full)
    return SequenceSource(full, title, whole, files)


def one_after_other(first: Source, second: Source) -> SequenceSource:
    """The rows of both; of tables the columns of the first that the second has too, with its types.

    >>> from krepes.sources import open_source
    >>> one_after_other(open_source([[0.0], [1.0]]), open_source([[2.0]])).take(np.array([2, 0])).tolist()
    [[2.0], [0.0]]
    """
    title = f"{first.describe()}, then {second.describe()}"
    if isinstance(first, TableSource) and isinstance(second, TableSource):
        names = [name for name in first.column_names if name in second.column_names]
        schema = pa.schema([first.schema.field(name) for name in names])
        return TableSequence([Named("", table.select(names)) for table in (first, second)], title, schema)
    if first.kind != second.kind:
        raise ValueError(
            f"The rows differ in kind: {first.describe()}, and {second.describe()}. Give both in the same form."
        )
    return SequenceSource([Named("", first), Named("", second)], title)


def _table(part: Named) -> TableSource:
    assert isinstance(part.source, TableSource)
    return part.source


def _check_shapes(parts: Sequence[Named]) -> None:
    """Refuse arrays whose rows differ in shape or type. Dask knows both of all its chunks."""
    if not parts[0].source.paths:
        return
    firsts = [np.asarray(next(part.source.batches(1))[1]) for part in parts]
    shapes = [f"rows of shape {rows.shape[1:]}, {rows.dtype}" for rows in firsts]
    for part, shape in zip(parts, shapes):
        if shape != shapes[0]:
            first = f"{parts[0].name} has {shapes[0]}"
            raise ValueError(f"{part.name} has {shape}, but {first}. All must have the same.")


def _of_one_schema(parts: Sequence[Named]) -> tuple[list[Named], pa.Schema]:
    """Tables with one schema: the columns of the first table, with types that fit all tables."""
    first = _table(parts[0])
    names = first.column_names
    for part in parts[1:]:
        other = set(_table(part).column_names) ^ set(names)
        if other:
            raise ValueError(
                f"{part.name} has different columns from {parts[0].name}: {', '.join(map(repr, sorted(other)))} only "
                "in one of them. All must have the same columns."
            )
    mixed = [name for name in names if _mixes_text(_types(name, parts))]
    if mixed:
        parts = [Named(part.name, _table(part).as_text(mixed)) for part in parts]
    return list(parts), pa.schema([(name, _common(name, parts)) for name in names])


def _types(name: str, parts: Sequence[Named]) -> list[pa.DataType]:
    return [_table(part).schema.field(name).type for part in parts]


def _mixes_text(kinds: Sequence[pa.DataType]) -> bool:
    """Whether some files have text in a column, and others something else."""
    text = [pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds]
    return any(text) and not all(text)


def _common(name: str, parts: Sequence[Named]) -> pa.DataType:
    kinds = _types(name, parts)
    different = list(dict.fromkeys(kinds))
    if len(different) == 1:
        return different[0]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in different]
    try:
        schemas = [pa.schema([pa.field(name, kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException as error:
        held = ", ".join(f"{kind} in {parts[kinds.index(kind)].name}" for kind in different)
        raise ValueError(
            f"Column {name!r} has types that do not go together: {held}. Write all with one schema."
        ) from error
