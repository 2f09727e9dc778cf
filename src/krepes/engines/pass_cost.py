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

import torch

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Reader
from krepes.base.storage.files import readable_bytes
from krepes.engines.engine import BLOCKS_PER_BATCH, Engine, PassLayout, block_rows

SUMS_HELD = 4  # of a part, of the one it is merged with, of both, and the feature map
TASK_SECONDS = 0.01  # to schedule a task, and to send and merge small sums, about
MEASURED_SECONDS = 1.0


@dataclass(frozen=True)
class PassCost:
    """An estimate.

    Attributes
    ----------
    n_rows : int
    layout : PassLayout
    worker_bytes : int
        Memory that a worker takes for the pass, besides the libraries that it has loaded.
    rows_per_second : float
        Of one worker.
    """

    n_rows: int
    layout: PassLayout
    worker_bytes: int
    rows_per_second: float

    @property
    def seconds(self) -> float:
        """The expected time."""
        n_parts = self.layout.n_parts
        busy = min(self.layout.n_workers, n_parts)
        tasks = TASK_SECONDS * (n_parts if n_parts > 1 else 0)
        return (self.n_rows / self.rows_per_second + tasks) / busy

    def lines(self) -> dict[str, str]:
        """In words."""
        n_parts, n_threads, memory = self.layout.n_parts, self.layout.n_threads, self.layout.memory
        limit = "" if memory is None else f" of {readable_bytes(memory)}"
        return {
            "rows": f"{self.n_rows:,} in {n_parts:,} part{'s' * (n_parts > 1)}",
            "workers": f"{self.layout.n_workers:,} with {n_threads:,} thread{'s' * (n_threads > 1)} each",
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
        batch = next(iter(reader.read(batch_rows)))
        for block in batch.blocks(size):
            trial.add(block)
        trial.flush()
        return len(batch)

    sums = SUMS_HELD * accumulator.bytes_of_sums
    return function_cost(compute, accumulator.bytes_per_row, reader.n_rows, engine, sums)


def function_cost(
    compute: Callable[[int], int], row_bytes: int, n_rows: int, engine: Engine, held_bytes: int = 0
) -> PassCost:
    """What a function of rows will take; `compute(n)` computes about n of them and says how many it did."""
    layout = engine.layout(n_rows)
    batch_rows = BLOCKS_PER_BATCH * block_rows(row_bytes)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(layout.n_threads)
        rate = measured_rate(compute, batch_rows)
    finally:
        torch.set_num_threads(before)
    return PassCost(n_rows, layout, held_bytes + batch_rows * row_bytes, rate)


def measured_rate(compute: Callable[[int], int], batch_rows: int) -> float:
    """Rows per second, after one batch to warm up; a second of work, or three batches."""
    compute(batch_rows)
    start, done, n = time.perf_counter(), 0, 0
    while n < 3 and time.perf_counter() - start < MEASURED_SECONDS:
        done, n = done + compute(batch_rows), n + 1
    return done / max(time.perf_counter() - start, 1e-9)


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
