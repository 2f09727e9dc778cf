"""Parquet files and folders of them as one table, read in batches.

The files of a folder are taken in the order of their paths, below any number of subfolders; a subfolder named
`key=value` adds a column `key` (the Hive layout). Row counts come from the footers. Only the columns that are
asked for are read, row group after row group, so that memory is one batch and the pages it comes from.

`pyarrow.dataset` reads such folders too, but begins a scan at row groups, not at rows, and holds several of them ahead:
a pass that goes on at a row, and memory of one batch, need the groups themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from krepes.base.rows import Rows, concat_rows, rebatch, take_rows
from krepes.base.storage.files import readable_bytes
from krepes.sources.identity_of_files import reading
from krepes.sources.rows_in_sequence import Named, in_sequence
from krepes.sources.source import TableSource, check_unique, conform, plain_schema

_READ_ROWS, _FEW_ROWS = 16_384, 256
_READ_BYTES, _MOST_BYTES = 1 << 26, 1 << 31  # read at once, where cells are long; of a batch
_PAGED = {"buffer_size": 1 << 16, "pre_buffer": False}  # read pages as they are needed, not whole row groups


class ParquetSource(TableSource):
    """The rows of a Parquet file.

    Parameters
    ----------
    path : the file.
    partition : columns that its folders add, each with one value.
    filesystem : where the path is; None is this machine.
    """

    by_reference = True

    def __init__(
        self, path: Path, partition: dict[str, str] | None = None, filesystem: fs.FileSystem | None = None
    ):
        self.path, self.partition, self.filesystem = path, partition or {}, filesystem
        with reading(str(path), path), pq.ParquetFile(path.as_posix(), filesystem=filesystem) as parquet:
            footer = parquet.metadata
            stored = plain_schema(footer.schema.to_arrow_schema())
            self.group_rows = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
        self.n_rows = sum(self.group_rows)
        self._edges = np.cumsum([0, *self.group_rows])
        check_unique([*stored.names, *self.partition], str(path))
        levels = pa.dictionary(pa.int32(), pa.string())
        self.schema = pa.schema([*stored, *(pa.field(name, levels) for name in self.partition)])

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        parts = self._from(start, min(batch_rows, _READ_ROWS))
        yield from rebatch(self._within_limit(parts, batch_rows), batch_rows, start)

    def _within_limit(self, parts: Iterable[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
        """The same parts, as long as a batch has room for them: a few bytes of a file can be many in memory."""
        n_held, size = 0, 0.0
        for part in parts:
            n_held, size = n_held + part.num_rows, size + part.nbytes
            if size > _MOST_BYTES and n_held > _FEW_ROWS:
                longest = max(part.column_names, key=lambda name: part.column(name).nbytes)
                raise ValueError(
                    f"{self.path}: {n_held:,} rows take {readable_bytes(size)} in memory, most of it in column "
                    f"{longest!r}; at most {readable_bytes(_MOST_BYTES)} can be read at once. Shorten the cells of "
                    "the column, or leave it out."
                )
            if n_held >= batch_rows:
                n_held %= batch_rows
                size = part.nbytes * n_held / part.num_rows
            yield part

    def _from(self, start: int, read_rows: int) -> Iterator[pa.Table]:
        """The rows from `start` on; row groups before it are not read."""
        groups = np.flatnonzero(self._edges[1:] > start).tolist()
        if not groups:
            return
        skip = start - int(self._edges[groups[0]])
        for table in self._read(groups, read_rows):
            if skip < table.num_rows:
                yield table.slice(skip)
            skip = max(skip - table.num_rows, 0)

    def take(self, indices: np.ndarray) -> pa.Table:
        """The rows at `indices`: only the row groups that hold some of them are read."""
        wanted, inverse = np.unique(self._checked_indices(indices), return_inverse=True)
        parts = [self.schema.empty_table()]
        for group in np.flatnonzero(np.diff(np.searchsorted(wanted, self._edges))).tolist():
            first = self._edges[group]
            for table in self._read([group], _READ_ROWS):
                inside = wanted[(wanted >= first) & (wanted < first + table.num_rows)]
                parts.append(take_rows(table, inside - first))
                first += table.num_rows
        return take_rows(concat_rows(parts), inverse)

    @property
    def paths(self) -> list[Path]:
        local = getattr(self.filesystem, "type_name", "local") == "local"
        return [self.path] if local else []  # files elsewhere cannot be an output of ours

    def identity(self) -> dict[str, object]:
        if self.paths:
            return super().identity()
        assert self.filesystem is not None
        found = self.filesystem.get_file_info(self.path.as_posix())
        file = [self.filesystem.type_name, found.path, found.size, found.mtime_ns]
        return {"columns": [str(field) for field in self.schema], "file": file}

    def describe(self) -> str:
        return f"Parquet, {self.n_rows:,} rows × {len(self.schema):,} columns"

    def _read(self, groups: list[int], read_rows: int) -> Iterator[pa.Table]:
        stored = [name for name in self.schema.names if name not in self.partition]
        with reading(str(self.path), self.path):
            parquet = pq.ParquetFile(self.path.as_posix(), filesystem=self.filesystem, **_PAGED)
        with parquet:
            self._check_unchanged(parquet.metadata)
            with reading(str(self.path), self.path):
                if self._has_long_cells(parquet, groups[:1]):
                    read_rows = min(_FEW_ROWS, read_rows)
                for batch in parquet.iter_batches(read_rows, row_groups=groups, columns=stored):
                    yield self._with_partition(pa.Table.from_batches([batch]))

    def _has_long_cells(self, parquet: pq.ParquetFile, groups: list[int]) -> bool:
        """Whether the first rows of some groups say so; numbers are never long."""
        stored = [field for field in self.schema if field.name not in self.partition]
        text = [field.name for field in stored if not pa.types.is_primitive(field.type)]
        first = next(parquet.iter_batches(_FEW_ROWS, row_groups=groups, columns=text), None) if text else None
        return first is not None and first.nbytes * _READ_ROWS > _READ_BYTES * len(first)

    def _check_unchanged(self, footer: pq.FileMetaData) -> None:
        before = f"{self.n_rows:,} rows in {len(self.group_rows):,} row groups"
        now = f"{footer.num_rows:,} rows in {footer.num_row_groups:,} row groups"
        if now != before:
            raise ValueError(f"{self.path}: the file had {before}, and has {now}. Open it again.")

    def _with_partition(self, table: pa.Table) -> pa.Table:
        for name in self.schema.names:
            if name in self.partition:
                codes = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
                value = pa.DictionaryArray.from_arrays(codes, [self.partition[name]])
                table = table.append_column(name, value)
        return conform(table, self.schema)


def open_parquet(
    paths: Sequence[Path], root: Path | None = None, filesystem: fs.FileSystem | None = None
) -> TableSource:
    """One source from files that have the same columns; `root` is the folder they were found in."""
    files = [ParquetSource(path, _partition(path, root), filesystem) for path in paths]
    if not any(file.n_rows for file in files):
        raise ValueError(f"{root or paths[0]}: there are no rows in it.")
    if len(files) == 1:
        return files[0]
    local = paths if files[0].paths else ()
    named = [Named(str(file.path), file) for file in files]
    found = in_sequence(named, f"Parquet, {len(files):,} files", files=local)
    assert isinstance(found, TableSource)
    return found


def _partition(path: Path, root: Path | None) -> dict[str, str]:
    folders = path.relative_to(root).parent.parts if root else ()
    return dict(part.split("=", 1) for part in folders if "=" in part)
