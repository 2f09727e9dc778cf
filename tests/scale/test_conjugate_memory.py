"""Memory of conjugate gradients is bounded by the landmarks, not by the number of rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np, torch
torch.set_num_threads(1)
from krepes.kernels import Laplacian
from krepes.machines import KernelRidgeRegressor

n, path = int(sys.argv[1]), sys.argv[2]
X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, 4))
rng = np.random.default_rng(0)
for first in range(0, n, 10_000):
    X[first : first + 10_000] = rng.normal(size=(min(10_000, n - first), 4))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
del X
settings = {"landmarks": "uniform", "n_landmarks": 400, "n_kept": 2000, "input_metric": None, "dtype": "float32"}
settings |= {"kernel": Laplacian(4.0), "penalty": 1.0, "random_state": 0}
model = KernelRidgeRegressor(solver="conjugate_gradients", **settings)
model.fit(path, y)
assert model.n_iter_ > 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.full
def test_kernel_values_of_all_rows_are_never_held_at_once(tmp_path):
    """k(X, landmarks) of 20,000 and 100,000 rows takes 32 and 160 MB in single precision; both fits need the same."""
    peaks = []
    for n in (20_000, 100_000):
        command = [sys.executable, "-c", PROGRAM, str(n), str(tmp_path / f"{n}.npy")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.split()[-1]) / 1024)
    assert peaks[1] - peaks[0] < 40, f"peak MB: {peaks}"
