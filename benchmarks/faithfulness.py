"""Which explanations are faithful: every method on digits, MNIST, CIFAR-10, Adult and two tables, with spread.

    python benchmarks/faithfulness.py [--rows 300] [--fit 4000] [--landmarks 500] [--refits 2] [--data digits ...]

A model of `--fit` rows with the default loss and kernel; rows that it has not seen are explained. Deletion: accuracy of
a linear probe (of the fitted rows' labels) without the first 1, 2, 5, 10 and 20 landmarks, whose terms are subtracted.
Refits are of a bootstrap of the rows, with other landmarks. ± is a standard error over rows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from recording import data_file, record
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import faithfulness

DATA = ("digits", "mnist", "cifar10", "adult", "satimage", "magic")
MORE = ("letter", "optdigits", "phoneme", "segment")


def rows_of(name: str) -> tuple[Any, np.ndarray]:
    """Rows and labels in random order."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X.reshape(-1, 8, 8) / 16
    elif name in ("mnist", "cifar10"):
        file = np.load(data_file({"mnist": "mnist.npz", "cifar10": "cifar10_train20k.npz"}[name]))
        X, y = file["X"], file["y"]
    else:
        table = pd.read_parquet(data_file("adult.parquet" if name == "adult" else f"tables/{name}.parquet"))
        label = "income" if name == "adult" else "target"
        label = label if label in table else table.columns[-1]
        X, y = table.drop(columns=[c for c in (label, "split") if c in table]), table[label].to_numpy()
    order = np.random.default_rng(0).permutation(len(y))
    return (X.iloc[order].reset_index(drop=True) if hasattr(X, "iloc") else X[order]), np.asarray(y)[order]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--fit", type=int, default=4000)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--refits", type=int, default=2)
    parser.add_argument("--data", nargs="+", default=[*DATA, *MORE], choices=[*DATA, *MORE])
    args = parser.parse_args()
    figures: dict = {}
    for name in args.data:
        X, y = rows_of(name)
        n = min(args.fit, len(y) - args.rows)
        model = KernelEmbedding(64, n_landmarks=args.landmarks, random_state=0).fit(X[:n])
        start = time.perf_counter()
        found = faithfulness(
            model, X[n:][: args.rows], y[n:][: args.rows],
            fit_rows=X[:n], fit_labels=y[:n], n_refits=args.refits,
        )  # fmt: skip
        print(f"\n{name}, {time.perf_counter() - start:.0f} s\n{found}", flush=True)
        figures[name] = {
            "what": found.title,
            "deletion, default less kernel value": str(found.difference(found.default, "kernel value")),
            **{row.pop("method"): {key: str(value) for key, value in row.items()} for row in found.table()},
        }
    record("faithfulness", figures)


if __name__ == "__main__":
    main()
