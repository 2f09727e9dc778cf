"""Rows that come back from a representation: error on held-out rows, beside PCA and scikit-learn's KernelPCA.

    python benchmarks/pre_images.py                          all data, and docs/pre_images.png
    python benchmarks/pre_images.py digits --no-picture
    python benchmarks/pre_images.py satimage magic --decoders      is it the decoder, or the representation?

The error is the mean of |x - x'|^2 over held-out rows, as a share of that of the mean row: 0 is exact. KernelPCA's
gamma and alpha are chosen on a fifth of the training rows, for each width; ours has no tuning. "landmarks" learns the
inverse from 1000 landmarks, "rows" with fit_inverse from the training rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from recording import data_file, record
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

from krepes import KernelEmbedding, TableEncoder
from krepes.kernels import Gaussian
from krepes.preimages.fixed_point import feature_point_weights, fixed_point

WIDTHS = {"digits": (8, 16, 32), "mnist": (16, 64), "satimage": (4, 8), "magic": (3, 6)}
WIDE = {"kernel": Gaussian("4 median")}
WAYS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "kernel PCA": {"loss": "kernel_pca"},
    "kernel PCA, wide Gaussian": {"loss": "kernel_pca", **WIDE},
}
MOST_ROWS = 3000
GAMMAS, ALPHAS = (0.0625, 0.25, 1.0, 4.0), np.logspace(-6, 0, 7)
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pre_images.png"


def rows_of(name: str) -> np.ndarray:
    """Rows of numbers; columns of tables are standardised."""
    if name == "digits":
        return load_digits().data / 16
    if name == "mnist":
        return np.load(data_file("mnist.npz"))["X"][:MOST_ROWS].reshape(MOST_ROWS, -1) / 255.0
    table = pd.read_parquet(data_file("tables") / f"{name}.parquet").drop(columns="target")
    encoded = TableEncoder(dtype="float64").fit_transform(table)
    return encoded[np.random.default_rng(0).permutation(len(encoded))[:MOST_ROWS]]


def tuned_kernel_pca(train: np.ndarray, h: int) -> KernelPCA:
    """KernelPCA with the gamma and alpha that are best on a fifth of the training rows."""
    fitted, held_out = train_test_split(train, test_size=0.2, random_state=0)
    unit = 1 / np.median(pdist(fitted[:500], "sqeuclidean"))  # with it, k = 1/e at the median distance
    best, smallest = None, np.inf
    for gamma in GAMMAS:
        rbf = {"kernel": "rbf", "gamma": gamma * unit}
        model = KernelPCA(h, **rbf, random_state=0).fit(fitted)
        Z, Z_held_out = model.transform(fitted), model.transform(held_out)
        for alpha in ALPHAS:  # KernelPCA's inverse is this regression, without another decomposition
            decoded = KernelRidge(alpha=alpha, **rbf).fit(Z, fitted).predict(Z_held_out)
            error = np.square(held_out - decoded).sum()
            if error < smallest:
                best, smallest = rbf | {"alpha": alpha, "fit_inverse_transform": True}, error
    assert best is not None
    return KernelPCA(h, **best, random_state=0).fit(train)


def by_fixed_point(model: KernelEmbedding, Z: np.ndarray) -> np.ndarray:
    solution, start = model._solved(), torch.from_numpy(model.inverse_transform(Z)).double()
    weights = feature_point_weights(
        model.space_, solution.A, solution.gamma, model.moments_.mean, torch.from_numpy(Z)
    )
    return fixed_point(model.kernel_, model.landmarks_.double(), weights, start).numpy()


def by_nearest(model: KernelEmbedding, Z: np.ndarray) -> np.ndarray:
    landmarks = model.landmarks_.numpy()
    near = KNeighborsRegressor(8, weights="distance").fit(model.transform(landmarks), landmarks)
    return near.predict(Z)


def run(name: str, h: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Errors, and the models and rows of the picture."""
    X = rows_of(name)
    train, test = train_test_split(X, test_size=1 / 4, random_state=0)
    total = np.square(test - train.mean(0)).sum()

    def error(decoded: np.ndarray) -> float:
        return round(float(np.square(test - decoded).sum() / total), 4)

    pca, exact = PCA(h, random_state=0).fit(train), tuned_kernel_pca(train, h)
    found: dict[str, Any] = {
        "data": name,
        "h": h,
        "PCA": error(pca.inverse_transform(pca.transform(test))),
        "KernelPCA, tuned": error(exact.inverse_transform(exact.transform(test))),
    }
    for words, settings in WAYS.items():
        model = KernelEmbedding(h, random_state=0, **settings).fit(train)
        Z = model.transform(test)
        start = time.perf_counter()
        found[f"{words}: landmarks"] = error(model.inverse_transform(Z))
        seconds = time.perf_counter() - start
        if words == "kernel PCA, wide Gaussian":
            found["fixed point"] = error(by_fixed_point(model, Z))
            found["nearest landmarks"] = error(by_nearest(model, Z))
        model.fit_inverse(train)
        rows, estimate = model.reconstruct(test, return_error=True)
        found[f"{words}: rows"] = error(rows)
        found["rank correlation"] = round(float(rank_correlation(estimate.expected, estimate.actual)), 2)
        found["below upper"] = round(float((estimate.actual <= estimate.upper).mean()), 3)
        found["seconds to learn"] = round(seconds, 1)
    return found, {"test": test, "PCA": pca, "KernelPCA": exact, "krepes": model}


