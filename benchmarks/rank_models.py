"""Ranking 50 candidate models on the same data: passes, memory and time.

    python benchmarks/rank_models.py [--models 50] [--rows 20000] [--more-rows 200000]

Features of 256 float32 numbers are made block by block from a seed, so that no model's features are ever held. Every
block is counted: one pass means that each is made once. Times are CPU seconds without those of making the features,
beside a plain pass (the sum of the same blocks) and LogME as published, whose decomposition needs all rows at once.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
from recording import record

from krepes.alignment import Transferability, transferability

WIDTH, BLOCK, N_CLASSES = 256, 4096, 10


class Model:
    """Features as a stream of blocks that counts how often it is read, and the time that making them takes."""

    def __init__(self, number: int, y: np.ndarray):
        self.number, self.y = number, y
        self.n_rows, self.seconds = 0, 0.0
        rng = np.random.default_rng(number)
        self.means = (0.02 * number * rng.standard_normal((N_CLASSES, WIDTH))).astype(np.float32)

    def __iter__(self) -> Iterator[np.ndarray]:
        rng = np.random.default_rng(self.number)
        for start in range(0, len(self.y), BLOCK):
            begin = time.process_time()
            labels = self.y[start : start + BLOCK]
            X = rng.standard_normal((len(labels), WIDTH), dtype=np.float32) + self.means[labels]
            self.n_rows += len(X)
            self.seconds += time.process_time() - begin
            yield X


def labels(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, N_CLASSES, n)


def ranked(
    n_models: int, y: np.ndarray, **settings: object
) -> tuple[dict[str, Model], Transferability, float]:
    """Models, their ranking, and CPU seconds per model without those of making its features."""
    models = {f"model {number:02d}": Model(number, y) for number in range(n_models)}
    start = time.process_time()
    found = transferability(models, y, **settings)  # type: ignore[arg-type]
    seconds = time.process_time() - start - sum(model.seconds for model in models.values())
    return models, found, round(seconds / n_models, 3)


def plain(model: Model) -> float:
    start = time.process_time()
    for X in model:
        X.sum()
    return time.process_time() - start - model.seconds


def published_logme(F: np.ndarray, y: np.ndarray) -> float:
    """[logme, Alg. 2]: singular value decomposition, then a fixed point per class."""
    n, d = F.shape
    u, s, _ = np.linalg.svd(F.astype(np.float64), full_matrices=False)
    s = s**2
    values = []
    for c in range(N_CLASSES):
        target, alpha, beta = (y == c).astype(float), 1.0, 1.0
        x2 = (u.T @ target) ** 2
        rest = target @ target - x2.sum()
        for _ in range(100):
            t, before = alpha / beta, alpha / beta
            used = (s / (s + t)).sum()
            m2 = (s * x2 / (t + s) ** 2).sum()
            residual = (x2 / (1 + s / t) ** 2).sum() + rest
            alpha, beta = used / m2, (n - used) / residual
            if abs(alpha / beta - before) <= 1e-5 * before:
                break
        evidence = (d * np.log(alpha) + n * np.log(beta) - np.log(alpha + beta * s).sum()) / 2
        values.append((evidence - (beta * residual + alpha * m2 + n * np.log(2 * np.pi)) / 2) / n)
    return float(np.mean(values))


def peak(n: int, **settings: object) -> float:
    """The most memory, in MB, that Python and numpy hold at once while a model of n rows is scored, labels aside."""
    y = labels(n)
    tracemalloc.start()
    transferability({"model": Model(1, y)}, y, **settings)  # type: ignore[arg-type]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(most / 1e6, 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--more-rows", type=int, default=200_000)
    args = parser.parse_args()
    y = labels(args.rows)
    models, found, seconds = ranked(args.models, y)
    by_name = [int(name.split()[1]) for name in found.ranking]
    figures: dict[str, object] = {
        "models": args.models,
        "rows": args.rows,
        "passes per model": sorted({model.n_rows / args.rows for model in models.values()}),
        "rank correlation with the strength of the signal": round(
            float(np.corrcoef(by_name, np.arange(len(by_name))[::-1])[0, 1]), 3
        ),
        "CPU seconds per model, all scores": seconds,
    }
    sketched = ranked(args.models, y, scores=("log_cka",), method="sketch")
    figures["CPU seconds per model, sketched CKA alone, its permutations included"] = sketched[2]
    order = {name: place for place, name in enumerate(sketched[1].ranking)}
    figures["rank correlation of sketched and exact CKA"] = round(
        float(np.corrcoef([order[name] for name in found.ranking], np.arange(args.models))[0, 1]), 3
    )
    figures["CPU seconds per model, a plain pass"] = round(
        float(np.median([plain(Model(k, y)) for k in range(5)])), 3
    )
    F = np.concatenate(list(Model(args.models - 1, y)))
    start = time.process_time()
    naive = published_logme(F, y)
    figures["CPU seconds per model, LogME as published"] = round(time.process_time() - start, 3)
    figures["LogME: difference from the published one"] = float(abs(naive - found.scores["logme"][-1]))
    for name, settings in (
        ("all scores", {}),
        ("sketched CKA", {"scores": ("log_cka",), "method": "sketch"}),
    ):
        for n in (args.rows, args.more_rows):
            figures[f"{name}: peak MB at {n:,} rows"] = peak(n, **settings)
    figures["features of a model at the larger size: MB"] = round(4e-6 * args.more_rows * WIDTH, 1)
    record("rank_models", figures)


if __name__ == "__main__":
    main()
