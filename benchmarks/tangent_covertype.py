"""All 581,012 rows of CoverType with the tangent kernel of the ResMLP (4.9 million parameters), 2000 landmarks.

    python benchmarks/tangent_covertype.py factored|sketch [--rows N] [--slice 60000]

First two slices are fitted, and time and memory of the whole are projected from them; then the whole is fitted, with
one view a row (kernel PCA; a loss of two views takes twice the pass). Then a linear probe: labels on a tenth of the
rows, a held-out tenth for testing, as in tables.py. Landmarks, moments and solve are included in the seconds of a fit.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd
from recording import data_file, record

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.kernels import EmpiricalNTK

LABEL_SHARE = 0.1


def model(args: argparse.Namespace) -> KernelEmbedding:
    kernel = EmpiricalNTK("resmlp", method=args.method, seed=0)
    return KernelEmbedding(
        args.components, kernel=kernel, loss="kernel_pca", regularization=0.0, n_landmarks=args.landmarks,
        random_state=0, verbose=1,
    )  # fmt: skip


def seconds_of_fit(estimator: KernelEmbedding, rows: pd.DataFrame) -> float:
    start = time.perf_counter()
    estimator.fit(rows)
    return time.perf_counter() - start


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=("factored", "sketch"))
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--slice", type=int, default=60_000)  # half of it must exceed the landmark candidates
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--components", type=int, default=250)
    args = parser.parse_args()
    data = np.load(data_file("covtype.npz"))
    test = np.random.default_rng(0).random(len(data["y"])) < 0.1
    X = pd.DataFrame(data["X"], columns=[str(name) for name in data["feature_names"]])
    y, train = data["y"], np.flatnonzero(~test)[: args.rows]
    n = len(train)
    figures: dict = {"rows": n, "landmarks": args.landmarks, "components": args.components}
    figures["peak MB before"] = round(peak_mb(), 1)
    small, large = (
        seconds_of_fit(model(args), X.iloc[train[:size]]) for size in (args.slice // 2, args.slice)
    )
    per_row = (large - small) / (args.slice - args.slice // 2)
    figures["seconds of a fit on the slice"] = round(large, 1)
    figures["milliseconds per row, from two slices"] = round(1000 * per_row, 3)
    figures["projected seconds of the fit"] = round(large + per_row * (n - args.slice), 1)
    figures["peak MB of the slice, and so of the whole"] = round(peak_mb(), 1)
    fitted = model(args)
    figures["seconds of the fit"] = round(seconds_of_fit(fitted, X.iloc[train]), 1)
    figures["peak MB of the fit"] = round(peak_mb(), 1)
    labelled = np.random.default_rng(1).permutation(train)[: int(LABEL_SHARE * n)]
    tested = np.flatnonzero(test)[: max(1000, n // 9)]
    start = time.perf_counter()
    Z = fitted.transform(X.iloc[np.concatenate([labelled, tested])])
    figures["milliseconds per row of transform"] = round(1000 * (time.perf_counter() - start) / len(Z), 3)
    cut = len(labelled)
    probe = linear_probe(Z[:cut], y[labelled], Z[cut:], y[tested])
    figures["accuracy %"] = round(100 * probe.accuracy, 2)
    figures["balanced accuracy %"] = round(100 * probe.balanced_accuracy, 2)
    figures["labels"] = cut
    record(f"tangent_covertype_{args.method}", figures)


if __name__ == "__main__":
    main()
