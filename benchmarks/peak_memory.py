"""Peak memory of a fit from Parquet does not grow with the number of rows.

    python benchmarks/peak_memory.py [--rows 100000 1000000]

Each fit runs in a process of its own, whose peak resident size is read at its end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from recording import record

CHILD = """
import resource, sys, time
import torch
torch.set_num_threads(2)
from krepes import KernelEmbedding
start = time.perf_counter()
model = KernelEmbedding(64, n_landmarks=500, random_state=0).fit(sys.argv[1])
seconds = time.perf_counter() - start
total = sum(len(Z) for Z in model.iter_transform(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds, total)
"""


def write_rows(path: Path, n_rows: int, n_columns: int = 28) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{j}", pa.float32()) for j in range(n_columns)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, 50_000):
            rows = rng.standard_normal((min(50_000, n_rows - start), n_columns), dtype=np.float32)
            writer.write_table(pa.table(list(rows.T), schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    args = parser.parse_args()
    figures: dict = {}
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in args.rows:
            path = Path(folder) / f"{n_rows}.parquet"
            write_rows(path, n_rows)
            output = subprocess.run(
                [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
            ).stdout
            peak, seconds, total = (float(value) for value in output.split())
            peaks.append(peak)
            figures[f"{n_rows:,} rows: file MB"] = round(path.stat().st_size / 1e6, 1)
            figures[f"{n_rows:,} rows: peak MB of fit and transform"] = round(peak, 1)
            figures[f"{n_rows:,} rows: seconds of fit"] = round(seconds, 1)
            assert total == n_rows
    figures["peak, largest over smallest"] = round(max(peaks) / min(peaks), 3)
    record("peak_memory", figures)


if __name__ == "__main__":
    main()
