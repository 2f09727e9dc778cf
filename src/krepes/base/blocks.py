"""Blocks: rows that are computed at once, with what is known of them, and readers, which yield them.

    Source -> Reader -> Block -> Accumulator -> value

A block knows the global index of each of its rows. Random draws are keyed by it, so that the size of blocks, the
number of workers and interruptions never change a result. Where blocks are computed, and how large they may be, is
decided by `Placement`, `available_memory` and `rows_within`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import Rows, slice_rows, take_rows


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of the data.

    Attributes
    ----------
    rows : Tensor of shape (b,), int64
        Their global indices.
    inputs : tuple of Rows, each b long
        X; X and positives; or X, positives and negatives.
    y : ndarray of shape (b, ...), optional
        Targets, as the user gave them: numbers or labels.
    weight : ndarray of shape (b,), float64, optional
        None where every row counts once.
    group : ndarray of shape (b,), optional
        What a `Split` may divide by.

    Examples
    --------
    >>> import torch
    >>> block = Block(torch.arange(10, 13), (torch.tensor([[1.0], [2.0], [3.0]]),), y=np.array(["a", "b", "a"]))
    >>> block[1:].rows.tolist(), block.take(np.array([0, 2])).y.tolist()
    ([11, 12], ['a', 'a'])
    """

    rows: Tensor
    inputs: tuple[Rows, ...]
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> Block:
        start, stop, _ = part.indices(len(self))
        return self._at(part, tuple(slice_rows(x, start, stop) for x in self.inputs))

    def take(self, indices: np.ndarray) -> Block:
        """The rows at these positions, in that order."""
        return self._at(indices, tuple(take_rows(x, indices) for x in self.inputs))

    def _at(self, part: slice | np.ndarray, inputs: tuple[Rows, ...]) -> Block:
        beside = (None if a is None else a[part] for a in (self.y, self.weight, self.group))
        return Block(self.rows[part], inputs, *beside)

    def blocks(self, size: int) -> Iterator[Block]:
        """This block in blocks of at most `size` rows."""
        if len(self) <= size:
            yield self
            return
        for part in row_blocks(len(self), size):
            yield self[part]


class Reader(ABC):
    """A range of rows that can be read as blocks, again and again, always the same.

    A reader can be pickled and divided, so that an engine may send its parts to other processes.

    Attributes
    ----------
    n_rows : int
    """

    n_rows: int

    @abstractmethod
    def read(self, batch_rows: int, start: int = 0) -> Iterator[Block]:
        """Blocks of `batch_rows` rows (the last may be shorter) from the row `start` of the range to its end."""

    @abstractmethod
    def parts(self, n: int) -> Sequence[Reader]:
        """At most n readers of consecutive ranges that together cover this one."""

    def portable(self) -> Reader:
        """The same rows with no more than is needed to read them: for another process."""
        return self

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Hashes, by name, of what tells these rows from others: a checkpoint is for one reader."""


class IndexedReader(Reader):
    """A reader that can also take rows by their position."""

    @abstractmethod
    def take(self, indices: np.ndarray) -> Block:
        """The rows at these positions of the range, in that order."""


def part_edges(
    start: int, stop: int, n_parts: int, chunk_rows: int = 1, seams: Sequence[int] | None = None
) -> list[int]:
    """Where the rows start to stop are cut into at most n_parts parts of nearly equal size.

    Parts begin at multiples of `chunk_rows`, and at `seams` where these are given: row indices between which rows are
    made together.

    >>> part_edges(0, 10, 3), part_edges(5, 7, 5), part_edges(0, 10, 3, chunk_rows=4)
    ([0, 3, 6, 10], [5, 6, 7], [0, 4, 8, 10])
    >>> part_edges(0, 10, 3, seams=[0, 1, 2, 9, 9, 10])
    [0, 2, 9, 10]
    """
    n_chunks = -(-(stop - start) // chunk_rows)
    n = max(1, min(n_parts, n_chunks))
    edges = np.minimum(stop, start + chunk_rows * (n_chunks * np.arange(n + 1) // n))
    if seams is None:
        return edges.tolist()
    known = np.unique([start, *(row for row in seams if start < row < stop), stop])
    place = np.searchsorted(known, edges)
    before, after = known[np.maximum(place - 1, 0)], known[np.minimum(place, len(known) - 1)]
    nearest = np.where(edges - before < after - edges, before, after)
    return np.unique([start, *nearest.tolist(), stop]).tolist()


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


DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Placement:
    """Where and in which dtype features are computed: an estimator's `dtype` and `device`, resolved once.

    >>> Placement.of("float64", "cpu")
    Placement(dtype=torch.float64, device=device(type='cpu'))
    """

    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, dtype: object, device: str = "auto") -> Placement:
        """Resolve the names that an estimator takes; "auto" is a GPU, if the machine has one."""
        name = dtype_name(dtype)
        if name not in DTYPES:
            raise ValueError(f"dtype={name!r}: expected 'float32' or 'float64'.")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            chosen = torch.device(device)
            torch.empty(0, device=chosen)
        except (RuntimeError, AssertionError, TypeError) as error:
            raise ValueError(
                f"device={device!r} cannot be used here. This machine and this build of torch have: "
                f"{', '.join(devices())}."
            ) from error
        return cls(DTYPES[name], chosen)


def dtype_name(dtype: object) -> str:
    """The name of a dtype of numpy or torch, or of a name.

    >>> dtype_name("float32"), dtype_name(torch.float32), dtype_name(float)
    ('float32', 'float32', 'float')
    """
    return getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")


def devices() -> list[str]:
    """The devices that torch can compute on here."""
    found = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return [*found, "mps"] if torch.backends.mps.is_available() else found


def row_blocks(n_rows: int, block_rows: int) -> Iterator[slice]:
    """Slices that cover n_rows rows in blocks."""
    for start in range(0, n_rows, block_rows):
        yield slice(start, min(start + block_rows, n_rows))


def rows_within(budget_bytes: float, bytes_per_row: float, smallest: int = 64, largest: int = 4096) -> int:
    """How many rows fit into a memory budget, within limits that keep matrix products efficient."""
    return int(min(largest, max(smallest, budget_bytes // max(bytes_per_row, 1))))
