"""Results of rows as files: .npy, .npz, .parquet, .csv, written batch by batch and whole or not at all.

The counterpart of `krepes.sources`. Columns that tell rows apart, such as ids, can be carried over from the table that
the rows came from. Memory is one batch, whatever the number of rows is (for .npz also the kept columns).

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "z.csv"
>>> Z = np.array([[0.5, 1.0], [2.0, 3.0]])
>>> write_rows(path, [Z], 2, 2, keep=mapping_source({"id": ["a", "b"]}))
>>> print(path.read_text(), end="")
"id","z0","z1"
"a",0.5,1
"b",2,3

Columns of several types come as records:

>>> records = np.array([("yes", 0.9)], dtype=[("prediction", "U3"), ("p", float)])
>>> write_rows(path, (records,), 1, None, dtype=records.dtype, overwrite=True)
>>> print(path.read_text(), end="")
"prediction","p"
"yes",0.9
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from krepes.base.storage.files import atomic_path
from krepes.sources import Source, TableSource
from krepes.sources.image_folders import ImageFolderSource
from krepes.sources.tables.frames import mapping_source

if TYPE_CHECKING:
    from pyarrow.csv import CSVWriter
    from pyarrow.parquet import ParquetWriter

__all__ = ["kept_columns", "write_rows"]

SUFFIXES = (".npy", ".npz", ".parquet", ".csv")
TABLES = (".parquet", ".csv")
BATCH_ROWS = 8192
_CSV_BYTES = 13  # per number, about: "-0.123456789,"


class Writer(Protocol):
    def write(self, Z: Any, kept: pa.Table | None = None) -> None: ...


def check_suffix(path: str | os.PathLike, keep: Iterable[str] = ()) -> str:
    """The format that a file's name asks for, or an error where it cannot hold what is to be kept."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"output={path}: expected a name that ends in {', '.join(SUFFIXES)}.")
    if suffix == ".npy" and list(keep):
        raise ValueError(
            "keep= needs a file with room for other columns: write .parquet, .csv or .npz, because .npy is one array."
        )
    return suffix


def output_bytes(path: str | os.PathLike, n_rows: int, n_columns: int, itemsize: int) -> int:
    """About the size of the file."""
    return n_rows * n_columns * (_CSV_BYTES if Path(path).suffix.lower() == ".csv" else itemsize)


def kept_columns(source: Source, keep: list[str], path: str | os.PathLike) -> TableSource | None:
    """The columns to carry over, as a table of the same rows; the file names for a table of a folder of images."""
    if isinstance(source, TableSource):
        return source.select(keep) if keep else None
    if keep:
        raise ValueError(f"keep={keep[0]}: {source.describe()} has no columns.")
    if isinstance(source, ImageFolderSource) and Path(path).suffix.lower() in TABLES:
        return mapping_source({"file": [file.relative_to(source.root).as_posix() for file in source.files]})
    return None


def write_rows(
    path: str | os.PathLike,
    batches: Iterable[np.ndarray | pa.Table],
    n_rows: int,
    n_columns: int | tuple[int, ...] | None,
    *,
    dtype: np.dtype | type | str = np.float64,
    name: str = "Z",
    columns: list[str] | None = None,
    schema: pa.Schema | None = None,
    beside: Callable[[], Mapping[str, np.ndarray]] | None = None,
    keep: TableSource | None = None,
    overwrite: bool = False,
) -> None:
    """Write a result of n rows.

    Parameters
    ----------
    path : the file; its ending sets the format.
    batches : the rows in their order, in arrays of any length: (b, n_columns), or (b,) where n_columns is None; or
        tables, where `schema` is given.
    n_rows, n_columns, dtype : of the whole result; the columns of an array may be the shape of a row, such as an
        image's. With the dtype of records (and n_columns None), every field is a column of a table; arrays are of
        records.
    name : the name of the array in an .npz file.
    columns : names of the columns in a table; by default z0, z1, ...
    schema : columns and types of a table whose batches are tables.
    beside : further arrays of an .npz file by name, asked for when all rows are written.
    keep : columns to carry over, which stand before the others: a table of the same rows, in their order. In an
        .npz file they are further arrays.
    overwrite : whether an existing file may be replaced.
    """
    suffix = check_suffix(path, () if keep is None else keep.column_names)
    shape = (n_rows, *((n_columns,) if isinstance(n_columns, int) else n_columns or ()))
    if schema is None:
        names = columns or list(np.dtype(dtype).names or [f"z{j}" for j in range(math.prod(shape[1:]))])
        schema = _schema(names, np.dtype(dtype))
    _check_names([name] if suffix == ".npz" else schema.names, keep)
    if suffix == ".npz" and keep is not None:
        _check_members(keep.column_names)
    kept = None if keep is None or suffix == ".npz" else _InStep(keep)
    given = 0
    with (
        atomic_path(path, overwrite=overwrite) as temporary,
        _writer(temporary, suffix, shape, np.dtype(dtype), name, schema, keep, beside) as writer,
    ):
        for Z in batches:
            writer.write(Z, None if kept is None else kept.next(len(Z)))
            given += len(Z)
        if given != n_rows:
            raise ValueError(f"{path}: got {given:,} rows; expected n_rows={n_rows:,}.")


