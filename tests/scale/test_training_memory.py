"""Memory of training is bounded by the budget for kept features, not by the number of rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np, torch
torch.set_num_threads(1)
from krepes import KernelEmbedding
from krepes.solvers import SGD
from krepes.views import Tabular

n, path = int(sys.argv[1]), sys.argv[2]
X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, 4))
rng = np.random.default_rng(0)
for first in range(0, n, 10_000):
    X[first : first + 10_000] = rng.normal(size=(min(10_000, n - first), 4))
del X
solver = SGD(max_epochs=1, cache_bytes=16 * 2**20, batch_size=2048)
settings = {"n_landmarks": 200, "random_state": 0, "views": Tabular(n_views=2)}
KernelEmbedding(8, loss="barlow_twins", solver=solver, **settings).fit(path)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.full
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Features of 40,000 and 200,000 rows take 64 and 320 MB; within a budget of 16 MB both fits need the same."""
    peaks = []
    for n in (40_000, 200_000):
        command = [sys.executable, "-c", PROGRAM, str(n), str(tmp_path / f"{n}.npy")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.split()[-1]) / 1024)
    assert peaks[1] - peaks[0] < 40, f"peak MB: {peaks}"
