"""The effect of single training rows: the first-order form beside the exact one, and what each takes.

    python benchmarks/row_effects.py [--fit 3000] [--effects 60] [--landmarks 300]

Rank correlation (Spearman) over random rows of the training data, on 100 rows that the model has not seen.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from faithfulness import rows_of
from recording import record
from scipy.stats import spearmanr

from krepes import KernelEmbedding
from krepes.explain import row_effect
from krepes.machines import KernelRidgeClassifier

DATA = ("digits", "satimage", "adult")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fit", type=int, default=3000)
    parser.add_argument("--effects", type=int, default=60)
    parser.add_argument("--landmarks", type=int, default=300)
    args = parser.parse_args()
    figures: dict = {}
    for name in DATA:
        X, y = rows_of(name)
        n = min(args.fit, len(y) - 100)
        rows = np.random.default_rng(1).choice(n, args.effects, replace=False)
        shared = {"n_landmarks": args.landmarks, "dtype": "float64", "random_state": 0}
        models = {
            "spectral contrastive": (KernelEmbedding(32, **shared).fit(X[:n]), {}),
            "kernel PCA": (KernelEmbedding(32, loss="kernel_pca", **shared).fit(X[:n]), {}),
            "ridge machine": (KernelRidgeClassifier(**shared).fit(X[:n], y[:n]), {"y": y[:n]}),
        }
        for kind, (model, given) in models.items():
            found, seconds = {}, {}
            for method in ("exact", "first_order"):
                start = time.perf_counter()
                found[method] = row_effect(model, X[:n], rows, on=X[n:][:100], method=method, **given)
                seconds[method] = (time.perf_counter() - start) / len(rows)
            figures[f"{name}, {kind}"] = {
                "rank correlation": round(
                    float(spearmanr(found["exact"].total, found["first_order"].total)[0]), 4
                ),
                "median ratio": round(float(np.median(found["first_order"].total / found["exact"].total)), 3),
                "milliseconds a row, exact": round(1000 * seconds["exact"], 1),
                "milliseconds a row, first order": round(1000 * seconds["first_order"], 1),
                "largest effect": round(float(found["exact"].total.max()), 4),
            }
            print(name, kind, figures[f"{name}, {kind}"], flush=True)
    record("row_effects", figures)


if __name__ == "__main__":
    main()
