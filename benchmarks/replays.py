"""Replays: several rounds of steps for every row read, where views are drawn anew in every epoch.

    python benchmarks/replays.py [--rows 10000] [--landmarks 1000] [--components 64] [--loss simclr]

With fresh views every epoch computes the kernel of every row with the landmarks again, which costs more than the steps.
Adam trains for 50 epochs, for fewer, and for as few with so many replays that there are about as many steps; all with
the same learning rates to choose from, judged by the loss on the same held-out batches.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from recording import data_file, record

from krepes import KernelEmbedding
from krepes.solvers import SGD

RATES = (0.1, 0.3)
RUNS = ((50, 1), (25, 1), (25, 2), (12, 1), (12, 4), (6, 1), (6, 8))  # epochs, replays


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--loss", default="simclr")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    X = np.load(data_file("mnist.npz"))["X"][: args.rows]
    figures: dict = dict(vars(args))
    first = None
    for epochs, replays in RUNS:
        losses, times = {}, []
        for rate in RATES:
            solver = SGD(
                fresh_views=True,
                patience=None,
                learning_rate=rate,
                replays=replays,
                max_epochs=epochs,
            )
            model = KernelEmbedding(
                args.components, loss=args.loss, solver=solver, n_landmarks=args.landmarks, random_state=0
            )
            begin = time.perf_counter()
            model.fit(X)
            times.append(time.perf_counter() - begin)
            losses[rate] = round(min(epoch["held_out"] for epoch in model.history_), 4)
        seconds = sum(times) / len(times)
        first = first or seconds
        figures[f"{epochs} epochs, {replays} replays: held-out loss by learning rate"] = losses
        figures[f"{epochs} epochs, {replays} replays: seconds, ratio"] = [
            round(seconds, 1),
            round(seconds / first, 3),
        ]
    record("replays", figures)


if __name__ == "__main__":
    main()
