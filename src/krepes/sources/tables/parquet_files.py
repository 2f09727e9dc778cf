"""Parquet files and folders of them as one table, read in batches.

The files of a folder are taken in the order of their paths, below any number of subfolders; a subfolder named
`key=value` adds a column `key` (the Hive layout). Row counts come from the footers. Only the columns that are
asked for are read, row group after row group, so that memory is one batch and the pages it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from krepes.base.rows import Rows, concat_rows, rebatch, take_rows
from krepes.sources.identity_of_files import files_identity, gone
from krepes.sources.source import TableSource, check_unique, columns_identity, conform, plain_schema

_READ_ROWS = 16_384
_PAGED = {"buffer_size": 1 << 16, "pre_buffer": False}  # read pages as they are needed, not whole row groups


@dataclass(frozen=True)
class ParquetFile:
    """One file: where its rows stand among all rows, and what its footer says."""

    path: Path
    first: int  # global index of its first row
    group_rows: tuple[int, ...]  # rows per row group
    schema: pa.Schema
    partition: dict[str, str]
    filesystem: fs.FileSystem | None = None  # where the path is; None is this machine

    @property
    def n_rows(self) -> int:
        return sum(self.group_rows)


class ParquetSource(TableSource):
    """The rows of one or more Parquet files with the same columns."""

    def __init__(self, files: Sequence[ParquetFile], schema: pa.Schema, several: bool = False):
        self.files, self.schema = list(files), schema
        self.several = several or len(self.files) > 1  # files, of which these may be a part
        self.n_rows = sum(file.n_rows for file in files)

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        read_rows = min(batch_rows, _READ_ROWS)
        parts = (part for file in self.files for part in self._parts(file, start, read_rows))
        yield from rebatch(parts, batch_rows, start)

    def take(self, indices: np.ndarray) -> pa.Table:
        """The rows at `indices`: only the row groups that hold some of them are read."""
        wanted, inverse = np.unique(self._checked_indices(indices), return_inverse=True)
        parts = [take_rows(next(self.batches(1))[1], wanted[:0])]
        for file in self.files:
            edges = file.first + np.cumsum((0, *file.group_rows))
            for group in np.flatnonzero(np.diff(np.searchsorted(wanted, edges))):
                inside = wanted[(wanted >= edges[group]) & (wanted < edges[group + 1])]
                parts.append(self._pick(file, int(group), inside - edges[group]))
        return take_rows(concat_rows(parts), inverse)

    def select(self, columns: Sequence[str]) -> ParquetSource:
        return ParquetSource(
            self.files,
            pa.schema([self.schema.field(name) for name in self._checked_columns(columns)]),
            self.several,
        )

    @property
    def paths(self) -> list[Path]:
        local = (None, "local")  # files elsewhere cannot be an output of ours
        return [f.path for f in self.files if getattr(f.filesystem, "type_name", None) in local]

    @property
    def by_reference(self) -> bool:
        return True

    def narrowed(self, start: int, stop: int) -> tuple[ParquetSource, int]:
        """Only the files that hold some of the rows."""
        held = [file for file in self.files if file.first < stop and file.first + file.n_rows > start]
        if not held:
            return self, start
        offset = held[0].first
        files = [replace(file, first=file.first - offset) for file in held]
        return ParquetSource(files, self.schema, self.several), start - offset

    def where(self, row: int) -> str | None:
        if not self.several:
            return None
        return str(next(file.path for file in self.files if row < file.first + file.n_rows))

    def identity(self) -> dict[str, object]:
        filesystem = self.files[0].filesystem
        paths = [file.path for file in self.files]
        known = files_identity(paths) if filesystem is None else _remote_identity(paths, filesystem)
        return {"columns": columns_identity(self.schema), **known}

    def describe(self) -> str:
        files = f"{len(self.files):,} files, " if len(self.files) > 1 else ""
        return f"Parquet, {files}{self.n_rows:,} rows × {len(self.schema):,} columns"

    def _parts(self, file: ParquetFile, start: int, read_rows: int) -> Iterator[pa.Table]:
        """The rows of a file from global row `start` on; row groups before it are not read."""
        edges = file.first + np.cumsum((0, *file.group_rows))
        groups = [g for g in range(len(file.group_rows)) if edges[g + 1] > start]
        if not groups:
            return
        skip = max(start - int(edges[groups[0]]), 0)
        for table in self._read(file, groups, read_rows):
            if skip < table.num_rows:
                yield table.slice(skip)
            skip = max(skip - table.num_rows, 0)

    def _pick(self, file: ParquetFile, group: int, rows: np.ndarray) -> pa.Table:
        parts, first = [], 0
        for table in self._read(file, [group], _READ_ROWS):
            inside = rows[(rows >= first) & (rows < first + table.num_rows)]
            parts.append(take_rows(table, inside - first))
            first += table.num_rows
        return concat_rows(parts)

    def _read(self, file: ParquetFile, groups: list[int], read_rows: int) -> Iterator[pa.Table]:
        stored = [name for name in self.schema.names if name not in file.partition]
        with reading(file.path):
            parquet = pq.ParquetFile(file.path.as_posix(), filesystem=file.filesystem, **_PAGED)
        with parquet:
            _check_unchanged(parquet.metadata, file)
            with reading(file.path):
                for batch in parquet.iter_batches(read_rows, row_groups=groups, columns=stored):
                    yield _conform(batch, file.partition, self.schema)


def _check_unchanged(footer: pq.FileMetaData, file: ParquetFile) -> None:
    if (footer.num_rows, footer.num_row_groups) != (file.n_rows, len(file.group_rows)):
        raise ValueError(
            f"{file.path}: {file.n_rows:,} rows in {len(file.group_rows):,} row groups were counted when it was "
            f"opened; now there are {footer.num_rows:,} in {footer.num_row_groups:,}. The file changed; open it again."
        )


def _remote_identity(paths: Sequence[Path], filesystem: fs.FileSystem) -> dict[str, object]:
    """Path, size and modification time of every file."""
    found = filesystem.get_file_info([path.as_posix() for path in paths])
    return {
        "system": filesystem.type_name,
        "files": [[info.path, info.size, info.mtime_ns] for info in found],
    }


def open_parquet(
    paths: Sequence[Path], root: Path | None = None, filesystem: fs.FileSystem | None = None
) -> ParquetSource:
    """One source from files that have the same columns; `root` is the folder they were found in."""
    files: list[ParquetFile] = []
    first = 0
    for path in paths:
        with reading(path):
            with pq.ParquetFile(path.as_posix(), filesystem=filesystem) as parquet:
                footer = parquet.metadata
            schema = plain_schema(footer.schema.to_arrow_schema())
            group_rows = tuple(footer.row_group(g).num_rows for g in range(footer.num_row_groups))
        files.append(ParquetFile(path, first, group_rows, schema, _partition(path, root), filesystem))
        first += files[-1].n_rows
    if first == 0:
        raise ValueError(f"{root or paths[0]}: there are no rows in it.")
    return ParquetSource(files, _common_schema(files))


def _partition(path: Path, root: Path | None) -> dict[str, str]:
    folders = path.relative_to(root).parent.parts if root else ()
    return dict(part.split("=", 1) for part in folders if "=" in part)


def _common_schema(files: Sequence[ParquetFile]) -> pa.Schema:
    """The columns of the first file, with types wide enough for every file."""
    first = files[0]
    names = [*first.schema.names, *first.partition]
    check_unique(names, str(first.path))
    fields = []
    for file in files[1:]:
        here = [*file.schema.names, *file.partition]
        if set(here) != set(names):
            raise ValueError(
                f"{file.path} has different columns from {first.path}: "
                f"{', '.join(map(repr, sorted(set(here) ^ set(names))))} only in one of them. "
                "All files of a folder must have the same columns."
            )
    for name in first.schema.names:
        kinds = list(dict.fromkeys(file.schema.field(name).type for file in files))
        fields.append(pa.field(name, kinds[0] if len(kinds) == 1 else _common_type(name, kinds, files)))
    fields += [pa.field(name, pa.dictionary(pa.int32(), pa.string())) for name in first.partition]
    return pa.schema(fields)


def _common_type(name: str, kinds: list[pa.DataType], files: Sequence[ParquetFile]) -> pa.DataType:
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    try:
        schemas = [pa.schema([pa.field(name, kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException as error:
        held = ", ".join(
            f"{kind} in {next(f.path for f in files if f.schema.field(name).type == kind)}" for kind in kinds
        )
        raise ValueError(
            f"Column {name!r} has types that do not go together: {held}. Write all files with one schema."
        ) from error


def _conform(batch: pa.RecordBatch, partition: dict[str, str], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches([batch])
    for name in schema.names:
        if name in partition:
            value = pa.DictionaryArray.from_arrays(
                pa.repeat(pa.scalar(0, pa.int32()), len(batch)), [partition[name]]
            )
            table = table.append_column(name, value)
    return conform(table, schema)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a broken Parquet file raises into an error that names the file."""
    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except FileNotFoundError as error:
        raise gone(path) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as Parquet: {error}.") from error
