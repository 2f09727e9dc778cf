"""How a checkpoint knows whether a file changed, without reading all of it.

    path, size, modification time in ns, and a hash of evenly spaced chunks, the first and the last among them

A file that was written to, touched or replaced has another stamp. Not noticed is only a change of equal length between
the chunks of a file whose modification time was set back. Cost: one `stat` and at most 64 chunks of 4 KB per file, at
most 4096 chunks (16 MB) for all files together.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

CHUNK_BYTES = 4096
CHUNKS_PER_FILE = 64
CHUNKS = 4096  # of all files; where there are more files, evenly spaced ones are sampled
LISTED = 256  # files; more are one hash


def gone(path: Path) -> FileNotFoundError:
    """The error for a file that was there when a source was opened."""
    return FileNotFoundError(
        f"{path}: there is no such file any more; it was there when it was opened. Put it back, or open the data "
        "from where they are now."
    )


@contextmanager
def reading(what: str, path: Path, remedy: str = "") -> Iterator[None]:
    """Turn whatever a broken file raises into an error that says what it is of; memory that is full stays that."""
    try:
        yield
    except MemoryError:
        raise
    except FileNotFoundError as error:
        raise gone(path) from error
    except Exception as error:  # zip, XML, codecs and image formats each raise their own
        raise ValueError(f"{what} cannot be read: {type(error).__name__}: {error}.{remedy}") from error


def file_stamp(path: Path) -> tuple[int, int]:
    """The size in bytes and the modification time in ns of a file that should be there."""
    try:
        return stamp_of(path.stat())
    except FileNotFoundError as error:
        raise gone(path) from error


def file_stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """Size, modification time and number of each file; of all files in a folder."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in paths:
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in inside:
            try:
                status = file.stat()
            except FileNotFoundError as error:
                raise gone(file) from error
            found[file] = (*stamp_of(status), status.st_ino)
    return found


def stamp_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def files_identity(paths: Sequence[Path]) -> dict[str, object]:
    """The stamps of some files as JSON values: one by one, or as a single hash where there are many."""
    if len(paths) <= LISTED:
        return {"files": list(_stamps(paths))}
    found = hashlib.sha256()
    for stamp in _stamps(paths):
        found.update(json.dumps(stamp).encode() + b"\n")
    return {"number of files": len(paths), "files": found.hexdigest()[:32]}


def _stamps(paths: Sequence[Path]) -> Iterator[list[str | int]]:
    """[path, size, modification time, hash of the sampled chunks] of each file."""
    n_chunks = min(CHUNKS_PER_FILE, max(1, CHUNKS // len(paths)))
    sampled = set(np.linspace(0, len(paths) - 1, min(len(paths), CHUNKS)).astype(int).tolist())
    for i, path in enumerate(paths):
        size, modified = file_stamp(path)
        chunks = _chunks_hash(path, size, n_chunks) if i in sampled else ""
        yield [os.path.abspath(path), size, modified, chunks]


def _chunks_hash(path: Path, size: int, n_chunks: int) -> str:
    found = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        if size <= n_chunks * CHUNK_BYTES:
            found.update(file.read())
        else:
            for place in np.linspace(0, size - CHUNK_BYTES, n_chunks).astype(np.int64).tolist():
                file.seek(place)
                found.update(file.read(CHUNK_BYTES))
    return found.hexdigest()[:32]
