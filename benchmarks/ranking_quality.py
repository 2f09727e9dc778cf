"""Which score of transferability ranks feature sets as a probe on other rows does?

    python benchmarks/ranking_quality.py WEIGHTS [--cache FOLDER]

Feature sets are the blocks of two pretrained networks, and noise; data sets CIFAR-10, MNIST and scenes. Scores see
100 or 500 labelled images, three draws; the probe is ridge regression on standardised features, tested on up to 2000
others. Printed: Spearman's correlation over feature sets, and accuracy lost by taking the first, means over data sets
and draws.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from recording import data_file, record
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from krepes.alignment import TransferStatistics, one_hot
from krepes.regression import LeaveOneOutRidge
from reproduction.experiments import Conditions
from reproduction.layer_transfer import DATASETS, NETWORKS, features_of

SCORES = ("leave_one_out", "squared", "log_cka", "logme", "h_score")
LABELS, DRAWS, NOISE = (100, 500), 3, 64


def judged(
    Z: np.ndarray, y: np.ndarray, Z_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, dict[str, float]]:
    """Accuracy of the probe on other rows, and every score on the labelled ones."""
    found = TransferStatistics(y).update(Z).score()
    mean, scale = Z.mean(axis=0), Z.std(axis=0)
    scale = np.where(scale > 1e-12, scale, 1.0)
    probe = LeaveOneOutRidge().fit((Z - mean) / scale, one_hot(y))
    told = np.unique(y)[probe.predict((Z_test - mean) / scale).argmax(axis=1)]
    scores = {name: getattr(found, name) for name in SCORES if name != "squared"}
    return float((told == y_test).mean()), scores | {"squared": -float(probe.errors_.min())}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    conditions = Conditions(data=data_file("mnist.npz").parent, weights=options.weights, cache=options.cache)
    results: dict[tuple[int, str], list[tuple[float, float]]] = {}
    noise = np.random.default_rng(0)
    for dataset in DATASETS:
        sets: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for network in NETWORKS:
            pool, y, test, y_test = features_of(network, dataset, conditions)
            sets |= {f"{network.name} {name}": (pool[name], test[name]) for name in pool}
        sets["noise"] = (noise.normal(size=(len(y), NOISE)), noise.normal(size=(len(y_test), NOISE)))
        for n in LABELS:
            for seed in range(DRAWS):
                rows = np.sort(np.random.default_rng(seed).permutation(len(y))[:n])
                found = [judged(Z[rows], y[rows], Z_test, y_test) for Z, Z_test in sets.values()]
                right = np.array([accuracy for accuracy, _ in found])
                for name in SCORES:
                    values = np.nan_to_num([scores[name] for _, scores in found], neginf=-1e9)
                    lost = 100 * (right.max() - right[values.argmax()])
                    results.setdefault((n, name), []).append((spearmanr(values, right).statistic, lost))
        print(dataset, len(sets), "feature sets", flush=True)
    figures = {}
    for (n, name), values in results.items():
        correlation, lost = np.mean(values, axis=0)
        figures[f"{name}, {n} labels"] = {
            "correlation": round(float(correlation), 3),
            "points lost": round(float(lost), 2),
        }
        print(f"{name:14} {n} labels: {figures[f'{name}, {n} labels']}")
    record("ranking_quality", figures)


if __name__ == "__main__":
    main()
