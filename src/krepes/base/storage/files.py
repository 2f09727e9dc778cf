"""Files that are either whole or not there: atomic writes, nothing overwritten by accident, nothing left behind.

A file is written into a temporary folder beside its place, where a library may have its own temporary files, and
moved there when it is whole. An existing file keeps its mode, a link is followed, and what is not a regular file is
refused. Files that hold rows of a user's data (`private`)
are for their owner only, unless the folder has its own default access list.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import socket
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUFFIX = ".part"
FULL = (errno.ENOSPC, errno.EDQUOT)  # of a disk, or of what a user may take of it
NAME_CHARACTERS = 100  # of a file's name that its temporary name repeats
DEFAULT_ACCESS = "system.posix_acl_default"  # the extended attribute of a folder with a default access list


def check_writable(path: str | os.PathLike[str], overwrite: bool = False, needed_bytes: int = 0) -> Path:
    """Refuse early what would fail late: an existing file, a device, a missing folder, a full disk.

    Returns the file that will be written, links followed.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file to write.")
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is a device or a pipe, not a file; give the name of a file to write.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"{path} exists already; choose another name, or allow overwriting (overwrite=True)."
        )
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"The folder {folder} does not exist; create it first.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {folder} cannot be written to.")
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise OSError(
            f"Writing {path} needs about {readable_bytes(needed_bytes)}, but only {readable_bytes(free)} are "
            f"free on that disk."
        )
    return target


def same_file(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Whether two names lead to one file, or would if it existed."""
    a, b = Path(os.path.realpath(first)), Path(os.path.realpath(second))
    return a == b or (a.exists() and b.exists() and a.samefile(b))


@contextmanager
def atomic_path(
    path: str | os.PathLike[str], overwrite: bool = False, private: bool = False
) -> Iterator[Path]:
    """A temporary path near `path` that takes its place when the block ends without an exception.

    A process killed at any moment leaves the old file, or none, never half a file; the temporary folder that it leaves
    is removed by the next write to the same place. With `private`, a new file is for its owner only.
    """
    target = check_writable(path, overwrite)
    remove_abandoned(target)
    folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target), suffix=SUFFIX))
    temporary = folder / target.name
    try:
        with full_disk_named(target, "nothing was written"):
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.chmod(temporary, _mode(target, private))
            if overwrite:
                os.replace(temporary, target)
            else:
                _move_new(temporary, target)
            _sync_folder(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def full_disk_named(path: str | os.PathLike[str], what_is_left: str) -> Iterator[None]:
    """Where the disk is full, an error that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        text = f"The disk of {path} is full: {what_is_left}. Free some space, or choose another place."
        raise OSError(error.errno, text) from error


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder outlast a loss of power, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def remove_abandoned(target: Path) -> None:
    """Remove temporary folders for this place whose process, on this machine, is gone."""
    start = _prefix(target, "")
    for path in target.parent.glob(f"{glob.escape(start)}*{SUFFIX}"):
        process = path.name[len(start) :].partition("-")[0]
        if process.isdigit() and not _runs(int(process)):
            shutil.rmtree(path, ignore_errors=True)


def _prefix(target: Path, process: str | None = None) -> str:
    """How a temporary name begins: the file's name, the machine, the process."""
    machine = f"{zlib.crc32(f'{socket.gethostname()} {_process_space()}'.encode()):08x}"
    process = f"{os.getpid()}-" if process is None else process
    return f".{target.name[:NAME_CHARACTERS]}.{machine}.{process}"


def _process_space() -> str:
    """What tells process numbers of this container from another's with the same host name, where the system says it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # somebody else's
        return True
    return True


def _mode(target: Path, private: bool) -> int:
    """The mode of the file that is replaced; for a new file, what the umask allows, or owner only if private."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    if private and not _has_default_access(target.parent):
        return 0o600
    return 0o666 & ~_umask()


def _has_default_access(folder: Path) -> bool:
    try:
        return bool(os.getxattr(folder, DEFAULT_ACCESS))
    except (OSError, AttributeError):  # none, or a system without them
        return False


def _move_new(temporary: Path, target: Path) -> None:
    """Put a finished file in place, unless another program has made one there in the meantime."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise FileExistsError(
            f"{target} was created by another program in the meantime; nothing was overwritten."
        ) from None
    except OSError:  # a file system without hard links
        os.replace(temporary, target)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def readable_bytes(size: float) -> str:
    """A number of bytes as text.

    >>> readable_bytes(1_500_000)
    '1.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1000
    return f"{size:.3g} TB"
