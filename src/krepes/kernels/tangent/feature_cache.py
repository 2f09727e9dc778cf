"""Features on disk: what was computed for a row is read back when the same row comes again, in whatever batch.

A row is known by a digest of its bytes, the folder by a digest of everything else that features depend on, so nothing
can be stale. Rows that are computed together form a block of two files, the features (read as a memory map) and the
rows' digests, which are written last: a run that was interrupted leaves whole blocks only. Beyond `max_bytes` the
blocks that were used longest ago are removed. The index takes about 150 bytes of memory per row.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from krepes.base.storage.files import atomic_path

logger = logging.getLogger("krepes")

KEY_BYTES = 16
KEYS = ".keys.npy"


class FeatureCache:
    """A folder of computed features.

    Parameters
    ----------
    folder : path
        Made if it does not exist; it can be shared by several networks and processes.
    fingerprint : str
        A hash of everything, besides the rows, that features depend on.
    max_bytes : int, default=20 GB
        The largest size of the whole folder.

    Examples
    --------
    Two of three rows are known:

    >>> import tempfile
    >>> def square(rows):
    ...     print(len(rows), "computed")
    ...     return rows**2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = FeatureCache(folder, "square")
    ...     known = cache(torch.tensor([[2.0], [3.0]]), square)
    ...     cache(torch.tensor([[3.0], [5.0], [2.0]]), square)
    2 computed
    1 computed
    tensor([[ 9.],
            [25.],
            [ 4.]])
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str, max_bytes: int = 20 * 10**9):
        self.root, self.max_bytes = Path(folder), max_bytes
        if self.root.exists() and not self.root.is_dir():
            raise NotADirectoryError(f"The cache {self.root} is a file; give the name of a folder.")
        self.folder = self.root / hashlib.sha256(fingerprint.encode()).hexdigest()[:32]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stored = sum(size for _, size, _ in self._blocks())
        self._places: dict[bytes, tuple[Path, int]] = {}
        for path in self.folder.glob(f"*{KEYS}"):
            self._index(path.with_name(path.name.removesuffix(KEYS)))

    def __call__(self, rows: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Features of all rows; `compute` is called for those that are not here, if there are any."""
        keys = _keys(rows)
        found = self._read(keys)
        missing = [position for position in range(len(keys)) if position not in found]
        if missing:
            computed = compute(rows[missing]).detach().cpu().numpy()
            self._write([keys[position] for position in missing], computed)
            found.update(zip(missing, computed))
        return torch.from_numpy(np.stack([found[i] for i in range(len(keys))])).to(rows.device)

    def _read(self, keys: list[bytes]) -> dict[int, np.ndarray]:
        """The features that are here, by position."""
        wanted: dict[Path, list[tuple[int, int]]] = {}
        for position, key in enumerate(keys):
            if key in self._places:
                block, row = self._places[key]
                wanted.setdefault(block, []).append((position, row))
        found: dict[int, np.ndarray] = {}
        for block, places in wanted.items():
            try:
                values = np.load(_features(block), mmap_mode="r", allow_pickle=False)
                taken = values[[row for _, row in places]]
                os.utime(_features(block))
            except (OSError, ValueError, EOFError, IndexError) as error:
                # that one was removed to make room
                if not isinstance(error, FileNotFoundError):
                    logger.warning("The cached block %s cannot be read (%s); computed again.", block, error)
                self._remove({block})
                continue
            found.update(zip((position for position, _ in places), taken))
        return found

    def _write(self, keys: list[bytes], features: np.ndarray) -> None:
        block = self.folder / hashlib.sha256(b"".join(keys)).hexdigest()[:32]
        packed = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES)
        for path, values in ((_features(block), features), (_key_file(block), packed)):
            with atomic_path(path, overwrite=True) as temporary, open(temporary, "wb") as file:
                np.save(file, values, allow_pickle=False)
            self.stored += path.stat().st_size
        self._places.update((key, (block, row)) for row, key in enumerate(keys))
        if self.stored > self.max_bytes:
            self._shrink(keep=block)

    def _index(self, block: Path) -> None:
        try:
            keys = np.load(_key_file(block), allow_pickle=False)
            packed = keys.reshape(-1, KEY_BYTES).astype(np.uint8, casting="no", copy=False)
        except (OSError, ValueError, EOFError, TypeError) as error:
            logger.warning("The cached block %s cannot be read (%s); it is removed.", block, error)
            return self._remove({block})
        self._places.update((key.tobytes(), (block, row)) for row, key in enumerate(packed))

    def _blocks(self) -> list[tuple[float, int, Path]]:
        """(last use, bytes, block) of every block of the whole folder."""
        found = []
        for path in self.root.glob(f"*/*{KEYS}"):
            block = path.with_name(path.name.removesuffix(KEYS))
            try:
                status = _features(block).stat()
                found.append((status.st_mtime, status.st_size + path.stat().st_size, block))
            except FileNotFoundError:  # removed by another process
                continue
        return found

    def _shrink(self, keep: Path) -> None:
        """Remove what was used longest ago until a tenth of the limit is free."""
        blocks = sorted(self._blocks(), key=lambda block: block[0])
        self.stored = sum(size for _, size, _ in blocks)
        gone = set()
        for _, size, block in blocks:
            if self.stored > 0.9 * self.max_bytes and block != keep:
                gone.add(block)
                self.stored -= size
        self._remove(gone)

    def _remove(self, blocks: set[Path]) -> None:
        # the digests first: features without them are not looked at
        for block in blocks:
            _key_file(block).unlink(missing_ok=True)
            _features(block).unlink(missing_ok=True)
        self._places = {key: place for key, place in self._places.items() if place[0] not in blocks}


def _features(block: Path) -> Path:
    return block.with_name(f"{block.name}.npy")


def _key_file(block: Path) -> Path:
    return block.with_name(f"{block.name}{KEYS}")


def _keys(rows: Tensor) -> list[bytes]:
    """A digest of every row, its shape and its type."""
    data = rows.detach().cpu().contiguous()
    start = hashlib.blake2b(f"{tuple(data.shape[1:])}:{data.dtype}".encode(), digest_size=KEY_BYTES)
    keys = []
    for row in data.reshape(len(data), -1).numpy().view(np.uint8):
        digest = start.copy()
        digest.update(row)
        keys.append(digest.digest())
    return keys
