"""Files by URL, such as s3://bucket/folder: found and read through pyarrow's file systems.

Parquet files are read in place, row group after row group. Files of other formats are copied into a temporary folder,
which is removed when the process ends. A file:// URL is a path of this machine.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyarrow import fs

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True)
class Located:
    """A file or folder of some file system."""

    url: str
    filesystem: fs.FileSystem
    path: str
    is_folder: bool

    @property
    def root(self) -> Path | None:
        """The folder, where it is one."""
        return Path(self.path) if self.is_folder else None

    def files(self, suffixes: tuple[str, ...]) -> list[Path]:
        """The visible files with these suffixes, in the order of their paths; their paths within the file system."""
        if not self.is_folder:
            return [Path(self.path)] if self.path.lower().endswith(suffixes) else []
        found = self.filesystem.get_file_info(fs.FileSelector(self.path, recursive=True))
        paths = sorted(info.path for info in found if info.type == fs.FileType.File)
        return [Path(p) for p in paths if p.lower().endswith(suffixes) and self._visible(p)]

    def _visible(self, path: str) -> bool:
        parts = PurePosixPath(path).relative_to(self.path).parts
        return not any(part.startswith((".", "_")) for part in parts)

    def copied(self) -> Path:
        """The file on this machine: itself, or a copy of it."""
        if isinstance(self.filesystem, fs.LocalFileSystem):
            return Path(self.path)
        if self.is_folder:
            raise ValueError(f"{self.url} has no Parquet files: copy the folder to this machine first.")
        folder = tempfile.mkdtemp(prefix="krepes_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        copy = Path(folder, PurePosixPath(self.path).name)
        with self.filesystem.open_input_stream(self.path) as remote, copy.open("wb") as local:
            shutil.copyfileobj(remote, local, 1 << 20)
        return copy


def is_url(data: str | os.PathLike) -> bool:
    """Whether a path is a URL; a letter before :// would be a drive.

    >>> is_url("s3://bucket/rows.parquet"), is_url("rows.parquet")
    (True, False)
    """
    return isinstance(data, str) and _URL.match(data) is not None


def found_in(url: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL, and the path within it."""
    return fs.FileSystem.from_uri(url)


def located(url: str) -> Located:
    """What a URL points to, which must exist."""
    try:
        filesystem, path = found_in(url)
        info = filesystem.get_file_info(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(
            f"{url} cannot be opened: {error}. Expected the URL of a file system that pyarrow knows: file://, s3://, "
            "gs://, abfs:// or hdfs://."
        ) from error
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"There is no file or folder {url}.")
    return Located(url, filesystem, path, info.type == fs.FileType.Directory)
