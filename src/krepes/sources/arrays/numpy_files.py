"""NumPy's own files as sources: `.npy` and the members of `.npz`.

Headers are read and checked before anything is allocated, and nothing is ever unpickled. Arrays in `.npy` and
uncompressed members of `.npz` are read by their place in the file, so that resident memory is one batch; a file that
is cut short, removed or replaced by an array of another shape while it is read is an error that names it. Compressed
members are decompressed into memory if they take less than half of what is available, and
otherwise streamed: every scan decompresses them again (seconds per 100 MB for LZMA).
"""

from __future__ import annotations

import lzma
import os
import tokenize
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from krepes.base.blocks import available_memory
from krepes.base.rows import Rows
from krepes.sources.arrays.in_memory import ArraySource, array_kind, check_array, check_dtype, ready
from krepes.sources.arrays.rows_in_file import ArrayHeader, RowFile
from krepes.sources.identity_of_files import file_stamp, files_identity
from krepes.sources.source import Source

_BROKEN = (ValueError, OSError, EOFError, NotImplementedError, RuntimeError, SyntaxError, tokenize.TokenError)
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, UnicodeError, KeyError, TypeError)


class StoredArraySource(Source):
    """Rows of an array in a file, known by its header."""

    def __init__(self, header: ArrayHeader):
        check_array(header.shape, header.dtype, f"{header.where}: ")
        self.header = header
        self.kind = array_kind(header.shape)
        self.n_rows = header.shape[0]

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        first = start
        for batch in self._read(batch_rows, start):
            yield first, ready(batch)
            first += len(batch)

    @property
    def paths(self) -> list[Path]:
        return [self.header.path]

    def identity(self) -> dict[str, object]:
        header = self.header
        array = [header.member, list(header.shape), header.dtype.str, header.offset, header.fortran]
        return {"array": array, **files_identity(self.paths)}

    def describe(self) -> str:
        return self.header.describe()

    @abstractmethod
    def _read(self, batch_rows: int, start: int) -> Iterator[np.ndarray]:
        """The rows from `start` on, as they are stored, in batches."""

    def _check_unchanged(self, stamp: tuple[int, int]) -> None:
        """Raise if the file, which now has this stamp, has another header than when it was opened."""
        header = self.header
        if header.stamp in (None, stamp):
            return
        found = npz_header(header.path, header.member)[0] if header.member else npy_header(header.path)
        if replace(found, stamp=header.stamp) != header:
            now = f"the file now holds {found.describe()}; it held {header.describe()} when it was opened"
            raise ValueError(f"{header.where}: {now}. Open it again.")


class FileArraySource(StoredArraySource):
    """Rows of an array that lies uncompressed in a file. The file is open while it is read, never in between."""

    random_access = True

    def _read(self, batch_rows: int, start: int) -> Iterator[np.ndarray]:
        with self._opened() as file:
            for first in range(start, self.n_rows, batch_rows):
                yield file.rows(first, min(first + batch_rows, self.n_rows))

    def take(self, indices: np.ndarray) -> Rows:
        indices = self._checked_indices(indices)
        with self._opened() as file:
            if (np.diff(indices) > 0).all():
                return ready(file.take(indices))
            wanted, inverse = np.unique(indices, return_inverse=True)
            return ready(file.take(wanted)[inverse])

    @contextmanager
    def _opened(self) -> Iterator[RowFile]:
        with RowFile(self.header) as file:
            self._check_unchanged(file.stamp)
            with reading_npz(self.header.where):
                yield file


class CompressedArraySource(StoredArraySource):
    """Rows of a compressed `.npz` member that is too large for memory, decompressed on every scan."""

    def _read(self, batch_rows: int, start: int) -> Iterator[np.ndarray]:
        header = self.header
        self._check_unchanged(file_stamp(header.path))
        with reading_npz(header.where), _open_member(header.path, header.member or "") as (stream, _):
            stream.seek(header.offset + start * header.row_bytes)
            for first in range(start, self.n_rows, batch_rows):
                n_bytes = min(batch_rows, self.n_rows - first) * header.row_bytes
                data = stream.read(n_bytes)
                if len(data) < n_bytes:
                    raise EOFError(f"the data end at row {first + len(data) // header.row_bytes:,}")
                yield np.frombuffer(bytearray(data), header.dtype).reshape(-1, *header.shape[1:])

    def describe(self) -> str:
        return super().describe() + ", compressed"


