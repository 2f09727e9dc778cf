"""Read rows of an array from the place in a file where they lie uncompressed.

    cell i of lane k begins at byte   offset + (k n + i) c

In C order there is one lane and a cell is a row of c bytes; in Fortran order every column is a lane and a cell is one
number. Nothing is memory-mapped, because a mapped file that is cut short while it is read ends the process (SIGBUS),
whereas a read that comes back short is an exception. Memory is what is asked for, and at most 8 MB.

A `numpy.memmap` is read from its file too, because the pages of a map that were read stay resident: also views of it
such as X[1000:2000], `np.asarray(X)` or X.reshape(n, -1). What stays an array in memory, pages and all: views that skip
numbers (X[::2], X[:, :5], rows of a map in Fortran order), copy-on-write maps (mode "c"), whose changes are not in the
file, and maps whose file was removed or replaced since.
"""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from krepes.sources.identity_of_files import gone, stamp_of

WINDOW_BYTES = 1 << 23  # the most that is read at once for rows that lie apart
GAP_BYTES = 1 << 14  # rows nearer to one another are read with what lies between them
_COMPARED = 4096  # bytes of a map at the start, in the middle and at the end that must equal the file's
_APART = 1040  # cells between lanes: more than a page of 4 KB, and no power of two


@dataclass(frozen=True)
class ArrayHeader:
    """What is known of a stored array, and where its numbers begin.

    Attributes
    ----------
    path : Path
    member : str or None
        Its name in an `.npz` file.
    shape, dtype, fortran : as in numpy; `fortran` says whether columns, not rows, lie together.
    offset : int
        Bytes from the start of the file (or of the decompressed member) to the first number.
    kind : str
        Where the array comes from, in words.
    stamp : (size in bytes, modification time in ns) or None
        The file's stamp when its header was read; None where there is no header (a `numpy.memmap`).
    """

    path: Path
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    offset: int
    kind: str = "npy"
    stamp: tuple[int, int] | None = None

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def where(self) -> str:
        return f"{self.path}" + (f", array {self.member!r}" if self.member else "")

    def describe(self) -> str:
        kind = f"npz, array {self.member!r}" if self.member else self.kind
        return f"{kind}, {' × '.join(f'{s:,}' for s in self.shape)}, {self.dtype}"


class RowFile:
    """The open file of a stored array: `with RowFile(header) as file: file.rows(0, 10)`.

    A file that ends too early raises an EOFError, which does not name it.
    """

    def __init__(self, header: ArrayHeader):
        self.header = header
        self._n = header.shape[0] if header.shape else 1
        self._lanes = math.prod(header.shape[1:]) if header.fortran else 1
        self._cell = header.dtype.itemsize if header.fortran else header.row_bytes

    def __enter__(self) -> Self:
        try:
            self._file = self.header.path.open("rb", buffering=0)
        except FileNotFoundError as error:
            raise gone(self.header.path) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def stamp(self) -> tuple[int, int]:
        return stamp_of(os.fstat(self._file.fileno()))

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start to stop, in the caller's own memory.

        Lanes are read a little apart, because copying across lanes whose distance is a power of two takes three times
        as long (they fall into the same few lines of the cache).
        """
        count, header = stop - start, self.header
        apart = min(count, _APART) if header.fortran else 0
        cells = np.empty((self._lanes, count + apart, self._cell), np.uint8)[:, :count]
        for lane in range(self._lanes):
            place = header.offset + (lane * self._n + start) * self._cell
            self.fill(cells[lane].reshape(-1).data, place)
        numbers = cells.view(header.dtype)
        if header.fortran:
            return numbers.reshape(*header.shape[:0:-1], count).T
        return numbers.reshape(count, *header.shape[1:])

    def take(self, wanted: np.ndarray) -> np.ndarray:
        """The rows at distinct indices in increasing order. What lies between near rows is read with them."""
        window = max(1, WINDOW_BYTES // self._cell)
        far = (np.diff(wanted) - 1) * self._cell > GAP_BYTES
        runs = np.split(wanted, np.flatnonzero(far | (np.diff(wanted // window) > 0)) + 1)
        parts = [self.rows(int(run[0]), int(run[-1]) + 1)[run - run[0]] for run in runs if len(run)]
        return np.concatenate(parts) if parts else self.rows(0, 0)

    def fill(self, target: memoryview, place: int) -> None:
        """The bytes of the file from `place` on, as many as the target holds."""
        self._file.seek(place)
        done = 0
        while done < len(target):
            count = self._file.readinto(target[done:])
            if not count:
                end = f"the file ends before byte {place + len(target):,}"
                raise EOFError(f"{end}: it was cut short after it was opened. Restore it and open it again")
            done += count


def mapped_file(X: np.ndarray) -> Path | None:
    """The file whose map holds the numbers of an array; None where there is none."""
    owner = _map_of(X)
    return None if owner is None or owner.filename is None else Path(owner.filename)


def memmap_header(X: np.ndarray) -> ArrayHeader | None:
    """Where the numbers of an array lie in the file that it maps; None where it must stay an array."""
    owner, path = _map_of(X), mapped_file(X)
    contiguous = X.flags.c_contiguous or X.flags.f_contiguous
    if owner is None or path is None or owner.mode == "c" or not contiguous or X.size == 0:
        return None
    if not path.is_file():
        return None
    # numpy maps from the last page boundary before the offset; `offset` is that of the whole map, not of a view.
    mapped_from = owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY
    offset = mapped_from + _address(X) - _address(np.frombuffer(owner._mmap, np.uint8))  # type: ignore[attr-defined]
    header = ArrayHeader(path, None, X.shape, X.dtype, not X.flags.c_contiguous, offset, "numpy memmap")
    end, size = offset + header.nbytes, path.stat().st_size
    if end > size:
        raise ValueError(
            f"{path}: the map has numbers up to byte {end:,}, and the file only {size:,} bytes. It was cut short after "
            "it was mapped: restore it and map it again."
        )
    return header if _shows(header, X) else None


def _map_of(X: np.ndarray) -> np.memmap | None:
    """The memory map that an array is a view of, or is; a memmap that is the result of arithmetic is in memory."""
    owner: object = X
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap) and getattr(owner, "_mmap", None) is not None:
            return owner
        owner = owner.base
    return None


def _address(X: np.ndarray) -> int:
    return X.__array_interface__["data"][0]


def _shows(header: ArrayHeader, X: np.ndarray) -> bool:
    """Whether the file has the bytes of the array, in three places: another file may have taken its name."""
    flat = (X.T if header.fortran else X).reshape(-1).view(np.uint8)
    with RowFile(header) as file:
        for place in (0, max(0, (len(flat) - _COMPARED) // 2), max(0, len(flat) - _COMPARED)):
            mapped = flat[place : place + _COMPARED].tobytes()
            stored = bytearray(len(mapped))
            file.fill(memoryview(stored), header.offset + place)
            if stored != mapped:
                return False
    return True