class _InStep:
    """A table that is read once, in parts of any number of rows."""

    def __init__(self, source: TableSource):
        self._batches, self._waiting = source.batches(BATCH_ROWS), source.schema.empty_table()

    def next(self, count: int) -> pa.Table:
        parts = [self._waiting]
        while sum(map(len, parts)) < count:
            parts.append(next(self._batches)[1])
        table = pa.concat_tables(parts)
        self._waiting = table.slice(count)
        return table.slice(0, count)


def _check_names(names: list[str], keep: TableSource | None) -> None:
    twice = sorted(set(names) & set(() if keep is None else keep.column_names))
    if twice:
        raise ValueError(
            f"keep={twice[0]}: the result has its own column {', '.join(names[:2])}; rename that column."
        )


def _check_members(names: list[str]) -> None:
    """Refuse columns whose array in an archive would be a file elsewhere, once it is unpacked."""
    for name in names:
        if any(mark in name for mark in ("/", "\\", ":", "\0")) or name.startswith("."):
            raise ValueError(
                f"keep={name}: cannot be the name of an array in an .npz file; write .parquet or .csv."
            )


@contextmanager
def _writer(
    path: Path,
    suffix: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    name: str,
    schema: pa.Schema,
    keep: TableSource | None,
    beside: Callable[[], Mapping[str, np.ndarray]] | None,
) -> Iterator[Writer]:
    if suffix == ".npy":
        with path.open("wb") as stream:
            yield _ArrayWriter(stream, shape, dtype)
    elif suffix == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                yield _ArrayWriter(stream, shape, dtype)
            more = {column: _plain(keep, column) for column in ([] if keep is None else keep.column_names)}
            for column, values in (more | dict(beside() if beside is not None else {})).items():
                with archive.open(f"{column}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, values, allow_pickle=False)
    else:
        schema = pa.schema([*(() if keep is None else keep.schema), *schema])
        with _table_file(path, suffix, schema) as file:
            yield _TableWriter(file, schema)


def _schema(names: list[str], dtype: np.dtype) -> pa.Schema:
    types = [dtype[name] for name in dtype.names] if dtype.names else [dtype] * len(names)
    return pa.schema([pa.field(name, pa.from_numpy_dtype(kind)) for name, kind in zip(names, types)])


def _plain(keep: TableSource | None, column: str) -> np.ndarray:
    """A column as an array without objects: text is text, and a missing text is empty."""
    assert keep is not None
    values = keep.label_column(column)
    return (
        np.array(["" if value is None else str(value) for value in values])
        if values.dtype == object
        else values
    )


class _ArrayWriter:
    """The header of a .npy file, then rows as they come."""

    def __init__(self, stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype):
        self.stream, self.dtype = stream, dtype
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)

    def write(self, Z: np.ndarray, kept: pa.Table | None = None) -> None:
        self.stream.write(np.ascontiguousarray(Z, dtype=self.dtype).data)


class _TableWriter:
    """Kept columns, then the columns of the result."""

    def __init__(self, file: CSVWriter | ParquetWriter, schema: pa.Schema):
        self.file, self.schema = file, schema

    def write(self, Z: np.ndarray | pa.Table, kept: pa.Table | None = None) -> None:
        columns = [] if kept is None else kept.columns
        if isinstance(Z, pa.Table):
            parts = Z.columns
        elif Z.dtype.names:
            parts = [np.ascontiguousarray(Z[name]) for name in Z.dtype.names]
        else:
            parts = [Z] if Z.ndim == 1 else list(Z.T.copy())
        self.file.write_table(pa.Table.from_arrays([*columns, *parts], schema=self.schema))


def _table_file(path: Path, suffix: str, schema: pa.Schema) -> CSVWriter | ParquetWriter:
    if suffix == ".csv":
        import pyarrow.csv

        return pyarrow.csv.CSVWriter(path, schema)
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(path, schema, compression="zstd")
