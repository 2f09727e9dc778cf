"""Large tensors in temporary files: the rows of a large table need not fit into memory.

A tensor of more than KREPES_MEMORY_ROWS bytes (default 512 MB) is a view of a file without a name, which vanishes with
it, also when the process is killed. Its room on disk is taken when it is made, so that a full disk is an error then and
not a crash later. `release` gives the pages of all such tensors back to the system, which keeps what it has memory for.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from krepes.base.storage.files import readable_bytes

VARIABLE, DEFAULT = "KREPES_MEMORY_ROWS", 512 * 2**20
_live: WeakSet[Mapping] = WeakSet()


class Mapping:
    """The memory of one file, as an array that numpy can look at."""

    def __init__(self, size: int):
        with tempfile.TemporaryFile() as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"{readable_bytes(size)} of rows do not fit into {tempfile.gettempdir()} ({error.strerror}): name "
                    "a folder with more room, TMPDIR=/data/tmp.",
                ) from error
            self.memory = mmap.mmap(file.fileno(), size)
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
            "data": (np.frombuffer(self.memory, np.uint8).ctypes.data, False),
        }
        _live.add(self)


def most_in_memory() -> int:
    """Bytes up to which a tensor stays in memory."""
    text = os.environ.get(VARIABLE, str(DEFAULT))
    if not text.isdecimal():
        raise ValueError(f"{VARIABLE}={text!r}: expected a number of bytes.")
    return int(text)


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor whose numbers are yet to be written; in a file if it is large.

    >>> empty((2, 3), torch.float32).shape
    torch.Size([2, 3])
    """
    size = math.prod(shape) * dtype.itemsize
    if size <= most_in_memory():
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(np.asarray(Mapping(size))).view(dtype).reshape(shape)


def concatenated(parts: list[Tensor]) -> Tensor:
    """Tensors one after the other."""
    found, start = empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype), 0
    for part in parts:
        found[start : start + len(part)] = part
        start += len(part)
        release()
    return found


def release() -> None:
    """Give the pages of tensors in files back; reading them again reads the file."""
    for mapping in list(_live):
        mapping.memory.madvise(mmap.MADV_DONTNEED)
