"""Read a `numpy.memmap` from the file behind it, in parts, so that it does not fill the memory.

The pages of a map that were read stay resident as long as the map is there, so memory would grow with the file; and a
mapped file that is cut short ends the process. Maps that are contiguous are therefore read like `.npy` files, also
views of them such as X[1000:2000], `np.asarray(X)` or X.reshape(n, -1). What stays an array in memory, pages and all:
views that skip numbers (X[::2], X[:, :5], rows of a map in Fortran order), copy-on-write maps (mode "c"), whose changes
are not in the file, and maps whose file was removed or replaced since.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from krepes.sources.arrays.rows_in_file import ArrayHeader, RowFile

_COMPARED = 4096  # bytes at the start, in the middle and at the end that must equal the file's


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
    offset = mapped_from + _address(X) - _address(np.frombuffer(_map(owner), np.uint8))
    header = ArrayHeader(path, None, X.shape, X.dtype, not X.flags.c_contiguous, offset, "numpy memmap")
    if offset + header.nbytes > (size := path.stat().st_size):
        raise ValueError(
            f"{path}: the map of the file has numbers up to byte {offset + header.nbytes:,}, but the file has only "
            f"{size:,} bytes. It was cut short after it was mapped: restore it and map it again."
        )
    return header if _shows(header, X) else None


def _map_of(X: np.ndarray) -> np.memmap | None:
    """The memory map that an array is a view of, or is."""
    owner: object = X
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap) and _map(owner) is not None:
            return owner
        owner = owner.base
    return None


def _map(owner: np.memmap) -> mmap.mmap:
    """The map itself; None for a memmap that is the result of arithmetic, and so in memory."""
    return getattr(owner, "_mmap", None)  # type: ignore[return-value]


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
