"""Pictures by patches: accuracy by number of labels beside pixels, ablations, clusters, and speed.

    python benchmarks/patches.py table digits coil scenes yale mnist cifar10 --labels 50,100,300,1000 --draws 3
    python benchmarks/patches.py rules digits coil mnist scenes cifar10 yale --rows 1000 --test 500 --patches 64
    python benchmarks/patches.py ablation cifar10 --rows 4000
    python benchmarks/patches.py clusters digits coil yale
    python benchmarks/patches.py speed

`table`: representations are learned from all training pictures without labels, then probed with few labels drawn
`--draws` times (mean and standard error), or with all. Linear probes are ridge regression with the penalty chosen by
leave-one-out; "of 5" is the five nearest neighbours. Test rows are never seen. `ablation` varies one setting at a
time, as [thiry] do. `speed` counts the operations of the two matrix products of a layer, and compares their rate with
one large sgemm.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from few_labels import flat, images, small_set
from recording import record, recorded
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import KNeighborsClassifier

from krepes import KernelEmbedding
from krepes.clustering import SubspaceClustering
from krepes.features import learn_patches
from krepes.kernels import Patches
from krepes.regression.ridge import LeaveOneOutRidge
from krepes.views import Image

Features = Callable[[np.ndarray], np.ndarray]

N_COMPONENTS, N_LANDMARKS = 256, 1000
PHOTOGRAPHS = ("cifar10", "scenes")
# accuracy on CIFAR-10 with all 50,000 labels, 2048 patches  [thiry, Table 3 and 4]
PUBLISHED = {"whitening 0.1": 77.0, "whitening 0.01": 81.5, "whitening 0.001": 82.7, "whitening 0.0001": 82.2}


def hog(X: np.ndarray) -> np.ndarray:
    from skimage.feature import hog as histogram

    side = min(X.shape[1:3])
    options = {"pixels_per_cell": (max(2, side // 4),) * 2, "cells_per_block": (2, 2), "orientations": 9}
    return np.stack([histogram(x, channel_axis=-1 if x.ndim == 3 else None, **options) for x in X])


def representations(name: str, options: argparse.Namespace) -> dict[str, Callable[[np.ndarray], Features]]:
    """Names, and what learns features of pictures from pictures without labels."""
    given: dict[str, Any] = {"n_components": N_COMPONENTS, "n_landmarks": N_LANDMARKS, "random_state": 0}
    start = Patches(options.patches, mirror=name in PHOTOGRAPHS and options.mirror)
    two = clone(start).set_params(layers=2)
    views = Image(strength="auto", flip="auto")

    def explicit(kernel: Patches) -> Features:
        return lambda rows: np.concatenate(
            [kernel.features(scaled(rows[i : i + 2000])).numpy() for i in range(0, len(rows), 2000)]
        )

    def embedded(**changed: Any) -> Callable[[np.ndarray], Features]:
        return lambda X: KernelEmbedding(**given | changed).fit(X).transform

    return {
        "raw pixels": lambda X: flat,
        "HOG": lambda X: hog,
        "kernel PCA": embedded(kernel="gaussian", loss="kernel_pca"),
        "pixels, views": embedded(kernel="gaussian"),
        "patches": lambda X: explicit(start.fitted(scaled(X))),
        "patches, views": embedded(kernel=start, views=views),
        "learned patches": lambda X: explicit(learn_patches(X, start, n_components=options.components)),
        "two layers": lambda X: explicit(two.fitted(scaled(X))),
        "auto": embedded(),
    }


def scaled(X: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((X / (255.0 if X.dtype == np.uint8 else 1.0)).astype(np.float32))


def linear(Z: np.ndarray, y: np.ndarray, Z_test: np.ndarray, y_test: np.ndarray) -> float:
    """Accuracy of ridge regression of one-hot labels, the penalty by leave-one-out."""
    classes, codes = np.unique(y, return_inverse=True)
    scale = np.square(Z - Z.mean(0)).sum(1).mean() ** 0.5  # so that penalties mean the same everywhere
    model = LeaveOneOutRidge(np.logspace(-6, 2, 17)).fit(Z / scale, np.eye(len(classes))[codes])
    scores = model.predict(Z_test / scale)
    return float(100 * np.mean(classes[scores.argmax(1)] == y_test))


def neighbours(Z: np.ndarray, y: np.ndarray, Z_test: np.ndarray, y_test: np.ndarray) -> float:
    return 100 * KNeighborsClassifier(min(5, len(Z))).fit(Z, y).score(Z_test, y_test)


def table(options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in options.sets:
        X, y, X_test, y_test = images(name)
        X, y, X_test, y_test = (
            X[: options.rows],
            y[: options.rows],
            X_test[: options.test],
            y_test[: options.test],
        )
        for what, learn in representations(name, options).items():
            if options.only and what not in options.only.split(";"):
                continue
            start = time.perf_counter(), time.process_time()
            try:
                features = learn(X)
                Z, Z_test = (np.asarray(features(part), dtype=np.float32) for part in (X, X_test))
            except ImportError as missing:
                print(f"{what}: {missing}", flush=True)
                continue
            figures[f"{name}, {what}: learned and computed, s"] = round(time.perf_counter() - start[0], 1)
            figures[f"{name}, {what}: of them computing, s"] = round(time.process_time() - start[1], 1)
            figures |= probed(f"{name}, {what}", Z, y, Z_test, y_test, options)
            record(options.name, recorded(options.name) | figures, shown=False)
    return recorded(options.name) | figures


def probed(
    title: str,
    Z: np.ndarray,
    y: np.ndarray,
    Z_test: np.ndarray,
    y_test: np.ndarray,
    options: argparse.Namespace,
) -> dict[str, str]:
    """Mean accuracy and its standard error over draws of the labels, by their number, for both probes."""
    figures = {}
    for n in [*(int(count) for count in options.labels.split(",") if int(count) <= 0.8 * len(y)), len(y)]:
        draws = options.draws if n < len(y) else 1
        rows = [np.random.default_rng(seed).permutation(len(y))[:n] for seed in range(draws)]
        for kind, probe in (("linear", linear), ("of 5", neighbours)):
            found = [probe(Z[some], y[some], Z_test, y_test) for some in rows]
            error = f" ± {np.std(found, ddof=1) / draws**0.5:.1f}" if draws > 1 else ""
            figures[f"{title}, {n} labels, {kind}"] = f"{np.mean(found):.1f}{error}"
    print(title, [figures[key] for key in figures if key.endswith("linear")], flush=True)
    return figures


def rules(options: argparse.Namespace) -> dict[str, Any]:
    """What could choose between pixels and patches without labels, beside the accuracy of either."""
    figures: dict[str, Any] = {}
    for name in options.sets:
        X, y, X_test, y_test = images(name)
        first, test = scaled(X[: options.rows]), scaled(X_test[: options.test])
        views = Image(strength="auto", flip="auto").fitted(first, torch.Generator().manual_seed(0))
        three = [first, *views(first, torch.arange(len(first)), 0)]
        kernel = Patches(options.patches).fitted(first)
        for what in ("pixels", "patches"):
            Z = [
                (kernel.features(rows) if what == "patches" else rows).flatten(1).numpy()
                for rows in (*three, test)
            ]
            model = KernelEmbedding(
                64,
                kernel="linear" if what == "patches" else "gaussian",
                preprocess=None,
                n_landmarks=500,
                random_state=0,
            ).fit(Z[1], positives=Z[2])
            embedded = model.transform(Z[0]), y[: len(first)], model.transform(Z[3]), y_test[: len(test)]
            figures |= probed(f"{name}, {what}", *embedded, options)
            figures |= {f"{name}, {what}: {rule}": value for rule, value in unlabelled(*Z[:3]).items()}
            record(options.name, recorded(options.name) | figures, shown=False)
    return recorded(options.name) | figures


def unlabelled(
    X: np.ndarray, one: np.ndarray, two: np.ndarray, n: int = 500, k: int = 10
) -> dict[str, float]:
    """What views say of distances, for at most 500 images: rules that need no labels."""
    A, B, C = (rows[:n].astype(float) - X[:n].mean(0, dtype=float) for rows in (X, one, two))
    between = cdist(B, C)
    near = []
    for rows in (A, B, C):
        distances = cdist(rows, A)
        np.fill_diagonal(distances, np.inf)
        near.append(np.argsort(distances, 1)[:, :k])
    spectrum = np.linalg.eigvalsh(A @ A.T)
    noise = np.square(B - C).sum() / (np.square(B).sum() + np.square(C).sum())
    return {
        "misses": float(np.mean(between.argmin(1) != np.arange(len(A)))),
        "overlap of neighbours": float(np.mean([len({*p} & {*q}) / k for p, q in zip(near[1], near[2])])),
        "signal of views": float(1 - noise),
        "effective dimension": float(spectrum.sum() ** 2 / np.square(spectrum).sum()),
    }


def ablation(options: argparse.Namespace) -> dict[str, Any]:
    """Accuracy with 1000 labels, one setting changed at a time."""
    figures: dict[str, Any] = {}
    name = options.sets[0]
    X, y, X_test, y_test = (part[: options.rows] for part in images(name))
    settings: list[tuple[str, dict[str, Any]]] = [
        *((f"whitening {eps:g}", {"whitening": eps}) for eps in (0.1, 0.01, 0.001, 0.0001)),
        *((f"side {side}", {"side": side}) for side in (4, 5, 6, 8)),
        *((f"{n} patches", {"n_patches": n}) for n in (128, 256, 512, 1024)),
        *((f"{cells} x {cells} cells", {"cells": cells}) for cells in (1, 2, 3, 4)),
        *((f"{rule} dictionary", {"dictionary": rule}) for rule in ("kmeans", "uniform", "pivoted_cholesky")),
        ("gaussian pooling", {"pooling": "gaussian"}),
        ("not standardised", {"standardize": False}),
        ("mirrored", {"mirror": True}),
        ("two layers", {"layers": 2}),
    ]
    for what, setting in settings:
        kernel = Patches(**{"n_patches": options.patches} | setting).fitted(scaled(X))
        Z, Z_test = (kernel.features(scaled(part)).numpy() for part in (X, X_test))
        rows = [np.random.default_rng(seed).permutation(len(X))[:1000] for seed in range(options.draws)]
        found = [linear(Z[some], y[some], Z_test, y_test) for some in rows]
        beside = f", published with 50,000 labels: {PUBLISHED[what]}" if what in PUBLISHED else ""
        figures[f"{name}, 1000 labels, {what}"] = f"{np.mean(found):.1f}{beside}"
        print(what, figures[f"{name}, 1000 labels, {what}"], flush=True)
    return figures


def clusters(options: argparse.Namespace) -> dict[str, Any]:
    """Normalised mutual information of clusters and classes, for pixels and for patches."""
    figures: dict[str, Any] = {}
    for name in options.sets:
        X, y = (part[: options.rows] for part in small_set(name))
        kernel = Patches(options.patches).fitted(scaled(X))
        for what, rows in (("pixels", flat(X)), ("patches", kernel.features(scaled(X)).numpy())):
            labels = SubspaceClustering(len(np.unique(y)), random_state=0).fit_predict(rows)
            figures[f"{name}, {what}: nmi"] = round(normalized_mutual_info_score(y, labels), 3)
            print(name, what, figures[f"{name}, {what}: nmi"], flush=True)
    return figures


def speed(options: argparse.Namespace) -> dict[str, Any]:
    """Pictures per second of 32 x 32 x 3 pixels, and the share of the rate of one large product."""
    n, d, m = 1000, 6 * 6 * 3, options.patches
    X = torch.rand(n, 32, 32, 3, generator=torch.Generator().manual_seed(0))
    kernel = Patches(m, standardize=False).fitted(X[:300])
    A, B = torch.rand(4096, 1024), torch.rand(1024, 1024)

    def seconds(call: Callable[[], object], repeats: int) -> float:
        call()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    product = 2 * 4096 * 1024 * 1024 / seconds(lambda: A @ B, 10)
    taken = seconds(lambda: kernel.features(X.clone()), 3)
    operations = n * 1024 * 2 * d * (d + m)
    return {
        "threads": torch.get_num_threads(),
        "pictures per second": round(n / taken),
        "seconds for 20,000 pictures": round(20_000 * taken / n, 1),
        "sgemm, operations per second": f"{product:.3g}",
        "share of sgemm": round(operations / taken / product, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures by patches.")
    parser.add_argument("what", choices=["table", "rules", "ablation", "clusters", "speed"])
    parser.add_argument("sets", nargs="*", default=["digits"])
    parser.add_argument("--labels", default="50,100,300,1000")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000, help="pictures to learn from, at most")
    parser.add_argument("--test", type=int, default=10_000, help="pictures to test on, at most")
    parser.add_argument("--only", help="representations, separated by ';'")
    parser.add_argument("--components", type=int, default=256, help="of learned patches")
    parser.add_argument(
        "--mirror", action="store_true", help="patches of photographs and of their mirror images"
    )
    parser.add_argument("--name", help="of the file of results; what it holds stays")
    parser.add_argument("--patches", type=int, default=512)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options.name = options.name or f"patches_{options.what}"
        tasks = {"table": table, "rules": rules, "ablation": ablation, "clusters": clusters, "speed": speed}
        figures = tasks[options.what](options)
    record(options.name, figures)


if __name__ == "__main__":
    main()
