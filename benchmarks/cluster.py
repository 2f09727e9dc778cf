"""A pass on two workers of a Dask cluster, beside the same pass in this process.

    python benchmarks/cluster.py ratio      1M x 28 rows of Parquet, 500 landmarks: time of the pass, start-up apart
    python benchmarks/cluster.py memory     peak memory of a worker, for 10^5 and 10^6 rows
    python benchmarks/cluster.py rows       time against n, up to 10^7 generated rows

Both sides of `ratio` run in one program, in turn: two workers with one thread each, and this process with two threads.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from peak_memory import write_rows
from recording import clock, record

from krepes import KernelEmbedding
from krepes.engines import Dask
from krepes.kernels import Gaussian
from krepes.sources import Source

WIDTH, FILES = 28, 20


class Generated(Source):
    """Rows that are drawn where they are read: row i always has the same numbers."""

    kind = "vectors"
    random_access = True
    _BLOCK = 8192

    def __init__(self, n_rows: int):
        self.n_rows = n_rows

    @property
    def by_reference(self) -> bool:
        return True

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, np.ndarray]]:
        for first in range(start, self.n_rows, batch_rows):
            yield first, self._rows(first, min(first + batch_rows, self.n_rows))

    def take(self, indices: np.ndarray) -> np.ndarray:
        found = np.empty((len(indices), WIDTH), dtype=np.float32)
        for block in np.unique(indices // self._BLOCK).tolist():
            first = block * self._BLOCK
            inside = indices // self._BLOCK == block
            found[inside] = self._rows(first, first + self._BLOCK)[indices[inside] - first]
        return found

    def _rows(self, start: int, stop: int) -> np.ndarray:
        blocks = range(start // self._BLOCK, (stop - 1) // self._BLOCK + 1)
        drawn = [
            np.random.Generator(np.random.Philox(key=7, counter=block << 20)).standard_normal(
                (self._BLOCK, WIDTH), dtype=np.float32
            )
            for block in blocks
        ]
        first = blocks[0] * self._BLOCK
        return np.concatenate(drawn)[start - first : stop - first]

    def identity(self) -> dict[str, object]:
        return {"generated": self.n_rows}

    def describe(self) -> str:
        return f"{self.n_rows:,} generated rows"


def model(n_landmarks: int, engine: Dask | None = None) -> KernelEmbedding:
    return KernelEmbedding(
        n_components=32,
        kernel=Gaussian(5.0),
        loss="kernel_pca",
        n_landmarks=n_landmarks,
        landmarks="uniform",
        random_state=0,
        engine=engine,
    )


def parquet_folder(folder: Path, n_rows: int) -> Path:
    folder.mkdir()
    for i in range(FILES):
        write_rows(folder / f"{i:02d}.parquet", n_rows // FILES, WIDTH)
    return folder


def ratio(n_rows: int, repeats: int) -> dict:
    figures: dict = {"rows": n_rows}
    times: dict[str, list[float]] = {"in process, 2 threads": [], "Dask, 2 workers": []}
    with tempfile.TemporaryDirectory() as name:
        data = parquet_folder(Path(name) / "rows", n_rows)
        few = parquet_folder(Path(name) / "few", 2000)
        torch.set_num_threads(2)
        space = model(500).prepare(data)
        figures["rank"] = space.rank
        with clock(figures, "start-up of the cluster and imports of its workers, s"):
            engine = Dask(n_workers=2)
            model(20, Dask(engine.client, rows_per_part=500)).fit(few)
        for _ in range(repeats):
            for side, where in (("in process, 2 threads", None), ("Dask, 2 workers", engine)):
                start = time.perf_counter()
                model(500, where).fit(data, space=space)
                times[side].append(time.perf_counter() - start)
        with clock(figures, "scan and sample in process, s"):
            model(500).prepare(data)
        with clock(figures, "scan and sample on Dask, s"):
            model(500, engine).prepare(data)
        engine.close()
    for side, seconds in times.items():
        figures[f"{side}, s"] = [round(value, 2) for value in seconds]
        figures[f"{side}, rows/s"] = round(n_rows / min(seconds))
    here, there = (min(seconds) for seconds in times.values())
    figures["Dask / in process"] = round(there / here, 3)
    return figures


def peak_megabytes() -> float:
    """The largest resident size of this process. (That of getrusage begins with the size of who started it.)"""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def memory(sizes: list[int]) -> dict:
    figures: dict = {}
    for n_rows in sizes:
        with Dask(n_workers=2) as engine:
            model(500, engine).fit(Generated(n_rows))
            peaks = engine.client.run(peak_megabytes)
            figures[f"{n_rows:,} rows: peak MB of a worker"] = round(max(peaks.values()), 1)
    return figures


def rows(sizes: list[int], n_landmarks: int) -> dict:
    figures: dict = {"landmarks": n_landmarks}
    seconds = []
    with Dask(n_workers=2) as engine:
        model(n_landmarks, engine).fit(Generated(100_000))
        for n_rows in sizes:
            start = time.perf_counter()
            model(n_landmarks, engine).fit(Generated(n_rows))
            seconds.append(time.perf_counter() - start)
            figures[f"{n_rows:,} rows, s"] = round(seconds[-1], 2)
    slopes = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
    figures["slope on a log-log plot, between neighbours"] = slopes.round(3).tolist()
    figures["slope, all"] = round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 3)
    figures["rows/s of a worker, largest n"] = round(sizes[-1] / seconds[-1] / 2)
    return figures


if __name__ == "__main__":  # workers are processes that import this file
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["ratio", "memory", "rows"])
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--landmarks", type=int, default=200)
    args = parser.parse_args()
    if args.part == "ratio":
        found = ratio((args.rows or [1_000_000])[0], args.repeats)
    elif args.part == "memory":
        found = memory(args.rows or [100_000, 1_000_000])
    else:
        found = rows(args.rows or [300_000, 1_000_000, 3_000_000, 10_000_000], args.landmarks)
    record(f"cluster_{args.part}", found)
