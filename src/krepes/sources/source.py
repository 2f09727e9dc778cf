"""Sources: where batches come from.

A source is a fixed sequence of n rows, read in batches. What it yields never depends on how the data are
stored: every batch except the last has exactly the number of rows asked for, whatever the row groups or
blocks of a file are, and the sequence of rows is always the same. Memory is one batch (and one block of
the file), not n rows.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from krepes.base.rows import Rows, concat_rows, count_rows, take_rows
from krepes.base.validation import check_columns, check_count
from krepes.sources.identity_of_files import files_identity
from krepes.sources.identity_of_rows import batch_rows, content_hash

SCAN_ROWS = 65_536  # rows per batch where the caller has no wish


class Source(ABC):
    """A fixed sequence of rows that can be read in batches.

    Attributes
    ----------
    kind : "vectors" (b, d), "sparse" (`SparseRows`), "images" (b, h, w[, c]), "table" (`pyarrow.Table`) or
        "objects" (list):
        what a batch is.
    n_rows : int
        The number of rows.
    random_access : bool
        Whether `take` is cheap. Elsewhere it reads the source up to the last row asked for.
    scan_rows : int
        Rows per batch where the caller has no wish.
    companions : sequence of Sources
        Second views of the rows, and negatives, where they came with the data.
    reading : str
        What a fit says of how samples of several entries are read; empty where there is nothing to say.

    Notes
    -----
    Batches may be views of the caller's data: read them, do not write to them.
    """

    kind: str
    n_rows: int
    random_access: ClassVar[bool] = False
    scan_rows: int = SCAN_ROWS
    companions: Sequence[Source] = ()
    reading: str = ""

    @abstractmethod
    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        """Yield (global index of the first row, batch) from row `start` to the end."""

    @abstractmethod
    def describe(self) -> str:
        """One line of text, such as "Parquet, 12 files, 581,012 rows × 55 columns"."""

    def take(self, indices: np.ndarray) -> Rows:
        """The rows at `indices`, in that order (repeats allowed)."""
        indices = self._checked_indices(indices)
        wanted, inverse = np.unique(indices, return_inverse=True)
        parts, found = [], 0
        if not len(wanted):
            return take_rows(next(self.batches(1))[1], wanted)
        for first, batch in self.batches(self.scan_rows):
            stop = int(np.searchsorted(wanted, first + count_rows(batch)))
            if stop > found:
                parts.append(take_rows(batch, wanted[found:stop] - first))
                found = stop
            if found == len(wanted):
                break
        return take_rows(concat_rows(parts), inverse)

    @property
    def paths(self) -> list[Path]:
        """The files that the rows are read from; empty where they are in memory."""
        return []

    @property
    def by_reference(self) -> bool:
        """Whether rows are read from where they are kept, such as files: then a part is sent without its rows."""
        return bool(self.paths)

    @property
    def seams(self) -> Sequence[int] | None:
        """Row indices, with 0 and n, between which rows are made together; None where any rows can be read alone."""
        return None

    def narrowed(self, start: int, stop: int) -> tuple[Source, int]:
        """A source of the same kind that knows no more than is needed to read rows start to stop, and where in it row
        `start` stands."""
        return self, start

    def where(self, row: int) -> str | None:
        """The file (or partition) that holds a row, where there are several; for errors."""
        return None

    def identity(self) -> dict[str, object]:
        """What tells these data from others, as JSON values: how a checkpoint knows whether data changed.

        Data in memory (arrays, tensors, frames, tables) are known by a hash of every value, so that one changed value
        changes it (`identity_of_rows`). Arrays are hashed at the speed of memory, tables in one scan. Objects in a
        list that are not JSON, numbers or arrays count by their type alone. A torch dataset is known by 256 items.

        Files are known by path, size, modification time and a hash of up to 64 chunks of 4 KB each
        (`identity_of_files`), so a file that was written to, touched, moved or replaced changes it. This takes
        milliseconds for one file and 0.1 s for 4096 of them.

        Two calls agree if nothing has changed, in different processes too.
        """
        if self.by_reference and self.paths:
            return files_identity(self.paths)
        rows = batch_rows(next(self.batches(1))[1])
        batches = (batch for _, batch in self.batches(rows))
        return {"rows": self.n_rows, "values": content_hash(batches)}

    @property
    def labels(self) -> np.ndarray | None:
        """Labels that come with the data (the subfolders of an image folder), else None."""
        return None

    def label_column(self, name: str) -> np.ndarray:
        """A column of a table, as labels."""
        raise ValueError(
            f"Found no column {name!r}, because {self.describe()} is not a table. Give labels as an array "
            "(krepes.sources.read_array reads one from an .npz file)."
        )

    def _checked_range(self, batch_rows: int, start: int) -> tuple[int, int]:
        check_count("batch_rows", batch_rows)
        check_count("start", start, 0)
        if start > self.n_rows:
            raise ValueError(f"start must lie between 0 and the {self.n_rows:,} rows; got {start}.")
        return int(batch_rows), int(start)

    def _checked_indices(self, indices: np.ndarray) -> np.ndarray:
        indices = np.asarray(indices)
        if indices.ndim != 1 or (len(indices) and indices.dtype.kind not in "iu"):
            found = f"shape {indices.shape}, dtype {indices.dtype}"
            raise ValueError(f"Row indices must be a 1-D array of integers; got {found}.")
        indices = indices.astype(np.int64)
        if len(indices) and not (indices.min() >= 0 and indices.max() < self.n_rows):
            found = f"values from {indices.min()} to {indices.max()}"
            raise IndexError(f"Row indices must lie between 0 and {self.n_rows - 1:,}; got {found}.")
        return indices


class TableSource(Source):
    """A source whose batches are pyarrow tables with one schema."""

    kind = "table"
    schema: pa.Schema

    @abstractmethod
    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, pa.Table]]:
        """Yield (global index of the first row, table) from row `start` to the end."""

    @property
    def column_names(self) -> list[str]:
        return list(self.schema.names)

    def select(self, columns: Sequence[str]) -> Self:
        """The same rows with only these columns, so that nothing else is read."""
        columns = [columns] if isinstance(columns, str) else list(columns)
        if not columns:
            raise ValueError(f"columns={columns!r}: name at least one column of {self.describe()}.")
        if not set(columns).issubset(self.schema.names):
            check_columns(columns, self.column_names, self.describe())
        chosen = copy(self)
        chosen.schema = pa.schema([self.schema.field(name) for name in columns])
        return chosen

    def as_text(self, columns: Sequence[str]) -> Self:
        """The same rows with some columns as they are written in a file, where that is known; else as they are."""
        return self

    def row_bytes(self) -> int:
        """About how many bytes a row takes in memory, by the first ones: files may be far smaller."""
        first = next(self.batches(64))[1]
        return max(1, first.nbytes // first.num_rows)

    def identity(self) -> dict[str, object]:
        return {"columns": [str(field) for field in self.schema], **super().identity()}

    def label_column(self, name: str) -> np.ndarray:
        """A column's values, n long: numbers (NaN where missing), or objects (None where missing)."""
        only = self.select([name])
        return column_values(pa.concat_tables([batch for _, batch in only.batches(only.scan_rows)]).column(0))


