"""The engine contract: who runs a pass.

An engine knows readers and accumulators, and nothing of what they hold. Blocks, prefetching, halving where memory runs
out, progress and checkpoints live here once, for every estimator. An engine that runs elsewhere sends
`reader.parts(n)` and `accumulator.empty()` there (both can be pickled) and merges what comes back; it is one more file.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Block, Reader
from krepes.base.progress import Progress, Silent


class Engine(ABC):
    """Runs sums and maps over the blocks of a reader."""

    @abstractmethod
    def reduce(
        self,
        accumulator: Accumulator[S, R],
        reader: Reader,
        *,
        checkpoint: str | os.PathLike | None = None,
        progress: Progress | None = None,
        name: str = "Moments",
    ) -> R:
        """Add all rows to the accumulator and return its result.

        With `checkpoint`, a file of that name keeps the state of the pass; the same call continues from there. The file
        stays until the caller removes it (`remove_checkpoint`), when everything that depends on it is done.
        """

    @abstractmethod
    def map(
        self,
        function: Callable[[Block], torch.Tensor],
        reader: Reader,
        *,
        bytes_per_row: int = 0,
        batch_rows: int | None = None,
        progress: Progress | None = None,
        name: str = "Transform",
    ) -> Iterator[torch.Tensor]:
        """A function of every block, in the order of the rows; one result for every batch of rows."""

    @abstractmethod
    def stream(
        self, reader: Reader, batch_rows: int, *, progress: Progress | None = None, name: str = "Reading"
    ) -> Iterator[Block]:
        """All blocks in the order of the rows, read ahead: for what has to see them one after the other."""


def shown(progress: Progress | None) -> Progress:
    return Silent() if progress is None else progress
