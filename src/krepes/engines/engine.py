"""The engine contract: who runs a pass.

An engine knows readers and accumulators, and nothing of what they hold. Blocks, prefetching, halving where memory runs
out, progress and checkpoints live here once, for every estimator. An engine that runs elsewhere sends
`reader.parts(n)` and `accumulator.empty()` there (both can be pickled) and merges what comes back; it is one more file.
"""

from __future__ import annotations

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Block, Reader, rows_within
from krepes.base.reporting import Progress, Silent, Stage

logger = logging.getLogger("krepes")

MEMORY_BUDGET = 512 * 2**20  # bytes that one block may take
SMALLEST_BLOCK, LARGEST_BLOCK = 16, 2048  # rows
BLOCKS_PER_BATCH = 4  # a batch is what is read at once

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class PassLayout:
    """Where a pass runs.

    Attributes
    ----------
    n_workers, n_threads : int
        Processes, and threads of each.
    n_parts : int
        Into how many parts the rows are divided.
    memory : int or None
        Bytes that a worker may take, where that is known.
    """

    n_workers: int
    n_threads: int
    n_parts: int
    memory: int | None


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

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """A function of every item, in their order; here, one after the other, unless an engine does it elsewhere.

        Function and items can be pickled.
        """
        yield from map(function, items)

    def layout(self, n_rows: int) -> PassLayout:
        """How a pass over n_rows rows is divided."""
        return PassLayout(1, torch.get_num_threads(), 1, None)


def block_rows(bytes_per_row: int, budget: int = MEMORY_BUDGET) -> int:
    """Rows per block within a memory budget: a power of two, up to where matrix products have their full rate.

    >>> block_rows(30_000), block_rows(1_000_000), block_rows(10**9)
    (2048, 512, 16)
    """
    rows = rows_within(budget, bytes_per_row, SMALLEST_BLOCK, LARGEST_BLOCK)
    return 2 ** (rows.bit_length() - 1)


class PassLog:
    """Shows how far a pass is, and counts its rows for the log."""

    def __init__(self, stage: Stage):
        self.stage, self.rows = stage, 0

    def advance(self, rows: int) -> None:
        self.rows += rows
        self.stage.advance(rows)


@contextmanager
def logged_pass(
    name: str, n_rows: int, n_parts: int, engine: Engine, progress: Progress | None
) -> Iterator[PassLog]:
    """Show a pass, and log lines of key=value pairs when it starts and when it ends, with its rate."""
    told = f'pass="{name}" engine={type(engine).__name__} rows={n_rows} parts={n_parts}'
    logger.info("event=start %s", told)
    start, ended = time.perf_counter(), "failed"
    with shown(progress).stage(name, n_rows) as stage:
        log = PassLog(stage)
        try:
            yield log
            ended = "end"
        finally:
            seconds = time.perf_counter() - start
            rate = log.rows / max(seconds, 1e-9)
            done = f"done={log.rows} seconds={seconds:.3f} rows_per_second={rate:.0f}"
            logger.info("event=%s %s %s", ended, told, done)


def shown(progress: Progress | None) -> Progress:
    return Silent() if progress is None else progress
