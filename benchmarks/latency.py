"""One row at a time: how long a saved model takes to embed it.

python benchmarks/latency.py
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from recording import record
from safetensors import safe_open

from krepes import KernelEmbedding, load


def median_time(function, repeats: int = 200) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    torch.set_num_threads(2)
    X = np.random.default_rng(0).standard_normal((5000, 54)).astype(np.float32)
    figures: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.krepes"
        KernelEmbedding(250, kernel="gaussian", n_landmarks=2000, random_state=0).fit(X).save(
            path, moments=False
        )
        start = time.perf_counter()
        model = load(path)
        figures["load without moments: ms"] = round(1e3 * (time.perf_counter() - start), 1)
        row = X[:1]
        figures["krepes transform of one row: ms"] = round(1e3 * median_time(lambda: model.transform(row)), 3)
        with safe_open(path, framework="np") as file:
            state = json.loads(file.metadata()["krepes"])["state"]["~dict"]
            names = (".solution.A", ".solution.gamma", ".landmarks")
            A, gamma, landmarks = (file.get_tensor(name) for name in names)
        length = state["kernel"]["state"]["~dict"]["lengthscale"]

        def plain(X: np.ndarray) -> np.ndarray:
            squared = ((X[:, None, :] - landmarks[None, :, :]) ** 2).sum(-1)
            return np.exp(-squared / (2 * length**2)) @ A + gamma

        assert np.allclose(plain(row), model.transform(row), atol=1e-3)
        figures["numpy + safetensors of one row: ms"] = round(1e3 * median_time(lambda: plain(row)), 3)
    record("latency", figures)


if __name__ == "__main__":
    main()