def open_npy(path: Path) -> Source:
    """The array of an `.npy` file, read in parts."""
    return FileArraySource(npy_header(path))


def open_npz(path: Path, array: str) -> Source:
    """One array of an `.npz` file: read in parts if stored, in memory if it fits, else streamed."""
    header, compressed = npz_header(path, array)
    if not compressed:
        return FileArraySource(header)
    check_array(header.shape, header.dtype, f"{header.where}: ")
    if header.nbytes <= available_memory() // 2:
        return ArraySource(_load(header), f"npz, array {array!r}", [path])
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
    header = npy_header(file) if file.suffix == ".npy" else npz_header(file, name)[0]
    if header.dtype.kind not in "US":
        check_dtype(header.dtype, f"{header.where}: ")
    _check_memory(header)
    return _load(header)


def npy_header(path: Path) -> ArrayHeader:
    """The checked header of a `.npy` file."""
    with reading_npz(str(path)), path.open("rb") as stream:
        header = _header(path, None, stream)
    _check_size(header, path.stat().st_size)
    return header


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in an `.npz` file."""
    with reading_npz(str(path)), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def npz_header(path: Path, name: str) -> tuple[ArrayHeader, bool]:
    """The checked header of an array in an `.npz` file, and whether it is compressed.

    For an uncompressed array the offset is the one in the file, so that it can be read in place.
    """
    with reading_npz(f"{path}, array {name!r}"), _open_member(path, name) as (stream, info):
        header = _header(path, name, stream)
    _check_size(header, info.file_size)
    if info.compress_type != zipfile.ZIP_STORED:
        return header, True
    start = _stored_at(path, info)
    _check_size(header, path.stat().st_size - start)
    return replace(header, offset=start + header.offset), False


def _header(path: Path, member: str | None, stream: IO[bytes]) -> ArrayHeader:
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"the .npy format version {version[0]}.{version[1]} is for structured arrays")
    shape, fortran, dtype = readers[version](stream)
    if any(length < 0 for length in shape):
        raise ValueError(f"the header declares the impossible shape {shape}")
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never unpickled. Save an array of numbers")
    return ArrayHeader(path, member, shape, dtype, fortran, stream.tell(), stamp=file_stamp(path))


def _check_size(header: ArrayHeader, available: int) -> None:
    follow = max(available - header.offset, 0)
    if header.nbytes > follow:
        raise ValueError(
            f"{header.where}: the header declares shape {header.shape} of {header.dtype}, {header.nbytes:,} bytes, "
            f"but only {follow:,} bytes follow. The file is truncated or damaged."
        )


def _check_memory(header: ArrayHeader) -> None:
    if header.nbytes > available_memory():
        raise MemoryError(
            f"{header.where}: {header.nbytes:,} bytes do not fit into the {available_memory():,} bytes of memory "
            "that are free. Save the array uncompressed (numpy.save or numpy.savez), which is read in parts."
        )


def _load(header: ArrayHeader) -> np.ndarray:
    """The whole array."""
    with reading_npz(header.where):
        if header.member is None:
            return np.load(header.path, allow_pickle=False)
        with _open_member(header.path, header.member) as (stream, _):
            return np.lib.format.read_array(stream, allow_pickle=False)


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
    lengths = np.fromfile(path, "<u2", count=2, offset=info.header_offset + 26)
    return info.header_offset + 30 + int(lengths.sum(dtype=np.int64))


@contextmanager
def reading_npz(where: str) -> Iterator[None]:
    """Turn whatever a broken file raises into an error that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (*_BROKEN, *_BROKEN_ZIP) as error:
        raise ValueError(f"{where}: {error or type(error).__name__}.") from error
