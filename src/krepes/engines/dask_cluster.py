"""The engine that runs in the workers of a Dask cluster; `pip install "krepes[scale]"`.

    reader -> parts -> one sum per part, in a worker -> merged in pairs, in workers -> added here

A task carries a part of the reader (a path and a range of rows, or the rows themselves where they are in memory) and
returns the state of an accumulator. The accumulator, with the feature space in it, travels to every worker once.
Workers read their part block by block, so no machine holds all rows.

Results of tasks never change. What a worker takes with it when it dies is computed again by another one, and enters the
sum once. Parts are merged in the order of the rows, whatever the order is in which they are done, so that the number of
workers changes rounding at most.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from krepes.base.accumulator import Accumulator, R, S
from krepes.base.blocks import Block, Reader
from krepes.base.reporting import Progress
from krepes.base.rows import rebatch
from krepes.base.validation import check_count, check_number
from krepes.engines import engine
from krepes.engines.dask_tasks import Item, Tasks, applied, mapped_part
from krepes.engines.engine import Engine, PassLayout, Result
from krepes.engines.pass_cost import check_worker_memory

if TYPE_CHECKING:
    from distributed import Client

ROWS_PER_PART = 50_000  # that a task reads, about
LOST_WORKER_SECONDS = 300  # until a local cluster gives up a worker that has not come back
SILENT_WORKER_SECONDS = 60  # until it takes one for dead that does not answer
PATIENCE_SECONDS = 300
WAVE = 4  # parts for each worker that are merged before they come here


class Dask(Engine):
    """Runs sums and maps in the workers of a Dask cluster; `stream` reads in this process.

    Parameters
    ----------
    cluster : None, str or distributed.Client, default=None
        The address of a scheduler ("tcp://host:8786"), or a client that is connected to one. None starts a cluster of
        processes on this machine when it is first needed; it ends with this process, or with `close`.
    n_workers : int, default=None
        How many processes a cluster of this machine has, each with one thread; None is one for every core.
    rows_per_part : int, default=50_000
        About how many rows one task reads.
    patience : float, default=300
        Seconds without a worker, or without an answer, after which a pass ends with an error. Warnings of the logger
        "krepes" come earlier.

    Notes
    -----
    Copies of an estimator share its engine. A pickled engine holds the address and connects again where it is loaded; a
    cluster of this machine is started again there. No model file holds an engine.

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> from krepes.engines import Dask
    >>> engine = Dask("tcp://10.0.0.5:8786")                                        # doctest: +SKIP
    >>> model = KernelEmbedding(engine=engine).fit("s3-mount/people.parquet")        # doctest: +SKIP
    """

    def __init__(
        self,
        cluster: str | Client | None = None,
        *,
        n_workers: int | None = None,
        rows_per_part: int = ROWS_PER_PART,
        patience: float = PATIENCE_SECONDS,
    ):
        if n_workers is not None:
            check_count("n_workers", n_workers)
            if cluster is not None:
                raise ValueError(
                    "n_workers= is for a cluster of this machine; one with an address has its own."
                )
        check_count("rows_per_part", rows_per_part)
        check_number("patience", patience, "seconds", above=0)
        if cluster is not None and not isinstance(cluster, str) and not hasattr(cluster, "submit"):
            expected = "expected None, the address of a scheduler, or a distributed.Client"
            raise TypeError(f"Dask({cluster!r:.80}): {expected}.")
        self.cluster, self.n_workers, self.rows_per_part = cluster, n_workers, int(rows_per_part)
        self.patience = float(patience)
        self._client: Client | None = None

    @classmethod
    def named(cls, name: str) -> Dask | None:
        """A cluster of this machine for "dask", and of the scheduler at an address."""
        if name == "dask":
            return cls()
        return cls(name) if "://" in name else None

    # Connections

    @property
    def client(self) -> Client:
        """The client; connects, or starts the cluster, when it is first asked for."""
        if self._client is None:
            self._client = self._connected()
        if self._client.status not in ("running", "connecting"):
            closed = f"The connection to the Dask scheduler at {self._address()} is closed"
            raise ConnectionError(f"{closed}. Make another krepes.engines.Dask.")
        return self._client

    def _connected(self) -> Client:
        try:
            from distributed import Client, LocalCluster
        except ImportError as error:
            raise ImportError('Dask needs dask and distributed: pip install "krepes[scale]".') from error
        if self.cluster is None:
            import dask

            # A worker that was killed is started again, which on a busy machine takes longer than Dask waits for it.
            dask.config.set({"distributed.deploy.lost-worker-timeout": LOST_WORKER_SECONDS})
            dask.config.set({"distributed.scheduler.worker-ttl": SILENT_WORKER_SECONDS})
            workers = self.n_workers or os.cpu_count()
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
            return Client(cluster, set_as_default=False)
        if not isinstance(self.cluster, str):
            return self.cluster
        try:
            return Client(self.cluster, set_as_default=False)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            remedy = "Start one with `dask scheduler` and `dask worker ADDRESS`, or give engine='dask'."
            if self.cluster.startswith("tls://"):
                remedy = "Give krepes.engines.Dask(Client(address, security=Security(tls_ca_file=..., ...)))."
            raise ConnectionError(
                f"No Dask scheduler answers at {self.cluster!r} ({error}). {remedy}"
            ) from error

    def _address(self) -> str | None:
        if isinstance(self.cluster, str):
            return self.cluster
        scheduler = None if self.cluster is None else self.cluster.scheduler
        return None if scheduler is None else str(scheduler.address)

    def close(self) -> None:
        """End the connection, and a cluster that was started here."""
        client, self._client = self._client, None
        if client is None or client is self.cluster:
            return
        cluster = client.cluster
        client.close()
        if self.cluster is None and cluster is not None:
            cluster.close()

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __sklearn_clone__(self) -> Dask:
        return self

    def __deepcopy__(self, memo: dict) -> Dask:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"cluster": self._address(), "_client": None}

    def __repr__(self) -> str:
        given = [] if self.cluster is None else [repr(self._address())]
        given += [] if self.n_workers is None else [f"n_workers={self.n_workers}"]
        return f"Dask({', '.join(given)})"

    # Passes

    def reduce(
        self,
        accumulator: Accumulator[S, R],
        reader: Reader,
        *,
        checkpoint: str | os.PathLike | None = None,
        progress: Progress | None = None,
        name: str = "Moments",
    ) -> R:
        """See `Engine.reduce`. With `checkpoint`, waves of parts that are done are kept."""
        parts = self._parts(reader)
        saved = engine.saved_pass(checkpoint, accumulator, reader, self.rows_per_part)
        done = 0 if saved is None else engine.resumed(saved, accumulator)
        left = parts[done:]
        n_left = sum(part.n_rows for part in left)
        with engine.logged_pass(name, n_left, len(left), self, progress) as advance, self._tasks() as tasks:
            check_worker_memory(tasks.memory, accumulator)
            sent = tasks.send(accumulator.empty())
            width = WAVE * tasks.n_workers
            starts = range(0, len(left), width)
            waves = ([part.portable() for part in left[first : first + width]] for first in starts)
            for wave, state in tasks.ahead(waves, lambda wave: tasks.merged(sent, wave), depth=2):
                other = accumulator.empty()
                other.restore(state)
                accumulator.merge(other)
                accumulator.flush()
                done += len(wave)
                advance(sum(part.n_rows for part in wave))
                if saved is not None:
                    saved.offer(
                        partial(engine.pass_state, accumulator, done), f"part {done:,} of {len(parts):,}"
                    )
        return accumulator.result()

    def map(
        self,
        function: Callable[[Block], Tensor],
        reader: Reader,
        *,
        bytes_per_row: int = 0,
        batch_rows: int | None = None,
        progress: Progress | None = None,
        name: str = "Transform",
    ) -> Iterator[Tensor]:
        size = engine.block_rows(bytes_per_row)
        rows = engine.BLOCKS_PER_BATCH * size if batch_rows is None else batch_rows
        parts = self._parts(reader)
        with engine.shown(progress).stage(name, reader.n_rows) as stage, self._tasks() as tasks:
            sent = tasks.send(function)

            def results() -> Iterator[Tensor]:
                portable = (part.portable() for part in parts)
                mapped = partial(tasks.submit, mapped_part, sent, size)
                for part, result in tasks.ahead(portable, mapped, depth=2 * tasks.n_workers):
                    yield result
                    stage.advance(part.n_rows)

            for _, batch in rebatch(results(), rows):
                yield batch

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        with self._tasks() as tasks:
            sent = tasks.send(function)
            depth = 2 * tasks.n_workers
            for _, result in tasks.ahead(items, lambda item: tasks.submit(applied, sent, item), depth):
                yield result

    def layout(self, n_rows: int) -> PassLayout:
        """See `Engine.layout`. A cluster that is not started yet is taken to be as it would be."""
        n_parts = max(1, round(n_rows / self.rows_per_part))
        if self.cluster is None and self._client is None:
            return PassLayout(self.n_workers or os.cpu_count() or 1, 1, n_parts, None)
        tasks = self._new_tasks()
        return PassLayout(tasks.n_workers, 1, n_parts, tasks.memory)

    def _parts(self, reader: Reader) -> Sequence[Reader]:
        """In the order of the rows. What travels is their `portable` form, which is made when its turn comes."""
        return reader.parts(max(1, round(reader.n_rows / self.rows_per_part)))

    def _new_tasks(self) -> Tasks:
        try:
            return Tasks(self.client, self._address(), self.patience)
        except TimeoutError as error:
            silent = f"The Dask scheduler at {self._address()} did not answer within {self.patience:g} s"
            raise ConnectionError(f"{silent}. Start it again, or give another engine.") from error

    @contextmanager
    def _tasks(self) -> Iterator[Tasks]:
        """Tasks that end with the block, whatever ends it."""
        tasks = self._new_tasks()
        try:
            yield tasks
        finally:
            tasks.cancel()
