"""Accuracy against the number of labels, for images: the default beside raw pixels and kernel PCA.

python benchmarks/few_labels.py mnist                 20 000 images without labels, 1000 landmarks, 128 components
python benchmarks/few_labels.py digits scenes coil yale cifar10 --labels 50,100,300,1000

One probe for all (`krepes.evaluation.linear_probe`), mean of `--draws` draws of the labels. Test rows are never seen.
"""

from __future__ import annotations

import argparse
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


def representations(X: np.ndarray, X_test: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    scale = 255.0 if X.dtype == np.uint8 else 1.0
    given: dict[str, Any] = {"n_components": N_COMPONENTS, "n_landmarks": N_LANDMARKS, "random_state": 0}
    model = KernelEmbedding(**given).fit(X)
    models = {
        "kernel PCA": KernelEmbedding(**given, loss="kernel_pca").fit(X),
        "default": model,
        "loss's scale": model.rescaled("loss"),
    }
    raw = {
        "raw pixels": tuple((each.reshape(len(each), -1) / scale).astype(np.float32) for each in (X, X_test))
    }
    return raw | {name: (each.transform(X), each.transform(X_test)) for name, each in models.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy against the number of labels.")
    parser.add_argument("sets", nargs="+", help="mnist, cifar10, digits, scenes, coil, yale")
    parser.add_argument("--labels", default="50,100,300,1000,3000")
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    for name in options.sets:
        X, y, X_test, y_test = images(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = representations(X, X_test)
            for what, (Z, Z_test) in found.items():
                for n_labels in (int(k) for k in options.labels.split(",") if int(k) <= 0.8 * len(X)):
                    draws = (
                        np.random.default_rng(seed).permutation(len(X))[:n_labels]
                        for seed in range(options.draws)
                    )
                    scores = [100 * linear_probe(Z[rows], y[rows], Z_test, y_test).accuracy for rows in draws]
                    figures[f"{name}, {n_labels} labels, {what}"] = round(float(np.mean(scores)), 1)
    record("few_labels", figures)


if __name__ == "__main__":
    main()
