"""How much the parts of an explanation cancel, and what makes it less.

    python benchmarks/cancellation.py [--fit 2000]

    cancellation = median over rows of sum_l |part_l|, where the parts of a row, with the constant, add up to 1

by terms, k(x, x_l) a_l, and by values, u_l(x) z_l (docs/explain.md), beside the accuracy of a linear probe on rows that
the model has not seen, mean over two seeds, for other output scales, regularisation, noise and numbers of landmarks.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch
from faithfulness import rows_of
from recording import record

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain.expansion import Expansion
from krepes.explain.rankings import own_contributions, own_shares

DATA = ("digits", "satimage", "adult")
SETTINGS = [
    {},
    {"scale": "orthonormal"},
    {"scale": "unit"},
    {"scale": "loss"},
    {"regularization": 1e-3},
    {"regularization": 1e-2},
    {"feature_noise": 0.01},
    {"feature_noise": 0.1},
    {"loss": "kernel_pca"},
    {"n_components": 16},
    {"n_landmarks": 50},
    {"n_landmarks": 200},
    {"n_landmarks": 1000},
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fit", type=int, default=2000)
    args = parser.parse_args()
    figures: dict = {}
    for name in DATA:
        X, y = rows_of(name)
        n = min(args.fit, len(y) - 400)
        train, test = (X[:n], y[:n]), (X[n:][:400], y[n:][:400])
        for settings in SETTINGS:
            words = ", ".join(f"{key}={value}" for key, value in settings.items()) or "default"
            figures[f"{name}, {words}"] = measured(train, test, settings)
            print(name, words, figures[f"{name}, {words}"], flush=True)
    record("cancellation", figures)


def measured(train: tuple, test: tuple, settings: dict) -> dict[str, float]:
    """Means over two seeds."""
    found = []
    for seed in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # regularisation that cuts components says so
            parameters = {"n_components": 64, "n_landmarks": 500, "random_state": seed} | settings
            model = KernelEmbedding(**parameters).fit(train[0])
        expansion = Expansion.of(model)
        K = torch.cat(list(model.map_rows(model.features_.kernel_block, test[0]))).double()
        probe = linear_probe(model.transform(train[0]), train[1], model.transform(test[0]), test[1])
        parts = [
            method(expansion)(K).abs().sum(1).median().item() for method in (own_contributions, own_shares)
        ]
        found.append([*parts, 100 * probe.accuracy])
    terms, values, accuracy = np.mean(found, axis=0)
    return {"by terms": round(terms, 1), "by values": round(values, 2), "accuracy %": round(accuracy, 1)}


if __name__ == "__main__":
    main()
