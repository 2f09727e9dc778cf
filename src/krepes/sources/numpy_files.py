"""NumPy's own files as sources: `.npy` and the members of `.npz`.

Headers are read and checked before anything is allocated, and nothing is ever unpickled. Arrays in `.npy` and
uncompressed members of `.npz` are memory-mapped, one window per batch, so that resident memory is one batch.
Compressed members are decompressed into memory if they take less than half of what is available, and
otherwise streamed: every scan decompresses them again (seconds per 100 MB for LZMA).
"""

from __future__ import annotations

import lzma
import math
import os
import tokenize
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from krepes.base.rows import Rows

from .arrays import ArraySource, channels_last, check_dtype, check_rows, kind_of, ready
from .source import Source

_READ_BYTES = 1 << 23
_BROKEN = (ValueError, OSError, EOFError, NotImplementedError, RuntimeError, SyntaxError, tokenize.TokenError)
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, UnicodeError, KeyError, TypeError)


@dataclass(frozen=True)
class ArrayHeader:
    """What the header of a stored array declares, and where its numbers begin."""

    path: Path
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    offset: int  # bytes from the start of the file (or of the decompressed member) to the first number

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
        kind = f"npz, array {self.member!r}" if self.member else "npy"
        return f"{kind}, {' × '.join(f'{s:,}' for s in self.shape)}, {self.dtype}"


class StoredArraySource(Source):
    """Rows of an array in a file, known by its header."""

    def __init__(self, header: ArrayHeader):
        check_rows(header.shape, header.dtype, f"{header.where}: ")
        self.header = header
        self.kind = kind_of(header.shape)
        self.n_rows = header.shape[0]

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        first = start
        for batch in self._read(batch_rows, start):
            yield first, ready(channels_last(batch))
            first += len(batch)

    @abstractmethod
    def _read(self, batch_rows: int, start: int) -> Iterator[np.ndarray]:
        """The rows from `start` on, as they are stored, in batches."""


class MappedArraySource(StoredArraySource):
    """Rows of an array that lies uncompressed in a file, mapped one batch at a time."""

    random_access = True

    def _read(self, batch_rows: int, start: int) -> Iterator[np.ndarray]:
        for first in range(start, self.n_rows, batch_rows):
            yield self._window(first, min(first + batch_rows, self.n_rows))

    def take(self, indices: np.ndarray) -> Rows:
        wanted, inverse = np.unique(self._checked_indices(indices), return_inverse=True)
        rows = np.empty((len(wanted), *self.header.shape[1:]), self.header.dtype)
        # One window after the other, because the pages around each row stay resident while it is mapped.
        window = max(1, _READ_BYTES // self.header.row_bytes)
        edges = np.searchsorted(wanted, np.arange(0, self.n_rows + window, window))
        for i in np.flatnonzero(np.diff(edges)):
            inside = slice(edges[i], edges[i + 1])
            first = int(i) * window
            rows[inside] = self._window(first, min(first + window, self.n_rows))[wanted[inside] - first]
        return ready(channels_last(rows[inverse]))

    def describe(self) -> str:
        return self.header.describe()

    def _window(self, start: int, stop: int) -> np.ndarray:
        """Rows start to stop, mapped copy-on-write: writable for torch, and the file never changes."""
        header = self.header
        if header.fortran:
            return _map(header, header.offset, header.shape)[start:stop]
        return _map(header, header.offset + start * header.row_bytes, (stop - start, *header.shape[1:]))


class CompressedArraySource(StoredArraySource):
    """Rows of a compressed `.npz` member that is too large for memory, decompressed on every scan."""

    def _read(self, batch_rows: int, start: int) -> Iterator[np.ndarray]:
        header = self.header
        with _reading(header.where), _open_member(header.path, header.member or "") as (stream, _):
            _skip(stream, header.offset + start * header.row_bytes)
            for first in range(start, self.n_rows, batch_rows):
                rows = min(batch_rows, self.n_rows - first)
                yield _read_numbers(stream, (rows, *header.shape[1:]), header.dtype)

    def describe(self) -> str:
        return self.header.describe() + ", compressed"


def open_npy(path: Path) -> Source:
    """A memory-mapped `.npy` file."""
    return MappedArraySource(npy_header(path))


def open_npz(path: Path, array: str) -> Source:
    """One array of an `.npz` file: mapped if stored, in memory if it fits, else streamed."""
    header, compressed = npz_header(path, array)
    if not compressed:
        return MappedArraySource(header)
    check_rows(header.shape, header.dtype, f"{header.where}: ")
    if header.nbytes <= available_memory() // 2:
        return ArraySource(_load(header), f"npz, array {array!r}")
    if header.fortran:
        _check_memory(header)
    return CompressedArraySource(header)


def read_array(path: str | os.PathLike[str], name: str = "y") -> np.ndarray:
    """An array of any shape from an `.npz` file (or the array of an `.npy` file), such as labels.

    Text is allowed, Python objects are not.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {file}.")
    header, compressed = (npy_header(file), False) if file.suffix == ".npy" else npz_header(file, name)
    if header.dtype.kind not in "US":
        check_dtype(header.dtype, f"{header.where}: ")
    _check_memory(header)
    return _load(header) if compressed else np.array(_map(header, header.offset, header.shape))


def npy_header(path: Path) -> ArrayHeader:
    """The checked header of a `.npy` file."""
    with _reading(str(path)), path.open("rb") as stream:
        shape, fortran, dtype = _parse_header(stream)
        header = ArrayHeader(path, None, shape, dtype, fortran, stream.tell())
    _check_size(header, path.stat().st_size)
    return header


def npz_header(path: Path, name: str) -> tuple[ArrayHeader, bool]:
    """The checked header of an array in an `.npz` file, and whether it is compressed.

    For an uncompressed array the offset is the one in the file, so that it can be mapped.
    """
    with _reading(f"{path}, array {name!r}"), _open_member(path, name) as (stream, info):
        shape, fortran, dtype = _parse_header(stream)
        length = stream.tell()
        header = ArrayHeader(path, name, shape, dtype, fortran, length)
    _check_size(header, info.file_size)
    if info.compress_type != zipfile.ZIP_STORED:
        return header, True
    start = _stored_at(path, info)
    _check_size(header, path.stat().st_size - start)
    return ArrayHeader(path, name, shape, dtype, fortran, start + length), False


def available_memory() -> int:
    """Bytes that can be allocated without swapping, as far as the system tells."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 33


def _parse_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"the .npy format version {version[0]}.{version[1]} is for structured arrays")
    shape, fortran, dtype = readers[version](stream)
    if any(length < 0 for length in shape):
        raise ValueError(f"the header declares the impossible shape {shape}")
    if dtype.hasobject:
        raise ValueError(
            "it holds Python objects, which would have to be unpickled, and krepes never does that. "
            "Save an array of numbers"
        )
    return shape, fortran, dtype


