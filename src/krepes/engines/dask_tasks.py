"""Tasks of one pass on a Dask cluster: sent, merged in pairs, taken in order, cancelled together.

The functions below `In workers` are what workers run. They take what a pass was sent with and a part, and return sums
or rows.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Block, Reader
from krepes.base.storage.codec import State
from krepes.engines.engine import BLOCKS_PER_BATCH, Result, add_batches, block_rows

if TYPE_CHECKING:
    from distributed import Client, Future

Item = TypeVar("Item")

NOTICE_SECONDS = 10  # of waiting, after which it is asked who is there

logger = logging.getLogger("krepes")


class Tasks:
    """Tasks of one pass. What a result that was taken was made of is let go, so that workers forget it."""

    def __init__(self, client: Client, address: str | None, patience: float):
        self.client, self.address, self.patience = client, address, patience
        self.held: dict[Future, list[Future]] = {}  # what somebody waits for, and what that is made of
        workers = _workers(client, patience)
        self.n_workers = max(1, len(workers))
        limits = [worker.get("memory_limit") or 0 for worker in workers]
        self.memory = min(filter(None, limits), default=None)  # bytes that the smallest worker may take

    def submit(self, function: Callable, *arguments: Any) -> Future:
        return self.client.submit(function, *arguments, pure=False)

    def send(self, value: object) -> Future:
        """A value that workers fetch from one another; the scheduler keeps what is needed to make it again."""
        sent = self.submit(_itself, value)
        self.held[sent] = []
        return sent

    def merged(self, sent: Future, parts: Sequence[Reader]) -> Future:
        """The state of the sums of consecutive parts, merged in pairs of neighbours."""
        states = [self.submit(_summed, sent, part) for part in parts]
        made = list(states)
        while len(states) > 1:
            pairs = [states[i : i + 2] for i in range(0, len(states), 2)]
            states = [self.submit(_joined, sent, *pair) if len(pair) > 1 else pair[0] for pair in pairs]
            made += states
        self.held[states[0]] = made
        return states[0]

    def ahead(
        self, items: Iterable[Item], start: Callable[[Item], Future], depth: int
    ) -> Iterator[tuple[Item, Any]]:
        """Items with their results, in order, some of them started ahead."""
        waiting: deque[tuple[Item, Future]] = deque()
        for item in items:
            waiting.append((item, start(item)))
            self.held.setdefault(waiting[-1][1], [])
            if len(waiting) > depth:
                yield self._next(waiting)
        while waiting:
            yield self._next(waiting)

    def _next(self, waiting: deque[tuple[Item, Future]]) -> tuple[Item, Any]:
        item, future = waiting.popleft()
        result = self._result(future)
        for part in {future, *self.held.pop(future)}:
            part.release()
        return item, result

    def _result(self, future: Future) -> Any:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError

        try:
            self._wait(future)
            return future.result()
        except KilledWorker as error:
            raise RuntimeError(
                "A part of the rows ended several workers, one after the other. They may have too little memory: give "
                "workers more, or take a smaller rows_per_part or fewer landmarks. Their logs say more."
            ) from error
        except (FutureCancelledError, CommClosedError, CancelledError) as error:
            raise ConnectionError(
                f"The connection to the Dask scheduler at {self.address} was lost during a pass. Nothing was added to "
                "the model; a pass with checkpoint= goes on from its last one."
            ) from error

    def _wait(self, future: Future) -> None:
        """Wait for a task as long as there is somebody to do it; otherwise say so, and give up in the end."""
        answered, often = time.monotonic(), min(NOTICE_SECONDS, self.patience / 2)
        while not future.done():
            try:
                future.exception(timeout=often)
                return
            except TimeoutError:
                silent = self._silent(often)
            if silent is None:
                answered = time.monotonic()
                continue
            waited = time.monotonic() - answered
            if waited > self.patience:
                self.held = {}  # because nobody is there to cancel them
                raise ConnectionError(
                    f"{silent} at {self.address or 'this machine'} for {waited:.0f} s. Nothing was added to the model. "
                    "Start workers again, or wait longer with krepes.engines.Dask(..., patience=SECONDS)."
                )
            logger.warning("%s; waiting %.0f of %.0f s.", silent, waited, self.patience)

    def _silent(self, seconds: float) -> str | None:
        """Who does not answer; None if a scheduler and all its workers do."""
        try:
            workers = _workers(self.client, seconds)
        except (TimeoutError, OSError):
            return "The Dask scheduler does not answer"
        if not workers:
            return "The Dask scheduler has no workers"
        latest = max(worker["last_seen"] for worker in workers)
        gone = sum(max(latest, time.time()) - worker["last_seen"] > 3 * seconds for worker in workers)
        return f"{gone} of {len(workers)} Dask workers do not answer" if gone else None

    def cancel(self) -> None:
        if self.held and self.client.status == "running":
            self.client.cancel([*self.held, *(part for made in self.held.values() for part in made)])
        self.held = {}


def _workers(client: Client, seconds: float) -> list[dict[str, Any]]:
    """What the scheduler knows of its workers; recent versions of Dask list five of them unless asked for all."""
    ask = partial(client.sync, client.scheduler.identity, callback_timeout=seconds)
    try:
        found = ask(n_workers=-1)
    except TypeError:
        found = ask()
    return list(found["workers"].values())


# In workers


def _itself(value: Item) -> Item:
    return value


def _summed(accumulator: Accumulator[S, R], reader: Reader) -> State:
    """The state of the sums of a part."""
    _use_own_threads()
    own = accumulator.empty()
    for _ in add_batches(own, reader, block_rows(own.bytes_per_row)):
        pass
    return own.state()


def _joined(accumulator: Accumulator[S, R], first: State, second: State) -> State:
    """The state of the sums of two parts together."""
    own, other = accumulator.empty(), accumulator.empty()
    own.restore(first)
    other.restore(second)
    return own.merge(other).state()


def mapped_part(function: Callable[[Block], Tensor], size: int, reader: Reader) -> Tensor:
    """A function of all blocks of a part, one below the other."""
    _use_own_threads()
    blocks = (block for batch in reader.read(BLOCKS_PER_BATCH * size) for block in batch.blocks(size))
    return torch.cat([function(block) for block in blocks])


def applied(function: Callable[[Item], Result], item: Item) -> Result:
    _use_own_threads()
    return function(item)


def _use_own_threads() -> None:
    """As many threads as the worker was given: more of them would fight over its cores."""
    from distributed import get_worker

    torch.set_num_threads(max(1, get_worker().state.nthreads))
