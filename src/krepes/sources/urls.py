"""Files by URL, such as s3://bucket/folder: found and read through pyarrow's file systems.

Parquet files are read in place, row group after row group. Files of other formats are copied into a temporary folder,
which is removed when the process ends. A file:// URL is a path of this machine.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs


@dataclass(frozen=True)
class Located:
    """A file or folder of some file system."""

    url: str
    filesystem: fs.FileSystem
    path: Path
    is_folder: bool

    def files(self, suffixes: tuple[str, ...]) -> list[Path]:
        """The visible files with these suffixes, in the order of their paths within the file system."""
        found = [self.path]
        if self.is_folder:
            inside = self.filesystem.get_file_info(fs.FileSelector(str(self.path), recursive=True))
            found = sorted(Path(info.path) for info in inside if info.type == fs.FileType.File)
        return [path for path in found if path.name.lower().endswith(suffixes) and self._is_visible(path)]

    def _is_visible(self, path: Path) -> bool:
        return not any(part.startswith((".", "_")) for part in path.relative_to(self.path).parts)

    def copied(self) -> Path:
        """The file on this machine: itself, or a copy of it."""
        if isinstance(self.filesystem, fs.LocalFileSystem):
            return self.path
        if self.is_folder:
            raise ValueError(f"{self.url} has no Parquet files: copy the folder to this machine first.")
        folder = tempfile.mkdtemp(prefix="krepes_")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        copy = Path(folder, self.path.name)
        with self.filesystem.open_input_stream(self.path.as_posix()) as remote, copy.open("wb") as local:
            shutil.copyfileobj(remote, local, 1 << 20)
        return copy


def found_in(url: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL, and the path within it."""
    return fs.FileSystem.from_uri(url)


def located(url: str) -> Located:
    """What a URL points to, which must exist."""
    try:
        filesystem, path = found_in(url)
        kind = filesystem.get_file_info(path).type
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(
            f"{url} cannot be opened: {error}. Expected the URL of a file system that pyarrow knows: file://, s3://, "
            "gs://, abfs:// or hdfs://."
        ) from error
    if kind == fs.FileType.NotFound:
        raise FileNotFoundError(f"There is no file or folder {url}.")
    return Located(url, filesystem, Path(path), kind == fs.FileType.Directory)