def _check_size(header: ArrayHeader, available: int) -> None:
    offset = header.offset
    if offset + header.nbytes > available:
        raise ValueError(
            f"{header.where}: the header declares shape {header.shape} of {header.dtype}, {header.nbytes:,} bytes, "
            f"but only {max(available - offset, 0):,} bytes follow. The file is truncated or damaged."
        )


def _check_memory(header: ArrayHeader) -> None:
    if header.nbytes > available_memory():
        raise MemoryError(
            f"{header.where}: {header.nbytes:,} bytes do not fit into the {available_memory():,} bytes of memory "
            "that are free. Save the array uncompressed (numpy.save or numpy.savez), which is read in parts."
        )


def _map(header: ArrayHeader, offset: int, shape: tuple[int, ...]) -> np.ndarray:
    if math.prod(shape) == 0:
        return np.empty(shape, header.dtype)
    order = "F" if header.fortran else "C"
    return np.memmap(header.path, header.dtype, "c", offset, shape, order)  # type: ignore[call-overload]


def _load(header: ArrayHeader) -> np.ndarray:
    with _reading(header.where), _open_member(header.path, header.member or "") as (stream, _):
        _skip(stream, header.offset)
        shape = header.shape[::-1] if header.fortran else header.shape
        X = _read_numbers(stream, shape, header.dtype)
    return X.T if header.fortran else X


def _read_numbers(stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Fill an array from a stream in parts, so that decompression needs no second copy."""
    X = np.empty(shape, dtype)
    flat = X.reshape(-1).view(np.uint8)
    done = 0
    while done < len(flat):
        block = stream.read(min(_READ_BYTES, len(flat) - done))
        if not block:
            raise EOFError(f"the data end after {done:,} of {len(flat):,} bytes")
        flat[done : done + len(block)] = np.frombuffer(block, np.uint8)
        done += len(block)
    return X


def _skip(stream: IO[bytes], n_bytes: int) -> None:
    while n_bytes > 0:
        block = stream.read(min(_READ_BYTES, n_bytes))
        if not block:
            raise EOFError("the data end too early")
        n_bytes -= len(block)


@contextmanager
def _open_member(path: Path, name: str) -> Iterator[tuple[IO[bytes], zipfile.ZipInfo]]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        entry = next((entry for entry in (f"{name}.npy", name) if entry in names), None)
        if entry is None:
            found = ", ".join(n.removesuffix(".npy") for n in names) or "none"
            raise ValueError(f"there is no array of that name; the file has: {found}. Choose one with array=")
        info = archive.getinfo(entry)
        with archive.open(info) as stream:
            yield stream, info


def _stored_at(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of an uncompressed member begin: after the 30 bytes, name and extra of its header."""
    with path.open("rb") as stream:
        stream.seek(info.header_offset + 26)
        lengths = stream.read(4)
    return (
        info.header_offset
        + 30
        + int.from_bytes(lengths[:2], "little")
        + int.from_bytes(lengths[2:], "little")
    )


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Turn whatever a broken file raises into an error that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (*_BROKEN, *_BROKEN_ZIP) as error:
        raise ValueError(f"{where}: {error or type(error).__name__}.") from error
