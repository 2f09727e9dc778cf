"""Which explanations are faithful: every method on digits, MNIST, CIFAR-10, Adult and two tables, with spread.

    python benchmarks/faithfulness.py [--rows 300] [--fit 4000] [--landmarks 500] [--refits 2] [--data digits ...]

A model of `--fit` rows with the default loss and kernel; rows that it has not seen are explained. Deletion: accuracy of
a linear probe (of the fitted rows' labels) without the first 1, 2, 5, 10 and 20 landmarks, whose terms are subtracted.
Stability: how close the first landmark is to that of a model of a bootstrap of the rows, with other landmarks: 1 - 2 *
(share of landmarks that are more like the one than the other is), 1 is the nearest there is, 0 chance. ± is a standard
error over rows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from recording import data_file, record
from sklearn.base import clone
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import faithfulness
from krepes.explain.expansion import Expansion
from krepes.explain.faithfulness import METHODS, ExplainedRows, closeness, first
from krepes.explain.retraining import Mean

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


def stability(model: KernelEmbedding, X: Any, asked: Any, n_refits: int) -> dict[str, np.ndarray]:
    """How close the first landmarks of rows are to those of refitted models, (rows,), by method."""
    draws = torch.Generator().manual_seed(0)
    methods = METHODS | {
        "random": lambda expansion: lambda K: torch.rand(len(K), len(expansion.at_landmarks), generator=draws)
    }
    mine = explained_by(model, asked)
    close: dict[str, list] = {name: [] for name in methods if n_refits}
    for draw in range(n_refits):
        other = refitted(model, X, np.random.default_rng([0, draw]))
        theirs, between = explained_by(other, asked), closeness_of(model, other, X)
        for name, found in close.items():
            places = [first(methods[name], rows, 1)[:, 0] for rows in (mine, theirs)]
            found.append(between[places[0], places[1]].numpy())
    return {name: np.mean(found, axis=0) for name, found in close.items()}


def explained_by(model: KernelEmbedding, asked: Any) -> ExplainedRows:
    blocks = list(model.map_rows(model.features_.kernel_block, asked))
    return ExplainedRows(Expansion.of(model), torch.cat(blocks).double())


def refitted(model: KernelEmbedding, X: Any, generator: np.random.Generator) -> KernelEmbedding:
    """The same model of a bootstrap of the rows, with landmarks drawn from the rows that are not landmarks yet."""
    n = len(X)
    free = np.setdiff1d(np.arange(n), model.landmark_indices_)
    drawn = np.sort(generator.permutation(free)[: len(model.landmark_indices_)])
    other = clone(model).set_params(landmarks=drawn, random_state=int(generator.integers(2**31 - 1)))
    counts = np.bincount(generator.integers(0, n, n), minlength=n).astype(np.float64)
    return other.fit(X, sample_weight=counts)


def closeness_of(model: KernelEmbedding, other: KernelEmbedding, X: Any) -> torch.Tensor:
    """How close landmarks of another model are to the model's, (m, m'), by its kernel."""
    order = np.argsort(other.landmark_indices_)
    theirs = model.space_.reader(X).take(other.landmark_indices_[order]).inputs[0]
    K = model.features_.kernel_block(theirs).double().mT  # (m, m')
    return closeness(K)[:, torch.from_numpy(np.argsort(order))]


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
            fit_rows=X[:n], fit_labels=y[:n],
        )  # fmt: skip
        for method, close in stability(model, X[:n], X[n:][: args.rows], args.refits).items():
            found.methods[method]["stability"] = close
        less = found.methods[found.default]["deletion"] - found.methods["kernel value"]["deletion"]
        print(f"\n{name}, {time.perf_counter() - start:.0f} s\n{found}", flush=True)
        figures[name] = {
            "what": found.title,
            "deletion, default less kernel value": str(Mean.of(less)),
            **{row.pop("method"): {key: str(value) for key, value in row.items()} for row in found.table()},
        }
    record("faithfulness", figures)


if __name__ == "__main__":
    main()
