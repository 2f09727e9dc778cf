"""One pass over CoverType and Higgs: the kernel machine beside Nyström features of scikit-learn, boosting and xRFM.

python benchmarks/large_tables.py covertype            seven classes, nine tenths of 581 012 rows for learning
python benchmarks/large_tables.py covertype2           class 2 against the rest
python benchmarks/large_tables.py higgs
python benchmarks/large_tables.py memory               peak memory of a fit from Parquet with 10^5 and 5 * 10^5 rows

Accuracy on the other rows, balanced accuracy, seconds of fit and of prediction, one model after the other.
xRFM needs the package xrfm; it learns from at most --xrfm-rows rows, in leaves of at most 15 000.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recording import data_file, record
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from krepes.machines import KernelRidgeClassifier

LEAF = 15_000
FIT = """
import resource, sys
from krepes.machines import KernelRidgeClassifier
KernelRidgeClassifier(n_landmarks=1000, random_state=0).fit(sys.argv[1], "y")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    stored = np.load(data_file("higgs_26k.npz" if name == "higgs" else "covtype.npz"))
    X, y = stored["X"].astype(np.float32), stored["y"]
    return X, (y == 2).astype(int) if name == "covertype2" else y


def scikit_learn(X: np.ndarray) -> Any:
    """2000 Nyström features of a Gaussian kernel at the median, and ridge regression on indicators, in float32."""
    some = StandardScaler().fit_transform(X[np.random.default_rng(0).permutation(len(X))[:1000]])
    distances = np.square(some[:, None] - some[None]).sum(-1)
    gamma = 1 / np.median(distances[np.triu_indices(len(some), 1)])
    return make_pipeline(
        StandardScaler(), Nystroem(gamma=gamma, n_components=2000, random_state=0), RidgeClassifier(1e-3)
    )


class Xrfm:
    """xRFM with a fifth of its rows for validation."""

    most_rows = 100_000

    def fit(self, X: np.ndarray, y: np.ndarray) -> Xrfm:
        from xrfm import xRFM

        rows = np.random.default_rng(0).permutation(len(X))[: self.most_rows]
        train, validation = np.split(rows, [int(0.8 * len(rows))])
        self.scaler = StandardScaler().fit(X)
        self.classes, codes = np.unique(y, return_inverse=True)
        self.model = xRFM(max_leaf_size=LEAF, device="cpu", tuning_metric="accuracy")
        Z = self.scaler.transform(X)
        self.model.fit(Z[train], codes[train], Z[validation], codes[validation])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes[np.asarray(self.model.predict(self.scaler.transform(X))).ravel().astype(int)]


MODELS: dict[str, Callable[[np.ndarray], Any]] = {
    "krepes 2000": lambda X: KernelRidgeClassifier(n_landmarks=2000, random_state=0),
    "krepes 5000": lambda X: KernelRidgeClassifier(n_landmarks=5000, random_state=0),
    "Nystroem 2000": scikit_learn,
    "boosting": lambda X: HistGradientBoostingClassifier(random_state=0),
    "boosting 1000": lambda X: HistGradientBoostingClassifier(
        max_iter=1000, early_stopping=True, random_state=0
    ),
    "xRFM": lambda X: Xrfm(),
}


def accuracies(name: str, names: list[str]) -> dict[str, Any]:
    X, y = load(name)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [int(0.9 * len(order))])
    figures: dict[str, Any] = {"rows": len(train), "test rows": len(test)}
    for model_name in names:
        start = time.perf_counter()
        model = MODELS[model_name](X).fit(X[train], y[train])
        fitted = time.perf_counter()
        predicted = model.predict(X[test])
        figures |= {
            f"{model_name}: accuracy": round(100 * float(np.mean(predicted == y[test])), 2),
            f"{model_name}: balanced accuracy": round(100 * balanced_accuracy_score(y[test], predicted), 2),
            f"{model_name}: seconds of fit": round(fitted - start, 1),
            f"{model_name}: seconds of prediction": round(time.perf_counter() - fitted, 1),
        }
        print({key: value for key, value in figures.items() if key.startswith(f"{model_name}:")}, flush=True)
    return figures


def peak_memory() -> dict[str, Any]:
    """Megabytes of a process that fits from Parquet, for two numbers of rows."""
    X, y = load("covertype")
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in (100_000, 500_000):
            path = Path(folder) / f"{n}.parquet"
            frame = pd.DataFrame(X[:n], columns=[f"c{i}" for i in range(X.shape[1])]).assign(y=y[:n])
            frame.to_parquet(path, row_group_size=50_000)
            done = subprocess.run(
                [sys.executable, "-c", FIT, str(path)], capture_output=True, text=True, check=True
            )
            figures[f"{n} rows: MB"] = round(int(done.stdout.split()[-1]) / 1024)
    figures["ratio"] = round(figures["500000 rows: MB"] / figures["100000 rows: MB"], 3)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Large tables.")
    parser.add_argument("data", choices=["covertype", "covertype2", "higgs", "memory"])
    parser.add_argument("--models", default="krepes 2000,krepes 5000,Nystroem 2000,boosting,boosting 1000")
    parser.add_argument("--xrfm-rows", type=int, default=Xrfm.most_rows)
    options = parser.parse_args()
    Xrfm.most_rows = options.xrfm_rows
    found = peak_memory() if options.data == "memory" else accuracies(options.data, options.models.split(","))
    record(f"large_tables_{options.data}", found)


if __name__ == "__main__":
    main()
