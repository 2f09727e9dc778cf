"""Accuracy against the number of labels, for images: pixels with views beside raw pixels and kernel PCA.

python benchmarks/few_labels.py mnist                 20 000 images without labels, 1000 landmarks, 128 components
python benchmarks/few_labels.py digits scenes coil yale cifar10 --labels 50,100,300,1000

One probe for all (`krepes.evaluation.linear_probe`), mean of `--draws` draws of the labels. Test rows are never seen.
`select` lets the labels of the draw choose among refits of the default model.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from recording import data_file, record
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe

N_COMPONENTS, N_LANDMARKS, MOST_ROWS = 128, 1000, 20_000


def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images to learn from and their labels, images to test on and theirs."""
    if name == "mnist":
        with np.load(data_file("mnist.npz")) as data:
            X, y = data["X"], data["y"]
        return X[:MOST_ROWS], y[:MOST_ROWS], X[60_000:], y[60_000:]
    if name == "cifar10":
        with (
            np.load(data_file("cifar10_train20k.npz")) as data,
            np.load(data_file("cifar10_test10k.npz")) as test,
        ):
            return data["X"][:MOST_ROWS], data["y"][:MOST_ROWS], test["X"], test["y"]
    X, y = small_set(name)
    order = np.random.default_rng(0).permutation(len(X))
    train, test_rows = np.split(order, [int(0.7 * len(X))])
    return X[train], y[train], X[test_rows], y[test_rows]


def small_set(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "digits":
        digits = load_digits()
        return digits.images / 16, digits.target
    files = {"scenes": "intel_scenes_32x32.npz", "coil": "coil20_32x32.npz", "yale": "yaleb_48x42.npz"}
    with np.load(data_file(files[name])) as data:
        X, y = data["X"], data["y"]
        kept = {"scenes": lambda: data["is_test"], "yale": lambda: ~data["bad"]}.get(
            name, lambda: slice(None)
        )()
    X, y = X[kept], y[kept]
    return (X / 4080 if X.dtype == np.uint16 else X), y


def flat(X: np.ndarray) -> np.ndarray:
    scale = 255.0 if X.dtype == np.uint8 else 1.0
    return (X.reshape(len(X), -1) / scale).astype(np.float32)


def accuracies(name: str, counts: list[int], n_draws: int) -> dict[str, Any]:
    """The mean accuracy of every representation by the number of labels, and the seconds of a fit and of a choice."""
    X, y, X_test, y_test = images(name)
    given: dict[str, Any] = {"n_components": N_COMPONENTS, "n_landmarks": N_LANDMARKS, "random_state": 0}
    given["kernel"] = "gaussian"  # of pixels; patches: benchmarks/patches.py
    start = time.perf_counter()
    model = KernelEmbedding(**given).fit(X)
    figures: dict[str, Any] = {
        f"{name}, views": str(model.views_),
        f"{name}, fit, s": time.perf_counter() - start,
    }
    models = {
        "kernel PCA": KernelEmbedding(**given, loss="kernel_pca").fit(X),
        "kernel PCA of the views": model.refit(loss="kernel_pca"),
        "default": model,
        "loss's scale": model.rescaled("loss"),
    }
    found = {what: (each.transform(X), each.transform(X_test)) for what, each in models.items()}
    found = {"raw pixels": (flat(X), flat(X_test))} | found
    seconds = []
    for n_labels in (count for count in counts if count <= 0.8 * len(X)):
        scores: dict[str, list[float]] = {what: [] for what in [*found, "select"]}
        for seed in range(n_draws):
            rows = np.random.default_rng(seed).permutation(len(X))[:n_labels]
            for what, (Z, Z_test) in found.items():
                scores[what].append(linear_probe(Z[rows], y[rows], Z_test, y_test).accuracy)
            start = time.perf_counter()
            chosen = model.select(X[rows], y[rows])
            seconds.append(time.perf_counter() - start)
            Z, Z_test = chosen.transform(X[rows]), chosen.transform(X_test)
            scores["select"].append(linear_probe(Z, y[rows], Z_test, y_test).accuracy)
        for what, values in scores.items():
            figures[f"{name}, {n_labels} labels, {what}"] = round(100 * float(np.mean(values)), 1)
    return figures | {f"{name}, a choice by labels, s": float(np.mean(seconds))}


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy against the number of labels.")
    parser.add_argument("sets", nargs="+", help="mnist, cifar10, digits, scenes, coil, yale")
    parser.add_argument("--labels", default="50,100,300,1000,3000")
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    counts = [int(count) for count in options.labels.split(",")]
    figures: dict[str, Any] = {}
    for name in options.sets:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figures |= accuracies(name, counts, options.draws)
    record("few_labels", figures)


if __name__ == "__main__":
    main()
