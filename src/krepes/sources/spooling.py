"""Batches that come only once, kept in a temporary file while they pass, and read from there afterwards.

A pass reads what is in the file, then goes on with the generator and writes what it gives. Memory is one batch; the
file has the bytes of the rows and about 200 more for every batch. It has no name and vanishes with the source, also
when the process is killed (where the system allows files without a name, as Linux and macOS do).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa

from krepes.base.rows import is_tensor
from krepes.base.storage.files import readable_bytes
from krepes.sources.tables.frames import arrow_table

_MORE_ROOM = "Name a folder with more room: spool='/data/tmp'."


class Spool:
    """The batches of an iterator, as often as they are wanted.

    Parameters
    ----------
    batches : iterator
    folder : path, optional
        Where the temporary file is; by default the system's folder for such files ($TMPDIR).
    n_rows : int, optional
        The number of rows, where it is known: whether there is room for all is then checked with the first batch.

    Examples
    --------
    >>> spool = Spool(np.full((2, 3), i) for i in range(2))
    >>> [batch.tolist() for batch in spool] == [batch.tolist() for batch in spool]
    True
    """

    def __init__(
        self, batches: Iterator[Any], folder: str | os.PathLike | None = None, n_rows: int | None = None
    ):
        self.batches, self.n_rows = batches, n_rows
        self.folder = os.fspath(tempfile.gettempdir() if folder is None else folder)
        if not os.path.isdir(self.folder):
            raise NotADirectoryError(f"spool={self.folder!r}: there is no such folder.")
        self._file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115  (open as long as the spool)
        self._places: list[tuple[int, int, str]] = []  # offset, bytes and kind of every batch
        self._failed: BaseException | None = None
        self._lock = threading.Lock()  # one position in the file for all threads

    @property
    def n_bytes(self) -> int:
        """What is on disk."""
        return sum(size for _, size, _ in self._places)

    def __iter__(self) -> Iterator[Any]:
        number = 0
        while True:
            with self._lock:
                if number == len(self._places) and not self._take_next():
                    return
                kept = self._read(number)
            yield kept
            number += 1

    def _take_next(self) -> bool:
        """Write the next batch; False where there is none. After an error the rest is lost, and every pass says so."""
        if self._failed is not None:
            raise RuntimeError(
                f"An earlier pass over these batches ended with an error ({self._failed!r}), and they cannot be read "
                "again from the beginning: make the iterator again."
            )
        try:
            batch = next(self.batches)
            self._write(batch)
        except StopIteration:
            return False
        except BaseException as error:
            self._failed = error
            raise
        return True

    def _write(self, batch: Any) -> None:
        start = self.n_bytes
        try:
            self._file.seek(start)
            kind = _store(batch, self._file)
            self._file.flush()
        except OSError as error:
            raise OSError(
                f"Batch {len(self._places):,} could not be added to the temporary file in {self.folder}, which has "
                f"{readable_bytes(start)} already: {error.strerror}. {_MORE_ROOM}"
            ) from error
        size, free = self._file.tell() - start, shutil.disk_usage(self.folder).free
        needed = 0 if self.n_rows is None or start else size * (self.n_rows / max(1, len(batch)) - 1)
        if needed > free:
            raise OSError(
                f"{self.n_rows:,} rows need about {readable_bytes(needed)} on disk, and {self.folder} has "
                f"{readable_bytes(free)} free. {_MORE_ROOM}"
            )
        self._places.append((start, size, kind))

    def _read(self, number: int) -> object:
        start, _, kind = self._places[number]
        self._file.seek(start)
        if kind in ("array", "tensor"):
            array = np.load(self._file, allow_pickle=False)
            return array if kind == "array" else sys.modules["torch"].from_numpy(array)
        table = pa.ipc.open_stream(self._file).read_all()
        return table if kind == "table" else table.column(0).to_pylist()


def _store(batch: Any, file: IO[bytes]) -> str:
    """Write a batch without pickling: numbers, tables, and objects that Arrow can hold; and say which it is."""
    table = None if isinstance(batch, np.ndarray | list) or is_tensor(batch) else arrow_table(batch)
    kind = "table" if table is not None else "objects"
    if isinstance(batch, list | tuple):
        table = pa.table({"object": _arrow_objects(list(batch))})
    if table is not None:
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        return kind
    array = np.asarray(batch.detach().cpu() if is_tensor(batch) else batch)
    if array.dtype.hasobject:
        raise TypeError("Python objects cannot be kept in a file. Give arrays of numbers, or lists.")
    np.save(file, array, allow_pickle=False)
    return "tensor" if is_tensor(batch) else "array"


def _arrow_objects(objects: list[Any]) -> pa.Array:
    try:
        column = pa.array(objects)
        same = column.to_pylist() == objects
    except (pa.ArrowException, ValueError, TypeError):
        same = False
    if not same:
        raise TypeError(
            f"Objects of {type(objects[0]).__name__} cannot be kept in a file as they are; spool=True is for numbers, "
            "text, and lists or dictionaries of these. Give a function that makes the batches again instead."
        )
    return column
