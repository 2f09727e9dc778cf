"""Files are read in memory that does not grow with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

SMALL, LARGE, WIDTH = 150_000, 1_500_000, 20  # the small files already fill samples and buffers
EXTRA_BYTES = (LARGE - SMALL) * WIDTH * 8

READ = """
import sys
from krepes import TableEncoder
from krepes.sources import open_source, reservoir

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024

for group in (sys.argv[1:4], sys.argv[4:7]):
    for path in group:
        source = open_source(path)
        encoder = TableEncoder()
        encoder.fit_source(source, n_candidates=1000)
        reservoir(source, 1000, 0)
        for _, batch in source.batches(4096):
            encoder.transform(batch)
    print(peak())
"""


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_ten_times_the_rows_need_no_more_memory(tmp_path):
    """The peak grows by less than half of the bytes that were added, for .npy, Parquet and CSV together."""
    paths = []
    for n in (SMALL, LARGE):
        X = np.random.default_rng(0).normal(size=(n, WIDTH)).round(3)
        table = pa.table({f"f{j}": X[:, j] for j in range(WIDTH)})
        paths += [tmp_path / f"{n}.npy", tmp_path / f"{n}.parquet", tmp_path / f"{n}.csv"]
        np.save(paths[-3], X)
        pq.write_table(table, paths[-2], row_group_size=100_000)
        pyarrow.csv.write_csv(table[: n // 2], paths[-1])  # slow to write and read
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, paths)], capture_output=True, text=True, check=True
    )
    small, large = map(int, done.stdout.split())
    assert large - small < EXTRA_BYTES / 2, f"peak {small / 1e6:.0f} MB, then {large / 1e6:.0f} MB"
