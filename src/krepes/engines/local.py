"""The engine that runs in this process: blocks of rows, one after the other.

The next batch is read while the present one is computed. A block that does not fit into memory is halved
and tried again. Blocks start at fixed multiples of the block size, whatever the batches of the source are.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from krepes.engines.checkpoint import Checkpoint
from krepes.engines.moment_pass import MomentPass
from krepes.linalg import row_blocks, rows_within
from krepes.progress import Progress, Silent

logger = logging.getLogger("krepes")

MEMORY_BUDGET = 512 * 2**20  # bytes that one block may take
SMALLEST_BLOCK = 16


def block_rows(
    n_landmarks: int, rank: int, n_views: int, n_features: int, budget: int = MEMORY_BUDGET
) -> int:
    """Rows per block: kernel values, features of every view and the views themselves within the budget.

    A power of two up to 2048, where matrix products have reached their full rate already.
    """
    bytes_per_row = 4 * (2 * n_landmarks + (n_views + 1) * rank + 2 * n_views * n_features)
    rows = rows_within(budget, bytes_per_row, SMALLEST_BLOCK, 2048)
    return 2 ** (rows.bit_length() - 1)


def run(
    moment_pass: MomentPass,
    batches: Iterable[tuple[int, tuple[Any, ...]]],
    total: int | None = None,
    progress: Progress | None = None,
    size: int = 2048,
    checkpoint: Checkpoint | None = None,
    first_row: int = 0,
) -> None:
    """Feed batches (first global row, (X[, positives[, negatives]])) to a moment pass; rows start at `first_row`.

    Sums are moved to float64 at the end of every batch, so that a pass resumed there has the same bits.
    """
    with (progress or Silent()).stage("Moments", total) as stage, prefetched(batches) as ahead:
        for first, inputs in ahead:
            for block in row_blocks(len(inputs[0]), size):
                rows = torch.arange(first + block.start, first + block.stop)
                add_halving(moment_pass, tuple(None if x is None else x[block] for x in inputs), rows)
                stage.advance(len(rows))
            moment_pass.flush()
            if checkpoint is not None:
                next_row = first - first_row + len(inputs[0])
                checkpoint.offer(partial(_pass_state, moment_pass, next_row), f"row {next_row:,}")


def _pass_state(moment_pass: MomentPass, next_row: int) -> dict[str, Any]:
    return {"next_row": next_row, "sums": moment_pass.state()}


def add_halving(moment_pass: MomentPass, inputs: tuple[Any, ...], rows: torch.Tensor) -> None:
    """Add a block; where memory runs out, add its two halves instead."""
    try:
        moment_pass.add(inputs[0], rows, *inputs[1:])
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or len(rows) <= SMALLEST_BLOCK:
            raise
        logger.warning("Out of memory with %d rows at once; trying half of them.", len(rows))
        half = len(rows) // 2
        for part in (slice(None, half), slice(half, None)):
            add_halving(moment_pass, tuple(None if x is None else x[part] for x in inputs), rows[part])


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out; torch has several ways of saying so."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return "out of memory" in text or "can't allocate memory" in text or "not enough memory" in text


class prefetched:  # noqa: N801  (reads as a function)
    """Iterate while a thread prepares the next item; leaving the block ends the thread.

    >>> with prefetched(iter([1, 2, 3])) as items:
    ...     list(items)
    [1, 2, 3]
    """

    def __init__(self, items: Iterable[Any], depth: int = 1):
        self.items = items
        self.ready: queue.Queue = queue.Queue(maxsize=depth)
        self.stopped = threading.Event()

    def __enter__(self) -> Iterator[Any]:
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()
        return self._results()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        while self.thread.is_alive():
            self._drain()
            self.thread.join(timeout=0.05)

    def _work(self) -> None:
        try:
            for item in self.items:
                self._put((item, None))
                if self.stopped.is_set():
                    return
            self._put((None, StopIteration()))
        except BaseException as error:  # handed to the consumer, who raises it
            self._put((None, error))

    def _put(self, pair: tuple[Any, BaseException | None]) -> None:
        while not self.stopped.is_set():
            try:
                return self.ready.put(pair, timeout=0.1)
            except queue.Full:
                continue

    def _results(self) -> Iterator[Any]:
        while True:
            item, error = self.ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item

    def _drain(self) -> None:
        while not self.ready.empty():
            self.ready.get_nowait()


def map_blocks(
    function: Callable[[Any], torch.Tensor],
    batches: Iterable[tuple[int, Any]],
    size: int,
    total: int | None = None,
    progress: Progress | None = None,
    name: str = "Transform",
) -> Iterator[torch.Tensor]:
    """Apply a function to blocks of rows; one result per batch."""
    with (progress or Silent()).stage(name, total) as stage, prefetched(batches) as ahead:
        for _, X in ahead:
            parts = [function(X[block]) for block in row_blocks(len(X), size)]
            stage.advance(len(X))
            yield torch.cat(parts) if len(parts) > 1 else parts[0]
