"""Explaining 10,000 MNIST images against 2,000 landmarks, beside computing their kernel values.

    python benchmarks/explain.py [--rows 10000] [--landmarks 2000]

Kernel values are computed in the blocks in which a model computes them, and dropped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from recording import data_file, record

from krepes import KernelEmbedding
from krepes.explain.examples import examples, parts_along


def best(function: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--top", type=int, default=5)
    args = parser.parse_args()
    images = np.load(data_file("mnist.npz"))["X"]
    model = KernelEmbedding(256, kernel="gaussian", n_landmarks=args.landmarks, random_state=0).fit(
        images[:6000]
    )
    rows = images[-args.rows :]
    block = best(lambda: [None for _ in model.map_rows(model.features_.kernel_block, rows)])
    figures: dict = {
        "rows": args.rows,
        "landmarks": args.landmarks,
        "seconds of the kernel values": round(block, 3),
    }
    explanations = {
        "transform": lambda: model.transform(rows),
        "examples": lambda: examples(model, rows, args.top),
        "parts along a component": lambda: parts_along(model, rows, [0], args.top),
    }
    for name, explain in explanations.items():
        seconds = best(explain)
        figures[f"{name}: seconds"] = round(seconds, 3)
        figures[f"{name}: times the kernel values"] = round(seconds / block, 2)
    record("explain", figures)


if __name__ == "__main__":
    main()
