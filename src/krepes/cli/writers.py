"""Representations as files, written batch by batch: .npy, .npz, .parquet, .csv.

Memory is one batch, whatever the number of rows is.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.csv import CSVWriter
    from pyarrow.parquet import ParquetWriter

SUFFIXES = (".npy", ".npz", ".parquet", ".csv")
_CSV_BYTES = 13  # per number, about: "-0.123456789,"


class Writer(Protocol):
    def write(self, Z: np.ndarray, kept: pa.Table | None = None) -> None: ...


def check_suffix(path: Path, keep: list[str]) -> str:
    """The format that a file's name asks for."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"--output {path}: expected a name that ends in {', '.join(SUFFIXES)}.")
    if keep and suffix in (".npy", ".npz"):
        raise ValueError(
            f"--keep needs a table to keep columns in: write a .parquet or .csv file, not {suffix}."
        )
    return suffix


def output_bytes(suffix: str, n_rows: int, n_columns: int, itemsize: int) -> int:
    """About the size of the file."""
    return n_rows * n_columns * (_CSV_BYTES if suffix == ".csv" else itemsize)


@contextmanager
def writing(
    path: Path, suffix: str, n_rows: int, n_columns: int, dtype: np.dtype, kept: pa.Schema | None = None
) -> Iterator[Writer]:
    """A writer for n_rows batches in all; `kept` is the schema of the columns that stand before z0, z1, ..."""
    if suffix == ".npy":
        with path.open("wb") as stream:
            yield _ArrayWriter(stream, (n_rows, n_columns), dtype)
    elif suffix == ".npz":
        with zipfile.ZipFile(path, "w") as archive, archive.open("Z.npy", "w", force_zip64=True) as stream:
            yield _ArrayWriter(stream, (n_rows, n_columns), dtype)
    else:
        schema = _schema(n_columns, dtype, kept)
        with _table_file(path, suffix, schema) as file:
            yield _TableWriter(file, schema)


class _ArrayWriter:
    """The header of a .npy file, then rows as they come."""

    def __init__(self, stream: IO[bytes], shape: tuple[int, int], dtype: np.dtype):
        self.stream, self.dtype = stream, dtype
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)

    def write(self, Z: np.ndarray, kept: pa.Table | None = None) -> None:
        self.stream.write(np.ascontiguousarray(Z, dtype=self.dtype).data)


class _TableWriter:
    """Kept columns and one column per component."""

    def __init__(self, file: CSVWriter | ParquetWriter, schema: pa.Schema):
        self.file, self.schema = file, schema

    def write(self, Z: np.ndarray, kept: pa.Table | None = None) -> None:
        import pyarrow as pa

        columns = [] if kept is None else kept.columns
        self.file.write_table(pa.Table.from_arrays([*columns, *Z.T.copy()], schema=self.schema))


def _schema(n_columns: int, dtype: np.dtype, kept: pa.Schema | None) -> pa.Schema:
    import pyarrow as pa

    fields = [pa.field(f"z{j}", pa.from_numpy_dtype(dtype)) for j in range(n_columns)]
    before = [] if kept is None else list(kept)
    twice = sorted({field.name for field in before} & {field.name for field in fields})
    if twice:
        raise ValueError(
            f"--keep {twice[0]}: the components are called z0, z1, ...; rename that column first."
        )
    return pa.schema([*before, *fields])


def _table_file(path: Path, suffix: str, schema: pa.Schema) -> CSVWriter | ParquetWriter:
    if suffix == ".csv":
        import pyarrow.csv

        return pyarrow.csv.CSVWriter(path, schema)
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(path, schema, compression="zstd")
