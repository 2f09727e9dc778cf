"""The engine that runs in this process: blocks of rows, one after the other.

The next batch is read and encoded while the present one is computed. A block that does not fit into memory is halved
and tried again. Blocks start at fixed multiples of the block size, whatever the batches of the source are.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, TypeVar, cast

import torch

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Block, Reader
from krepes.base.checkpoint import Checkpoint
from krepes.base.codec import State
from krepes.base.packing import digest
from krepes.base.reporting import Progress
from krepes.engines.engine import BLOCKS_PER_BATCH, SMALLEST_BLOCK, Engine, block_rows, logged_pass, shown

logger = logging.getLogger("krepes")

Item = TypeVar("Item")


class Local(Engine):
    """Runs everything in this process.

    Parameters
    ----------
    rows_per_block : int, default=None
        Rows computed at once; None is as many as `block_rows` has room for.
    """

    def __init__(self, rows_per_block: int | None = None):
        self.rows_per_block = rows_per_block

    def _size(self, bytes_per_row: int) -> int:
        return self.rows_per_block or block_rows(bytes_per_row)

    def reduce(
        self,
        accumulator: Accumulator[S, R],
        reader: Reader,
        *,
        checkpoint: str | os.PathLike | None = None,
        progress: Progress | None = None,
        name: str = "Moments",
    ) -> R:
        """See `Engine.reduce`.

        Sums are brought into their final precision at the end of every batch, so that a pass resumed there has the
        same bits.
        """
        size, start = self._size(accumulator.bytes_per_row), 0
        saved = (
            None if checkpoint is None else Checkpoint(checkpoint, pass_identity(accumulator, reader, size))
        )
        state = None if saved is None else saved.restored()
        if state is not None:
            accumulator.restore(state["sums"])
            start = state["next"]
        with logged_pass(name, reader.n_rows - start, 1, self, progress) as log:
            for n, batch_ends in add_batches(accumulator, reader, size, start):
                log.advance(n)
                start += n
                if batch_ends and saved is not None:
                    saved.offer(partial(pass_state, accumulator, start), f"row {start:,}")
        return accumulator.result()

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
        size = self._size(bytes_per_row)
        batch_rows = BLOCKS_PER_BATCH * size if batch_rows is None else batch_rows
        for batch in self.stream(reader, batch_rows, progress=progress, name=name):
            parts = [function(block) for block in batch.blocks(size)]
            yield torch.cat(parts) if len(parts) > 1 else parts[0]

    def stream(
        self, reader: Reader, batch_rows: int, *, progress: Progress | None = None, name: str = "Reading"
    ) -> Iterator[Block]:
        batches = reader.read(batch_rows)
        with shown(progress).stage(name, reader.n_rows) as stage, prefetched(batches) as ahead:
            for batch in ahead:
                yield batch
                stage.advance(len(batch))


def add_batches(
    accumulator: Accumulator[S, R], reader: Reader, size: int, start: int = 0
) -> Iterator[tuple[int, bool]]:
    """Add all rows from `start` on; after each block, how many rows it had, and whether it ended a batch."""
    n_blocks = BLOCKS_PER_BATCH
    if accumulator.rows_at_once is not None:
        size, n_blocks = accumulator.rows_at_once, 1
    with prefetched(reader.read(n_blocks * size, start)) as ahead:
        for batch in ahead:
            added = 0
            for block in batch.blocks(size * min(accumulator.n_parts, n_blocks)):
                add_halving(accumulator, block)
                added += len(block)
                ends = added == len(batch)
                if ends:
                    accumulator.flush()
                yield len(block), ends


def pass_identity(accumulator: Accumulator[S, R], reader: Reader, size: int) -> dict[str, str]:
    """Hashes, by name, of everything that a pass depends on."""
    return reader.identity() | {"rows per block": digest(size)} | accumulator.fingerprint()


def pass_state(accumulator: Accumulator[S, R], next_place: int) -> State:
    """What a checkpoint keeps: the sums, and the row or part that comes next."""
    return {"next": next_place, "sums": accumulator.state()}


def add_halving(accumulator: Accumulator[S, R], block: Block) -> None:
    """Add a block; where memory runs out, add its two halves instead."""
    try:
        accumulator.add(block)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or len(block) <= SMALLEST_BLOCK:
            raise
        logger.warning("Out of memory with %d rows at once; trying half of them.", len(block))
        half = len(block) // 2
        for part in (block[:half], block[half:]):
            add_halving(accumulator, part)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out; torch has several ways of saying so."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return "out of memory" in text or "can't allocate memory" in text or "not enough memory" in text


class prefetched(Generic[Item]):  # noqa: N801  (reads as a function)
    """Iterate while a thread prepares the next item; leaving the block ends the thread.

    >>> with prefetched(iter([1, 2, 3])) as items:
    ...     list(items)
    [1, 2, 3]
    """

    def __init__(self, items: Iterable[Item]):
        self.items = items
        self.ready: queue.Queue[tuple[Item | None, BaseException | None]] = queue.Queue(maxsize=1)
        self.stopped = threading.Event()

    def __enter__(self) -> Iterator[Item]:
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()
        return self._results()

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        while self.thread.is_alive():
            while not self.ready.empty():
                self.ready.get_nowait()
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

    def _put(self, pair: tuple[Item | None, BaseException | None]) -> None:
        while not self.stopped.is_set():
            try:
                return self.ready.put(pair, timeout=0.1)
            except queue.Full:
                continue

    def _results(self) -> Iterator[Item]:
        while True:
            item, error = self.ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield cast(Item, item)  # there is one where there is no error
