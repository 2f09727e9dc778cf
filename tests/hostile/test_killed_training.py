"""A process that is killed while it trains, and started again, ends with the bits of one that was not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

PROGRAM = """
import sys
import numpy as np, torch
torch.set_num_threads(1)
from krepes import KernelEmbedding
from krepes.base.storage.checkpoint import Checkpoint
from krepes.solvers import SGD
from sklearn.datasets import load_digits

Checkpoint.__init__.__defaults__ = (0.0,)  # write after every batch
output, checkpoint = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
solver = SGD(max_epochs=6, batch_size=64)
model = KernelEmbedding(8, loss="byol", solver=solver, n_landmarks=100, random_state=0, feature_noise=0.1)
print("training", flush=True)
model.fit(load_digits().images, checkpoint=checkpoint)
np.save(output, model.coefficients_)
"""


def start(*arguments):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE)


@pytest.mark.full
def test_killed_at_any_moment_and_resumed(tmp_path):
    whole, resumed = tmp_path / "whole.npy", tmp_path / "resumed.npy"
    assert start(whole).wait(timeout=300) == 0
    checkpoint = tmp_path / "training.checkpoint"
    rng, kills = np.random.default_rng(0), 0
    for _ in range(8):
        process = start(resumed, checkpoint)
        process.stdout.readline()
        time.sleep(rng.uniform(0.5, 3.0))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        if resumed.exists():
            break
    if not resumed.exists():
        assert start(resumed, checkpoint).wait(timeout=300) == 0
    assert kills > 0
    assert np.array_equal(np.load(whole), np.load(resumed))
    assert not checkpoint.exists()
