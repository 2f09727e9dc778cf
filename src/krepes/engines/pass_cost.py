"""What a pass will take: memory of a worker, and time, from the rate of a few blocks that are computed here.

    time = n / (rate of one worker x workers) + (parts / workers) x cost of a task
    memory of a worker = 4 sums + one batch of rows and what is computed of it

The rate is measured on the first rows, with as many threads as a worker has. It does not know the disks and the network
of a cluster, nor other work on its machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Reader
from krepes.base.files import readable_bytes
from krepes.engines.engine import BLOCKS_PER_BATCH, Engine, block_rows

SUMS_HELD = 4  # of a part, of the one it is merged with, of both, and the feature map
TASK_SECONDS = 0.01  # to schedule a task, and to send and merge small sums, about
MEASURED_SECONDS = 1.0


@dataclass(frozen=True)
class PassCost:
    """An estimate.

    Attributes
    ----------
    n_rows, n_parts, n_workers, n_threads : int
    worker_bytes : int
        Memory that a worker takes for the pass, besides the libraries that it has loaded.
    worker_limit : int or None
        Memory that a worker may take.
    rows_per_second : float
        Of one worker.
    seconds : float
    """

    n_rows: int
    n_parts: int
    n_workers: int
    n_threads: int
    worker_bytes: int
    worker_limit: int | None
    rows_per_second: float
    seconds: float

    def lines(self) -> dict[str, str]:
        """In words."""
        limit = "" if self.worker_limit is None else f" of {readable_bytes(self.worker_limit)}"
        return {
            "rows": f"{self.n_rows:,} in {self.n_parts:,} part{'s' * (self.n_parts > 1)}",
            "workers": f"{self.n_workers:,} with {self.n_threads:,} thread{'s' * (self.n_threads > 1)} each",
            "memory per worker": f"{readable_bytes(self.worker_bytes)}{limit}, besides the libraries",
            "rate of a worker": f"{self.rows_per_second:,.0f} rows/s",
            "expected time": time_in_words(self.seconds),
            "assumes": "workers as fast as this machine, which was measured on the first rows; rows that are read as "
            f"fast as here; {1000 * TASK_SECONDS:g} ms for each part",
        }


def sums_cost(accumulator: Accumulator[S, R], reader: Reader, engine: Engine) -> PassCost:
    """What `engine.reduce(accumulator, reader)` will take. The accumulator stays as it is."""
    trial = accumulator.empty()
    size = block_rows(accumulator.bytes_per_row)

    def compute(batch_rows: int) -> int:
        done = 0
        for batch in islice(reader.read(batch_rows), 1):
            for block in batch.blocks(size):
                trial.add(block)
                done += len(block)
        trial.flush()
        return done

    return _cost(compute, BLOCKS_PER_BATCH * size, worker_bytes(accumulator), reader.n_rows, engine)


def function_cost(compute: Callable[[int], int], row_bytes: int, n_rows: int, engine: Engine) -> PassCost:
    """What a function of rows will take; `compute(n)` computes about n of them and says how many it did."""
    return _cost(
        compute,
        BLOCKS_PER_BATCH * block_rows(row_bytes),
        BLOCKS_PER_BATCH * block_rows(row_bytes) * row_bytes,
        n_rows,
        engine,
    )


def _cost(
    compute: Callable[[int], int], batch_rows: int, memory: int, n_rows: int, engine: Engine
) -> PassCost:
    layout = engine.layout(n_rows)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(layout.n_threads)
        rate = measured_rate(compute, batch_rows)
    finally:
        torch.set_num_threads(before)
    busy = min(layout.n_workers, layout.n_parts)
    seconds = n_rows / (rate * busy) + TASK_SECONDS * (layout.n_parts if layout.n_parts > 1 else 0) / busy
    return PassCost(
        n_rows, layout.n_parts, layout.n_workers, layout.n_threads, memory, layout.memory, rate, seconds
    )


def measured_rate(compute: Callable[[int], int], batch_rows: int) -> float:
    """Rows per second, after one batch to warm up; a second of work, or three batches."""
    compute(batch_rows)
    start, done, n = time.perf_counter(), 0, 0
    while n < 3 and time.perf_counter() - start < MEASURED_SECONDS:
        done, n = done + compute(batch_rows), n + 1
    return done / max(time.perf_counter() - start, 1e-9)


def worker_bytes(accumulator: Accumulator[S, R]) -> int:
    """Memory that a worker takes for its part of a pass."""
    per_row = accumulator.bytes_per_row
    return SUMS_HELD * accumulator.bytes_of_sums + BLOCKS_PER_BATCH * block_rows(per_row) * per_row


def check_worker_memory(limit: int | None, accumulator: Accumulator[S, R]) -> None:
    """Refuse a pass whose sums do not fit into a worker: it would end one worker after the other."""
    needed = SUMS_HELD * accumulator.bytes_of_sums
    if limit is None or needed <= limit:
        return
    fewer = (limit / needed) ** 0.5
    raise MemoryError(
        f"A worker needs about {readable_bytes(needed)} for the sums of its part, and may take {readable_bytes(limit)} "
        f"(memory_limit). Give workers more memory, fewer of them on each machine, or take at most {fewer:.0%} of the "
        "landmarks: sums grow with their square."
    )


def time_in_words(seconds: float) -> str:
    """Seconds in words.

    >>> time_in_words(0.5), time_in_words(90), time_in_words(20_000), time_in_words(300_000)
    ('under a second', '1.5 min', '5.6 h', '3.5 days')
    """
    if seconds < 1:
        return "under a second"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.2g} min"
    return f"{seconds / 3600:.2g} h" if seconds < 48 * 3600 else f"{seconds / 86400:.2g} days"
