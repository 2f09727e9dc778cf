"""Engines: who runs a pass.

An engine knows readers and accumulators, and nothing of what they hold. Blocks, prefetching, halving where memory runs
out, progress and checkpoints live here once, for every estimator. The next batch is read and encoded while the present
one is computed. Blocks start at fixed multiples of the block size, whatever the batches of the source are. An engine
that runs elsewhere sends `reader.parts(n)` and `accumulator.empty()` there (both can be pickled) and merges what comes
back; it is one more file.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

import torch

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Block, Reader, rows_within
from krepes.base.components import subclasses
from krepes.base.reporting import Progress, Silent
from krepes.base.storage.checkpoint import Checkpoint
from krepes.base.storage.codec import State
from krepes.base.storage.packing import digest
from krepes.sources import Source

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


class Engine:
    """Runs sums and maps over the blocks of a reader: in this process, unless a subclass does it elsewhere.

    Attributes
    ----------
    rows_per_block : int or None
        Rows computed at once; None is as many as `block_rows` has room for.
    """

    rows_per_block: int | None = None

    @classmethod
    def named(cls, name: str) -> Engine | None:
        """The engine that a name or address stands for; None if it is another's."""
        return None

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
        stays until the caller removes it (`remove_checkpoint`), when everything that depends on it is done. Sums are
        brought into their final precision at the end of every batch, so that a pass resumed there has the same bits.
        """
        size = self._size(accumulator.bytes_per_row)
        saved = saved_pass(checkpoint, accumulator, reader, size)
        start = 0 if saved is None else resumed(saved, accumulator)
        with logged_pass(name, reader.n_rows - start, 1, self, progress) as advance:
            for n, batch_ends in add_batches(accumulator, reader, size, start):
                advance(n)
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
        """A function of every block, in the order of the rows; one result for every batch of rows."""
        size = self._size(bytes_per_row)
        batch_rows = BLOCKS_PER_BATCH * size if batch_rows is None else batch_rows
        for batch in self.stream(reader, batch_rows, progress=progress, name=name):
            parts = [function(block) for block in batch.blocks(size)]
            yield torch.cat(parts) if len(parts) > 1 else parts[0]

    def stream(
        self, reader: Reader, batch_rows: int, *, progress: Progress | None = None, name: str = "Reading"
    ) -> Iterator[Block]:
        """All blocks in the order of the rows, read ahead: for what has to see them one after the other."""
        batches = reader.read(batch_rows)
        with shown(progress).stage(name, reader.n_rows) as stage, prefetched(batches) as ahead:
            for batch in ahead:
                yield batch
                stage.advance(len(batch))

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """A function of every item, in their order. Function and items can be pickled."""
        yield from map(function, items)

    def layout(self, n_rows: int) -> PassLayout:
        """How a pass over n_rows rows is divided."""
        return PassLayout(1, torch.get_num_threads(), 1, None)

    def _size(self, bytes_per_row: int) -> int:
        return self.rows_per_block or block_rows(bytes_per_row)


class Local(Engine):
    """Runs everything in this process; `rows_per_block` rows at once, by default as many as there is room for."""

    def __init__(self, rows_per_block: int | None = None):
        self.rows_per_block = rows_per_block


def as_engine(value: Engine | str | None) -> Engine:
    """An engine from what an estimator was given.

    None runs in this process, "dask" in a cluster of processes on this machine, and an address in the cluster of the
    scheduler there. Every name stands for one connection, which all estimators share.
    """
    if value is None:
        return Local()
    if isinstance(value, Engine):
        return value
    if isinstance(value, str) and (found := _connection(value)) is not None:
        return found
    hint = ""
    if type(value).__module__.split(".")[0] == "distributed":
        hint = " A client cannot be copied with an estimator: give krepes.engines.Dask(client)."
    raise TypeError(
        f"engine={value!r:.80}: expected None, which runs in this process, 'dask', the address of a scheduler such as "
        f"'tcp://host:8786', or a krepes.engines.Engine.{hint}"
    )


def engine_for(source: Source, value: Engine | str | None) -> Engine:
    """The engine that scans a source: rows in the memory of this process are scanned here, where they are."""
    return as_engine(value) if source.by_reference else Local()


@cache
def _connection(name: str) -> Engine | None:
    return next((found for kind in subclasses(Engine) if (found := kind.named(name)) is not None), None)


def block_rows(bytes_per_row: int, budget: int = MEMORY_BUDGET) -> int:
    """Rows per block within a memory budget: a power of two, up to where matrix products have their full rate.

    >>> block_rows(30_000), block_rows(1_000_000), block_rows(10**9)
    (2048, 512, 16)
    """
    rows = rows_within(budget, bytes_per_row, SMALLEST_BLOCK, LARGEST_BLOCK)
    return 2 ** (rows.bit_length() - 1)


@contextmanager
def logged_pass(
    name: str, n_rows: int, n_parts: int, engine: Engine, progress: Progress | None
) -> Iterator[Callable[[int], None]]:
    """Show a pass, and log lines of key=value pairs when it starts and when it ends, with its rate.

    Gives the function to call with the number of rows that were done.
    """
    told = f'pass="{name}" engine={type(engine).__name__} rows={n_rows} parts={n_parts}'
    logger.info("event=start %s", told)
    start, ended, rows = time.perf_counter(), "failed", 0
    with shown(progress).stage(name, n_rows) as stage:

        def advance(n: int) -> None:
            nonlocal rows
            rows += n
            stage.advance(n)

        try:
            yield advance
            ended = "end"
        finally:
            seconds = time.perf_counter() - start
            rate = rows / max(seconds, 1e-9)
            done = f"done={rows} seconds={seconds:.3f} rows_per_second={rate:.0f}"
            logger.info("event=%s %s %s", ended, told, done)


def shown(progress: Progress | None) -> Progress:
    return Silent() if progress is None else progress


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


def saved_pass(
    path: str | os.PathLike | None, accumulator: Accumulator[S, R], reader: Reader, size: int
) -> Checkpoint | None:
    """The checkpoint of a pass, known by hashes of everything that the pass depends on."""
    if path is None:
        return None
    return Checkpoint(path, reader.identity() | {"rows per block": digest(size)} | accumulator.fingerprint())


def resumed(saved: Checkpoint, accumulator: Accumulator[S, R]) -> int:
    """Go on where a pass was left: the row or part that comes next."""
    state = saved.restored()
    if state is None:
        return 0
    accumulator.restore(state["sums"])
    return state["next"]


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
    told = ("out of memory", "can't allocate memory", "not enough memory")
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(words in str(error).lower() for words in told)


@contextmanager
def prefetched(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """Iterate while a thread prepares the next item; leaving the block ends the thread.

    >>> with prefetched(iter([1, 2, 3])) as ahead:
    ...     list(ahead)
    [1, 2, 3]
    """
    with ThreadPoolExecutor(1) as thread:

        def results() -> Iterator[Item]:
            ahead = thread.submit(next, items, None)
            while (item := ahead.result()) is not None:
                ahead = thread.submit(next, items, None)
                yield item

        yield results()
