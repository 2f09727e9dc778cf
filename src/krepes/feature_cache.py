"""Features on disk: what was computed for a block of rows is read back when the same block comes again.

A block is known by the SHA-256 of its bytes and of everything that its features depend on, so nothing can be stale.
Every block is a .npy file of its own, written atomically and read as a memory map: a run that was interrupted leaves
whole files only. Beyond `max_bytes` the files that were used longest ago are removed.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from krepes.files import atomic_path

logger = logging.getLogger("krepes")


class FeatureCache:
    """A folder of computed blocks.

    Parameters
    ----------
    folder : path
        Made if it does not exist.
    fingerprint : str
        Of everything besides the rows that features depend on.
    max_bytes : int, default=20 GB

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache, rows = FeatureCache(folder, "square"), torch.tensor([[2.0]])
    ...     before = cache.get(rows)
    ...     cache.put(rows, rows**2)
    ...     print(before, cache.get(rows))
    None tensor([[4.]])
    """

    def __init__(self, folder: str | os.PathLike, fingerprint: str, max_bytes: int = 20 * 10**9):
        self.folder, self.fingerprint, self.max_bytes = Path(folder), fingerprint, max_bytes
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"The cache {self.folder} is a file; give the name of a folder.")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stored = sum(size for _, size, _ in self._files())

    def get(self, rows: Tensor) -> Tensor | None:
        """The features of these rows, if they were kept."""
        path = self._path(rows)
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            values = torch.from_numpy(np.array(array))
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            logger.warning("The cached block %s cannot be read (%s); it is computed again.", path, error)
            path.unlink(missing_ok=True)
            return None
        return values.to(rows.device)

    def put(self, rows: Tensor, features: Tensor) -> None:
        """Keep the features of these rows."""
        path = self._path(rows)
        path.parent.mkdir(exist_ok=True)
        with atomic_path(path, overwrite=True) as temporary, open(temporary, "wb") as file:
            np.save(file, features.detach().cpu().numpy(), allow_pickle=False)
        self.stored += path.stat().st_size
        if self.stored > self.max_bytes:
            self._shrink(keep=path)

    def _path(self, rows: Tensor) -> Path:
        data = rows.detach().cpu().contiguous()
        key = hashlib.sha256(f"{self.fingerprint}:{tuple(data.shape)}:{data.dtype}".encode())
        key.update(data.numpy().tobytes())
        name = key.hexdigest()
        return self.folder / name[:2] / f"{name[2:]}.npy"

    def _files(self) -> list[tuple[float, int, Path]]:
        """(last use, bytes, path) of every block."""
        found = []
        for path in self.folder.glob("??/*.npy"):
            try:
                status = path.stat()
            except FileNotFoundError:  # removed by another process
                continue
            found.append((status.st_mtime, status.st_size, path))
        return found

    def _shrink(self, keep: Path) -> None:
        """Remove what was used longest ago until a tenth of the limit is free."""
        files = sorted(self._files(), key=lambda file: file[0])
        self.stored = sum(size for _, size, _ in files)
        for _, size, path in files:
            if self.stored <= 0.9 * self.max_bytes:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                self.stored -= size
