"""Files that are either whole or not there: atomic writes, and no overwriting by accident."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_writable(path: str | os.PathLike, overwrite: bool = False, needed_bytes: int = 0) -> Path:
    """Refuse early what would fail late: an existing file, a missing folder, a full disk."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file to write.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{target} exists already; choose another name, or allow overwriting (overwrite=True, --force)."
        )
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"The folder {folder} does not exist; create it first.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {folder} cannot be written to.")
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise OSError(
            f"Writing {target} needs about {readable_bytes(needed_bytes)}, but only {readable_bytes(free)} are "
            f"free on that disk."
        )
    return target


@contextmanager
def atomic_path(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an exception.

    A process killed at any moment leaves the old file, or none, never half a file.
    """
    target = check_writable(path, overwrite)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        if overwrite:
            os.replace(temporary, target)
        else:
            _move_new(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _move_new(temporary: Path, target: Path) -> None:
    """Put a finished file in place unless somebody else made one there meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise FileExistsError(
            f"{target} was created by somebody else meanwhile; nothing was overwritten."
        ) from None
    except OSError:  # a file system without hard links
        os.replace(temporary, target)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def readable_bytes(size: float) -> str:
    """A size for people.

    >>> readable_bytes(1_500_000)
    '1.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1000
    return f"{size:.3g} TB"