def decoders(name: str, h: int) -> pd.DataFrame:
    """Errors of the same representations, decoded by what fit_inverse learns, by trees and by a network."""
    train, test = train_test_split(rows_of(name), test_size=1 / 4, random_state=0)
    total, found = np.square(test - train.mean(0)).sum(), {}
    for words, settings in {**WAYS, "default loss, wide Gaussian": WIDE}.items():
        model = KernelEmbedding(h, random_state=0, **settings).fit(train).fit_inverse(train)
        scaler = StandardScaler().fit(model.transform(train))
        Z, Z_test = (scaler.transform(model.transform(rows)) for rows in (train, test))
        others = {
            "trees": ExtraTreesRegressor(200, min_samples_leaf=3, random_state=0),
            "network": MLPRegressor(
                hidden_layer_sizes=(128, 128), early_stopping=True, max_iter=300, random_state=0
            ),
        }
        decoded = {"fit_inverse": model.inverse_transform(model.transform(test))}
        decoded |= {way: decoder.fit(Z, train).predict(Z_test) for way, decoder in others.items()}
        found[words] = {way: np.square(test - rows).sum() / total for way, rows in decoded.items()}
    return pd.DataFrame(found).T.round(4)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    return np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1]


def draw(shown: dict[str, Any], path: Path, n: int = 12) -> None:
    """Ten digits, what comes back of them, and the same with noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    test = shown["test"][:n]
    noisy = test + 0.4 * np.random.default_rng(0).standard_normal(test.shape)
    lines = []
    for word, rows in (("row", test), ("with noise", noisy)):
        lines.append((word, rows))
        for name in ("PCA", "KernelPCA", "krepes"):
            model = shown[name]
            lines.append((name, model.inverse_transform(model.transform(rows))))
    figure, axes = plt.subplots(
        len(lines) + 1,
        n,
        figsize=(n * 0.62, (len(lines) + 0.35) * 0.62),
        gridspec_kw={"height_ratios": [1] * 4 + [0.35] + [1] * 4},
    )
    for axis in axes.flat:
        axis.axis("off")
    for (word, rows), line in zip(lines, [*axes[:4], *axes[5:]]):
        for row, axis in zip(rows, line):
            axis.imshow(row.reshape(28, 28), cmap="gray_r", vmin=0, vmax=1)
        line[0].text(-0.25, 0.5, word, transform=line[0].transAxes, ha="right", va="center", fontsize=9)
    figure.subplots_adjust(left=0.13, right=0.995, top=0.995, bottom=0.005, wspace=0.06, hspace=0.06)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description="Error of pre-images.")
    parser.add_argument("data", nargs="*", default=list(WIDTHS), help=", ".join(WIDTHS))
    parser.add_argument("--no-picture", action="store_true")
    parser.add_argument("--decoders", action="store_true", help="compare decoders; nothing is recorded")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.decoders:
        for name in options.data:
            for h in WIDTHS[name]:
                print(f"{name}, h = {h}\n{decoders(name, h)}\n", flush=True)
        return
    results = []
    for name in options.data:
        for h in WIDTHS[name]:
            found, shown = run(name, h)
            results.append(found)
            print(pd.DataFrame([found]).T.to_string(header=False), "\n", flush=True)
            if (name, h) == ("mnist", 16) and not options.no_picture:
                draw(shown, PICTURE)
    record("pre_images", {"rows at most": MOST_ROWS, "runs": results})


if __name__ == "__main__":
    main()
