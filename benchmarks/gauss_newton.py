"""Gauss-Newton against Adam: feature reads to the same loss.

    python benchmarks/gauss_newton.py [--rows 10000] [--landmarks 500] [--components 64]

Adam trains W in batches of 256 for 50 epochs with the best of several learning rates, Gauss-Newton for a third of the
epochs; both end their schedule with the last epoch. They start from the same principal components, on the same kept
features of MNIST, and are judged by the loss (regulariser included) on the same fixed batches of held-out rows. A
feature read is one row handed to a step; conjugate gradients work on batches in hand, so their products are counted
beside it, with the time. Questions that are answered for each loss:

- Does Gauss-Newton reach the loss of Adam on A, as published, after 50 epochs, and after how many reads?
- Does it reach that of Adam on W, this library's own and better conditioned coordinates?
- What does Adam reach with as many reads, its schedule made for them?
- How many reads does Adam take, on its way through 50 epochs, to the loss that Gauss-Newton ends with?
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from recording import data_file, record

from krepes import KernelEmbedding
from krepes.losses import BarlowTwins, SimCLR
from krepes.solvers import SGD
from krepes.solvers.preconditioners import GaussNewton

RATES = (0.1, 0.3, 1.0)  # lower ones end higher, 3 where 1 does
RATES_OF_A = (0.1, 0.3, 1.0, 3.0, 10.0)
# Chosen by the same held-out loss after more than a hundred runs; Adam's learning rate is one of three.
NEWTON = {
    "BarlowTwins": {"learning_rate": 1.0, "preconditioner": GaussNewton(max_iter=3, damping=2.0)},
    "SimCLR": {"learning_rate": 0.1, "preconditioner": GaussNewton(max_iter=3, damping=10.0)},
}


def trained(X: np.ndarray, args: argparse.Namespace, loss: object, **settings: object) -> tuple[list, float]:
    """The history of a fit, by epoch, and its seconds."""
    solver = SGD(validation_fraction=0.1, patience=None, **settings)
    model = KernelEmbedding(
        args.components,
        loss=loss,
        solver=solver,
        n_landmarks=args.landmarks,
        landmarks="uniform",
        random_state=0,
    )
    begin = time.perf_counter()
    model.fit(X)
    return model.history_, time.perf_counter() - begin


def lowest(history: list[dict]) -> float:
    return min(epoch["held_out"] for epoch in history)


def reads(history: list[dict], target: float) -> int | None:
    """Rows read when the held-out loss first was no more than the target."""
    return next((int(epoch["rows_read"]) for epoch in history if epoch["held_out"] <= target), None)


def compared(X: np.ndarray, args: argparse.Namespace, loss: object) -> dict:
    runs = {rate: trained(X, args, loss, learning_rate=rate, max_epochs=args.epochs) for rate in RATES}
    rate = min(runs, key=lambda r: lowest(runs[r][0]))
    adam, adam_seconds = runs[rate]
    third = args.epochs // 3
    short, _ = trained(X, args, loss, learning_rate=rate, max_epochs=third)
    newton, newton_seconds = trained(
        X, args, loss, max_epochs=third, warmup_epochs=0, **NEWTON[type(loss).__name__]
    )
    published = {
        r: trained(X, args, loss, learning_rate=r, max_epochs=args.epochs, coordinates="landmarks")
        for r in RATES_OF_A
    }
    best = min(published, key=lambda r: lowest(published[r][0]))
    on_A, on_A_seconds = published[best]
    newton_reads_A = reads(newton, lowest(on_A))
    target, reached = lowest(adam), lowest(newton)
    adam_reads, same = reads(adam, target), reads(adam, reached)
    newton_reads = reads(newton, target)
    return {
        "Adam on A, as published: held-out loss by learning rate": {
            r: round(lowest(h), 4) for r, (h, _) in published.items()
        },
        "Adam on A, as published: feature reads": reads(on_A, lowest(on_A)),
        "Adam on A, as published: seconds": round(on_A_seconds, 1),
        "Gauss-Newton: reads to the loss of Adam on A": newton_reads_A,
        "ratio of reads to the loss of Adam on A": newton_reads_A
        and round(newton_reads_A / reads(on_A, lowest(on_A)), 3),
        "Adam: held-out loss by learning rate": {r: round(lowest(h), 4) for r, (h, _) in runs.items()},
        "Adam: held-out loss": round(target, 4),
        "Adam: feature reads": adam_reads,
        "Adam: seconds": round(adam_seconds, 1),
        f"Adam, {third} epochs: held-out loss": round(lowest(short), 4),
        "Gauss-Newton: held-out loss": round(reached, 4),
        "Gauss-Newton: feature reads": int(newton[-1]["rows_read"]),
        "Gauss-Newton: Jacobian products": int(newton[-1]["jacobian_products"]),
        "Gauss-Newton: seconds": round(newton_seconds, 1),
        "Gauss-Newton: reads to Adam's loss": newton_reads,
        "ratio of reads to Adam's loss": newton_reads and round(newton_reads / adam_reads, 3),
        "Adam: reads to Gauss-Newton's loss": same,
        "ratio of reads to Gauss-Newton's loss": same and round(reads(newton, reached) / same, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    X = np.load(data_file("mnist.npz"))["X"][: args.rows]
    figures: dict = {"rows": args.rows, "landmarks": args.landmarks, "components": args.components}
    for loss in (BarlowTwins(), SimCLR()):
        figures |= {f"{type(loss).__name__}, {key}": value for key, value in compared(X, args, loss).items()}
    record("gauss_newton", figures)


if __name__ == "__main__":
    main()