class IndexedSource(Source):
    """A source whose rows can be read by their index, in any order.

    Parameters
    ----------
    paths : the files that the rows come from, where they are in memory and there are any.
    """

    random_access = True
    by_reference = False

    def __init__(self, paths: Sequence[Path] = ()):
        self._paths = list(paths)

    @abstractmethod
    def _rows(self, which: slice | np.ndarray) -> Rows:
        """The rows of a range or at some indices."""

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Any]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        for first in range(start, self.n_rows, batch_rows):
            yield first, self._rows(slice(first, min(first + batch_rows, self.n_rows)))

    def take(self, indices: np.ndarray) -> Any:
        return self._rows(self._checked_indices(indices))

    @property
    def paths(self) -> list[Path]:
        return self._paths

    def identity(self) -> dict[str, object]:
        there = [path for path in self._paths if path.is_file()]
        return super().identity() | (files_identity(there) if there else {})


class PartOfSource(Source):
    """Some rows of another source, read from where that source reads them."""

    def __init__(self, source: Source, n_rows: int):
        self.source, self.n_rows = source, n_rows
        self.kind, self.scan_rows = source.kind, source.scan_rows

    @property
    def paths(self) -> list[Path]:
        return self.source.paths

    @property
    def by_reference(self) -> bool:
        return self.source.by_reference


class PartOfTable(PartOfSource, TableSource):
    """Some rows of a table."""

    source: TableSource

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    def select(self, columns: Sequence[str]) -> Self:
        return self._of(self.source.select(columns))

    def as_text(self, columns: Sequence[str]) -> Self:
        return self._of(self.source.as_text(columns))

    def _of(self, source: TableSource) -> Self:
        changed = copy(self)
        changed.source = source
        return changed


def is_pandas(data: object) -> bool:
    """Whether data is a frame, without importing pandas to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def is_polars(data: object) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(data, polars.DataFrame)


def check_unique(names: Sequence[str], where: str) -> None:
    """Raise an error if a column name occurs more than once."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice == [""]:
        named = ", ".join(repr(name) for name in names if name) or "none"
        raise ValueError(
            f"{where} has {names.count('')} columns without a name in its first line, which names {named:.60}. The "
            "first line must name the columns: remove a title above it."
        )
    if twice:
        listed = ", ".join(map(repr, twice))
        raise ValueError(f"{where} has several columns named {listed}. Give every column its own name.")


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema without metadata and without types of Arrow for which few operations exist: views, runs, dictionaries
    of anything but plain values."""
    return pa.schema([(field.name, _plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    encoded = pa.types.is_run_end_encoded(kind) or _is_odd_dictionary(kind)
    return _plain(kind.value_type) if encoded else plain.get(str(kind), kind)


def _is_odd_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and (
        pa.types.is_nested(kind.value_type) or pa.types.is_dictionary(kind.value_type)
    )


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with exactly these columns and types."""
    table = table.select(schema.names).replace_schema_metadata(None)
    for place, (field, wanted) in enumerate(zip(table.schema, schema)):
        if field.type != wanted.type and _plain(field.type) != field.type:
            table = table.set_column(place, field.name, _decoded(table.column(place)))
    return table if table.schema.equals(schema) else table.cast(schema)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of runs, or of an odd dictionary, as the values themselves."""
    while pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    while _is_odd_dictionary(column.type):
        chunks = [chunk.dictionary.take(chunk.indices) for chunk in column.chunks]
        column = pa.chunked_array(chunks, column.type.value_type)
    return column


def column_values(column: pa.ChunkedArray) -> np.ndarray:
    """A column as numpy: numbers stay numbers (missing is NaN), everything else becomes objects or None.

    >>> column_values(pa.chunked_array([[1, 2], [None]]))
    array([ 1.,  2., nan])
    >>> column_values(pa.chunked_array([["a", None]]))
    array(['a', None], dtype=object)
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    kind = column.type
    whole = pa.types.is_boolean(kind) and not column.null_count
    if whole or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column.to_numpy()
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_pylist()
    return values
