"""Zarr arrays: chunks of rows in a folder or a store, read as they are needed; `pip install "krepes[scale]"`.

Rows are read in whole chunks, and work is divided between them, because a chunk is decompressed as a whole. Memory is
one batch and the chunks that it comes from. zarr is imported when a Zarr array is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from krepes.base.rows import Rows
from krepes.sources.arrays.in_memory import array_kind, check_array, ready
from krepes.sources.identity_of_files import files_identity, reading
from krepes.sources.source import Source

MARKS = ("zarr.json", ".zarray", ".zgroup")  # files that a Zarr array or group has


class ZarrSource(Source):
    """Rows of a Zarr array."""

    def __init__(self, array: Any):
        self.array = array
        if any(getattr(codec, "codec_id", "") == "pickle" for codec in (*array.filters, *array.compressors)):
            raise ValueError(f"{self._place} holds pickles, which can run code: krepes does not read them.")
        check_array(tuple(array.shape), array.dtype, f"{self._place}: ")
        self._check_chunks()
        self.kind, self.n_rows = array_kind(tuple(array.shape)), int(array.shape[0])

    @property
    def _place(self) -> str:
        return f"Zarr array {self.root or self.array.name}"

    @property
    def root(self) -> Path | None:
        """The folder of the store, where it is one."""
        folder = getattr(self.array.store, "root", None)
        return None if folder is None else Path(folder)

    @property
    def _chunk_rows(self) -> int:
        return int((getattr(self.array, "shards", None) or self.array.chunks)[0])

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        for first in range(start, self.n_rows, batch_rows):
            with self._reading():
                rows = np.asarray(self.array[first : min(first + batch_rows, self.n_rows)])
            yield first, ready(rows)
        self._check_chunks()

    def _check_chunks(self) -> None:
        """Refuse lost chunks: zarr reads them as the fill value, which is data unless it is NaN."""
        fill = self.array.fill_value
        if isinstance(fill, np.floating) and np.isnan(fill):
            return
        with self._reading():
            there, all_chunks = self.array.nchunks_initialized, self.array.nchunks
        if there < all_chunks:
            raise ValueError(
                f"{self._place}: {all_chunks - there:,} of {all_chunks:,} chunks are not there, and would be read as "
                f"{fill}. Copy the array again. If they hold nothing else, write them: "
                "zarr.create_array(..., config={'write_empty_chunks': True})."
            )

    def take(self, indices: np.ndarray) -> Rows:
        wanted, inverse = np.unique(self._checked_indices(indices), return_inverse=True)
        with self._reading():
            rows = np.asarray(self.array.oindex[wanted])
        return ready(rows[inverse])

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self._place, self.root or Path(str(self.array.store)))

    @property
    def by_reference(self) -> bool:
        return type(self.array.store).__name__ != "MemoryStore"

    @property
    def seams(self) -> Sequence[int]:
        return [*range(0, self.n_rows, self._chunk_rows), self.n_rows]

    @property
    def paths(self) -> list[Path]:
        return [] if self.root is None else [self.root]

    def identity(self) -> dict[str, object]:
        if self.root is None:
            return super().identity()
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        array = [self.array.path, list(self.array.shape), str(self.array.dtype)]
        return {"array": array, **files_identity(files)}

    def describe(self) -> str:
        shape = " × ".join(f"{size:,}" for size in self.array.shape)
        return f"Zarr array, {shape}, {self.array.dtype}"


def is_zarr(data: object) -> bool:
    kind = type(data)
    return kind.__module__.partition(".")[0] == "zarr" and kind.__name__ == "Array"


def is_zarr_folder(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in MARKS)


def open_zarr(folder: Path, name: str) -> ZarrSource:
    """The array in a folder, or the one of this name in a group."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f'{folder}: a Zarr array needs zarr: pip install "krepes[scale]".') from error
    with reading(f"The Zarr folder {folder}", folder):
        found: Any = zarr.open(folder, mode="r")
    if is_zarr(found):
        return ZarrSource(found)
    names = sorted(found.array_keys())
    if name not in names and len(names) != 1:
        has = f"the group has: {', '.join(names) or 'none'}"
        raise ValueError(f"{folder}: there is no array {name!r}; {has}. Choose one with array=.")
    return ZarrSource(found[name if name in names else names[0]])
