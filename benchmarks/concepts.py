"""Concepts of nothing and of something: how often p-values are small, and how often they should be.

    python benchmarks/concepts.py [--runs 300] [--svm-runs 100]

Null runs: rows of standard normal numbers (20 components), some of them called positives; the seeds are 0, 1, 2, ...
P(p <= alpha) should be alpha, within 3 standard errors of so many runs. Power: positives are shifted along one
direction by some standard deviations; the share of runs with p <= 0.05. Stability: of the direction under resampling,
for nothing and for the largest shift, and for permuted labels.
"""

from __future__ import annotations

import argparse

import numpy as np
from recording import record

from krepes.explain import Concept

SIZES = ((15, 15), (40, 8), (4, 60))
LEVELS = (0.01, 0.05, 0.1)
SHIFTS = (0.5, 1.0, 2.0)
WIDTH = 20


def concept(seed: int, sizes: tuple[int, int], method: str, shift: float, n_resamples: int = 0) -> Concept:
    """A concept of random rows, the positives shifted along the first component."""
    rng = np.random.default_rng(seed)
    positives, negatives = (rng.standard_normal((n, WIDTH)) for n in sizes)
    positives[:, 0] += shift
    found = Concept(method=method, n_resamples=n_resamples, random_state=seed)
    return found.fit_representation(positives, negatives)


def levels(p_values: np.ndarray) -> dict[str, str]:
    """P(p <= alpha), and how many standard errors it is from alpha."""
    found = {}
    for alpha in LEVELS:
        share = (p_values <= alpha + 1e-12).mean()
        error = np.sqrt(alpha * (1 - alpha) / len(p_values))
        found[f"P(p <= {alpha})"] = f"{share:.3f} ({(share - alpha) / error:+.1f} standard errors)"
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--svm-runs", type=int, default=100)
    args = parser.parse_args()
    figures: dict = {}
    for method, runs, tries in (("mean_difference", args.runs, 100), ("svm", args.svm_runs, 20)):
        for sizes in SIZES:
            name = f"{method}, {sizes[0]} against {sizes[1]}"
            null = np.array([concept(seed, sizes, method, 0.0).p_value_ for seed in range(runs)])
            figures[f"{name}, {runs} null runs"] = levels(null)
            for shift in SHIFTS:
                found = [concept(seed, sizes, method, shift).p_value_ for seed in range(tries)]
                figures[f"{name}, power at a shift of {shift}"] = float((np.array(found) <= 0.05).mean())
    for shift in (0.0, SHIFTS[-1]):
        found = [concept(seed, (40, 40), "mean_difference", shift, n_resamples=20) for seed in range(20)]
        figures[f"stability at a shift of {shift}, 40 against 40"] = {
            "stability": round(float(np.mean([each.stability_ for each in found])), 3),
            "by chance": round(float(np.mean([each.stability_by_chance_ for each in found])), 3),
            "share with p <= 0.05": float(np.mean([each.stability_p_value_ <= 0.05 for each in found])),
        }
    record("concepts", figures)


if __name__ == "__main__":
    main()
