"""Workers of a Dask cluster killed at random moments of fits and writes; counts what came out.

python tests/hostile/cluster_kills.py --runs 20

A worker is killed (SIGKILL) by its own process id, which the cluster of this program gave it, after a random share of
the time that an undisturbed run takes. Every run must end with the right result:

    fit      as many rows in the sums as there are, and the sums of an undisturbed run, to 1e-12
    write    every row once, in order, with the values of an undisturbed run; no file besides

and the number of workers that were in fact replaced is printed, so that runs which ended before the kill are seen.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from krepes import KernelEmbedding
from krepes.engines import Dask
from krepes.kernels import Custom

N, PART = 2400, 40
logger = logging.getLogger("cluster_kills")
ROWS = np.random.default_rng(0).normal(size=(N, 4))


@dataclass
class Count:
    """What happened."""

    runs: int = 0
    right: int = 0
    killed: int = 0  # workers, before their run ended
    faults: list[str] = field(default_factory=list)

    def add(self, killed: bool, fault: str | None) -> None:
        self.runs, self.killed = self.runs + 1, self.killed + killed
        if fault is None:
            self.right += 1
        else:
            self.faults.append(fault)

    def line(self) -> str:
        return f"{self.runs} runs, {self.killed} workers killed before the end, {self.right} right"


def slow_linear(A, B):
    """A kernel that takes long enough to be interrupted."""
    time.sleep(0.02)
    return np.asarray(A) @ np.asarray(B).T


def worker_pids(engine: Dask) -> list[int]:
    """Of the processes of our cluster; asked again where one of them has just died."""
    from distributed.comm.core import CommClosedError

    while True:
        try:
            return sorted(set(engine.client.run(os.getpid).values()) - {os.getpid()})
        except CommClosedError:
            time.sleep(0.2)


class Killer:
    """Kills one worker of a cluster of ours after some seconds."""

    def __init__(self, engine: Dask, seconds: float, rng: np.random.Generator):
        self.pid, self.done = int(rng.choice(worker_pids(engine))), False
        self.timer = threading.Timer(seconds, self._kill)

    def _kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.done = True

    def __enter__(self) -> Killer:
        self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.timer.join()


def wait_for_two(engine: Dask, patience: float = 300) -> None:
    """Until there is a worker to kill and one that is left; the killed one is replaced in the meantime."""
    deadline = time.monotonic() + patience
    while len(engine.client.scheduler_info()["workers"]) < 2:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Killed workers were not replaced within {patience:.0f} s.")
        time.sleep(0.2)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def model(engine: Dask | None) -> KernelEmbedding:
    return KernelEmbedding(
        n_components=3,
        kernel=Custom(slow_linear),
        loss="kernel_pca",
        landmarks=ROWS[:12],
        preprocess=None,
        dtype="float64",
        random_state=0,
        engine=engine,
    )


def killed_fits(engine: Dask, path: Path, rng: np.random.Generator, count: Count) -> Iterator[None]:
    expected = model(None).fit(path).moments_
    usual = min(seconds(lambda: model(engine).fit(path)) for _ in range(2))  # the first one imports
    while True:
        with Killer(engine, rng.uniform(0.05, 0.9) * usual, rng) as killer:
            found = model(engine).fit(path).moments_
        error = float((found.S - expected.S).abs().max() / expected.S.abs().max())
        right = found.n == expected.n == N and error <= 1e-12
        count.add(killer.done, None if right else f"{found.n} rows, error {error:.1e}")
        yield


def killed_writes(
    engine: Dask, path: Path, folder: Path, rng: np.random.Generator, count: Count
) -> Iterator[None]:
    fitted = model(None).fit(path)
    expected = fitted.transform(path)
    fitted.engine = engine
    usual = min(
        seconds(lambda i=i: fitted.write(path, folder / f"usual{i}", rows_per_file=PART)) for i in range(2)
    )
    while True:
        out = folder / str(count.runs)
        with Killer(engine, rng.uniform(0.05, 0.9) * usual, rng) as killer:
            written = fitted.write(path, out, rows_per_file=PART)
        Z = pd.read_parquet(out).to_numpy()
        left = [p.name for p in out.iterdir() if not p.name.startswith(("part-", "_krepes", "_SUCCESS"))]
        same = Z.shape == expected.shape and np.allclose(Z, expected, rtol=1e-9, atol=1e-10)
        right = same and written.n_files == len(list(out.glob("part-*"))) and not left
        count.add(killer.done, None if right else f"rows {Z.shape}, files {written.n_files}, left {left}")
        yield


def campaign(n_runs: int, seed: int = 0) -> dict[str, Count]:
    """Fits and writes in turn, on one cluster of three workers."""
    rng, counts = np.random.default_rng(seed), {"fit": Count(), "write": Count()}
    with tempfile.TemporaryDirectory() as name, Dask(n_workers=3, rows_per_part=PART) as engine:
        folder = Path(name)
        np.save(folder / "rows.npy", ROWS)
        fits = killed_fits(engine, folder / "rows.npy", rng, counts["fit"])
        writes = killed_writes(engine, folder / "rows.npy", folder, rng, counts["write"])
        for _ in range(n_runs):
            for work in (fits, writes):
                next(work)
                wait_for_two(engine)
                logger.info("%s", {name: count.line() for name, count in counts.items()})
    return counts


if __name__ == "__main__":  # workers are processes that import this file
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s")
    logger.setLevel(logging.INFO)
    for work, found in campaign(options.runs, options.seed).items():
        print(f"{work}: {found.line()}")  # noqa: T201
        for fault in found.faults:
            print(f"    {fault}")  # noqa: T201
