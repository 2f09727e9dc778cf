"""Representations in files: arrays and tables of numbers, read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import typer

from krepes.base.reporting import warn
from krepes.base.rows import REDUCE
from krepes.cli.opening import open_data
from krepes.cli.session import check_exists
from krepes.labelled import ARRAYS, array_names, split_array
from krepes.preprocessing.column_choice import TARGET_NAMES
from krepes.sources import Source, TableSource, open_source, read_array
from krepes.sources.arrays.numpy_files import npy_header, npz_header
from krepes.sources.arrays.sparse_matrices import is_sparse_npz
from krepes.sources.opening import is_csv

BATCH_ROWS = 8192


class FeatureFile:
    """Rows of numbers in an .npy, .npz (NAME.npz:ARRAY), Parquet or CSV file; never a pickle."""

    def __init__(self, file: str, left_out: tuple[str, ...] = (), encoding: str | None = None):
        path, array = split_array(file, "X")
        check_exists(Path(path))
        self.name = file
        self.columns: list[str] = []  # of a table, before any is left out
        self.source = _single_column(file) or open_data(
            Path(path), array, encoding=encoding if is_csv(path) else None
        )
        self.n_rows = self.source.n_rows
        if isinstance(self.source, TableSource):
            self.columns = self.source.column_names
            table = self.source.select([c for c in self.columns if c not in left_out])
            _check_numbers(table, file)
            targets = [name for name in table.column_names if name.lower() in TARGET_NAMES]
            if targets:
                warn(
                    f"{file}: {', '.join(map(repr, targets))} will be used as a feature. If it holds what is to be "
                    "predicted, leave it out with --exclude."
                )
            self.source = table

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[tuple[int, np.ndarray]]:
        """(index of the first row, rows of numbers (b, d))."""
        for first, batch in self.source.batches(batch_rows):
            if isinstance(batch, pa.Table):
                columns = [np.asarray(column.to_numpy(), dtype=np.float64) for column in batch.columns]
                yield first, np.column_stack(columns)
            else:
                yield first, np.asarray(batch).reshape(len(batch), -1)

    def finite_batches(self) -> Iterator[tuple[int, np.ndarray]]:
        """Batches, or an error that says where in the file a value is missing."""
        for first, batch in self.batches():
            bad = np.flatnonzero(~np.isfinite(batch).all(axis=1))
            if len(bad):
                raise ValueError(
                    f"{self.name} has NaN or infinite values; the first are in row {first + bad[0]:,}. "
                    "Leave these rows out of all files."
                )
            yield first, batch

    def matrix(self) -> np.ndarray:
        """All rows at once."""
        return np.concatenate([batch for _, batch in self.batches()])


def _single_column(file: str) -> Source | None:
    """A source of an array with one dimension, as one column; None for everything else."""
    given, name = split_array(file, "X")
    path = Path(given).expanduser()
    suffix = path.suffix.lower()
    if not path.is_file() or suffix not in ARRAYS:
        return None
    if suffix == ".npz" and is_sparse_npz(path, name):
        raise ValueError(f"{file} has sparse rows, and representations are dense columns. {REDUCE}.")
    if suffix == ".npz" and name not in (names := array_names(path)):
        raise ValueError(
            f"{file}: there is no array {name!r}; the file has {', '.join(names)}. Name one: {path}:ARRAY."
        )
    header = npz_header(path, name)[0] if suffix == ".npz" else npy_header(path)
    return open_source(read_array(path, name).reshape(-1, 1)) if len(header.shape) == 1 else None


def _check_numbers(source: TableSource, file: str) -> None:
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    others = [field.name for field in source.schema if not any(test(field.type) for test in numeric)]
    if others or not source.column_names:
        shown = f"not {', '.join(map(repr, others[:10]))}" if others else "and there is none"
        raise ValueError(
            f"{file}: expected columns of numbers, {shown}. Leave columns out: --exclude COLUMN."
        )


def open_aligned(
    files: list[str],
    left_out: tuple[str, ...] = (),
    exclude: Sequence[str] = (),
    encoding: str | None = None,
) -> list[FeatureFile]:
    """Several representations of the same rows, without some columns; each of `exclude` is in one of them."""
    found = [FeatureFile(file, (*left_out, *exclude), encoding) for file in files]
    unknown = [name for name in exclude if not any(name in file.columns for file in found)]
    if unknown:
        raise ValueError(f"--exclude {unknown[0]}: no file has a column of this name.")
    for other in found[1:]:
        if other.n_rows != found[0].n_rows:
            raise ValueError(
                f"{other.name} has {other.n_rows:,} rows and {found[0].name} has {found[0].n_rows:,}: "
                "expected the same rows, in the same order."
            )
    return found


def check_buckets(sketch: int) -> None:
    """Refuse a --sketch that is not a power of two, before any file is read."""
    if sketch & (sketch - 1):
        raise typer.BadParameter(f"--sketch {sketch}: expected a power of two, such as 256.")


def short_names(files: list[str]) -> list[str]:
    """Files without the folders that they do not need to be told apart.

    >>> short_names(["runs/1/z.npy", "runs/2/z.npy"]), short_names(["a/x.npy", "b/y.npy"])
    (['1/z.npy', '2/z.npy'], ['x.npy', 'y.npy'])
    """
    for depth in range(1, max(len(Path(file).parts) for file in files)):
        names = [str(Path(*Path(file).parts[-depth:])) for file in files]
        if len(set(names)) == len(set(files)):
            return names
    return files
