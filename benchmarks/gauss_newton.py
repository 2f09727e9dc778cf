"""Gauss-Newton against Adam: feature reads to the same loss.

    python benchmarks/gauss_newton.py [--rows 10000] [--landmarks 500] [--components 64] [--seed 0]

Adam trains W in batches of 256 for 50 epochs with the best of several learning rates, Gauss-Newton for a third of the
epochs; both end their schedule with the last epoch. They start from the same principal components, on the same kept
features of MNIST, and are judged by the loss (regulariser included) on the same fixed batches of held-out rows. A
feature read is one row handed over by the data; Gauss-Newton deals stretches of eight batches in hand six times
(replays), and its conjugate gradients work on them too, so steps and Jacobian products are counted beside the reads,
with the time. Questions that are answered for each loss:

- Does Gauss-Newton reach the loss of Adam on A, as published, after 50 epochs, and after how many reads?
- Does it reach that of Adam on W, this library's own and better conditioned coordinates?
- What do the two parts do alone: Adam with the same replays, Gauss-Newton without?
- What does Adam reach with as many reads, its schedule made for them?
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from recording import data_file, record

from krepes import KernelEmbedding
from krepes.losses import BarlowTwins, SimCLR
from krepes.solvers import SGD
from krepes.solvers.sgd import GaussNewton

RATES = (0.1, 0.3, 1.0)  # lower ones end higher, 3 where 1 does
RATES_OF_A = (0.1, 0.3, 1.0, 3.0, 10.0)
REPLAYS = {"replays": 6, "replay_batches": 8}
Run = tuple[list[dict], float]  # history and seconds
# Chosen by the same held-out loss after more than a hundred runs; Adam's learning rate is one of three.
NEWTON = {
    "BarlowTwins": {"learning_rate": 1.0, "preconditioner": GaussNewton(max_iter=1, damping=2.0, floor=1.0)},
    "SimCLR": {"learning_rate": 0.2, "preconditioner": GaussNewton(max_iter=3, damping=10.0, floor=3.0)},
}
NEWTON_ONCE = {
    "BarlowTwins": {"learning_rate": 1.0, "preconditioner": GaussNewton(max_iter=3, damping=2.0)},
    "SimCLR": {"learning_rate": 0.1, "preconditioner": GaussNewton(max_iter=3, damping=10.0)},
}


def trained(X: np.ndarray, args: argparse.Namespace, loss: object, **settings: object) -> Run:
    """The history of a fit, by epoch, and its seconds."""
    solver = SGD(validation_fraction=0.1, patience=None, **settings)
    model = KernelEmbedding(
        args.components,
        loss=loss,
        solver=solver,
        n_landmarks=args.landmarks,
        landmarks="uniform",
        random_state=args.seed,
    )
    begin = time.perf_counter()
    model.fit(X)
    return model.history_, time.perf_counter() - begin


def lowest(history: list[dict]) -> float:
    return min(epoch["held_out"] for epoch in history)


def reads(history: list[dict], target: float) -> int | None:
    """Rows read when the held-out loss first was no more than the target."""
    return next((int(epoch["rows_read"]) for epoch in history if epoch["held_out"] <= target), None)


def best_of(rates: tuple[float, ...], run: Callable[[float], Run]) -> tuple[Run, dict[float, float]]:
    """The run with the lowest held-out loss, and that of all."""
    runs = {rate: run(rate) for rate in rates}
    losses = {rate: round(lowest(history), 4) for rate, (history, _) in runs.items()}
    return runs[min(losses, key=losses.__getitem__)], losses


def compared(X: np.ndarray, args: argparse.Namespace, loss: object) -> dict:
    third = args.epochs // 3
    name = type(loss).__name__

    def adam(epochs: int, **settings: object) -> Callable[[float], Run]:
        return lambda rate: trained(X, args, loss, learning_rate=rate, max_epochs=epochs, **settings)

    def newton(settings: dict) -> Run:
        return trained(X, args, loss, max_epochs=third, warmup_epochs=0, **settings)

    runs = {
        "Adam on A, as published": best_of(RATES_OF_A, adam(args.epochs, coordinates="landmarks")),
        "Adam": best_of(RATES, adam(args.epochs)),
        f"Adam, {third} epochs": best_of(RATES, adam(third)),
        f"Adam, {third} epochs with replays": best_of(RATES, adam(third, **REPLAYS)),
    }
    figures: dict = {}
    for label, ((history, seconds), losses) in runs.items():
        figures[f"{label}: held-out loss by learning rate"] = losses
        figures[f"{label}: reads, seconds"] = [reads(history, lowest(history)), round(seconds, 1)]
    once, once_seconds = newton(NEWTON_ONCE[name])
    figures["Gauss-Newton without replays: held-out loss"] = round(lowest(once), 4)
    figures["Gauss-Newton without replays: reads, seconds"] = [
        int(once[-1]["rows_read"]),
        round(once_seconds, 1),
    ]
    history, seconds = newton(NEWTON[name] | REPLAYS)
    figures["Gauss-Newton: held-out loss"] = round(lowest(history), 4)
    figures["Gauss-Newton: reads, seconds"] = [int(history[-1]["rows_read"]), round(seconds, 1)]
    figures["Gauss-Newton: Jacobian products"] = int(history[-1]["jacobian_products"])
    for label in ("Adam on A, as published", "Adam"):
        (theirs, _), _ = runs[label]
        target = lowest(theirs)
        mine, their_reads = reads(history, target), reads(theirs, target)
        figures[f"Gauss-Newton: reads to the loss of {label}"] = mine
        figures[f"ratio of reads to the loss of {label}"] = mine and round(mine / their_reads, 3)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    X = np.load(data_file("mnist.npz"))["X"][: args.rows]
    figures: dict = {
        "rows": args.rows,
        "landmarks": args.landmarks,
        "components": args.components,
        "seed": args.seed,
    }
    for loss in (BarlowTwins(), SimCLR()):
        figures |= {f"{type(loss).__name__}, {key}": value for key, value in compared(X, args, loss).items()}
    record("gauss_newton" + (f"_seed_{args.seed}" if args.seed else ""), figures)


if __name__ == "__main__":
    main()
