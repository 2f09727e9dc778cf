"""MNIST by the paper's protocol: 60 000 training images without labels, then labels on 10 % of them.

    python benchmarks/mnist.py [--landmarks 2000] [--components 256] [--repeats 5]

The representation is `KernelEmbedding(256, kernel="gaussian", n_landmarks=2000)`; kernel PCA beside it has the same
kernel and landmarks. The probe chooses C on a validation split of the labelled rows; the test images are used once.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from recording import clock, data_file, record
from sklearn.ensemble import HistGradientBoostingClassifier

from krepes import KernelEmbedding
from krepes.evaluation import probe_protocol
from krepes.machines import KernelRidgeClassifier


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--components", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--baselines",
        action="store_true",
        help="raw pixels, gradient boosting and a kernel machine instead: slow",
    )
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = np.load(data_file("mnist.npz"))
    X, y = data["X"], data["y"]
    train, test = np.arange(60_000), np.arange(60_000, 70_000)
    figures: dict = {}

    def probe(name: str, Z: np.ndarray) -> None:
        result = probe_protocol(Z, y, train, test, n_repeats=args.repeats)
        figures[f"{name}: accuracy %"] = round(100 * result.accuracy, 2)
        figures[f"{name}: deviation over label draws"] = round(100 * result.values("accuracy").std(ddof=1), 2)
        figures[f"{name}: balanced accuracy %"] = round(100 * result.balanced_accuracy, 2)

    if args.baselines:
        pixels = X.reshape(70_000, -1) / np.float32(255)
        probe("raw pixels", pixels)
        labelled = np.random.default_rng(args.seed).permutation(train)[:6000]
        machine = KernelRidgeClassifier(random_state=args.seed)
        for name, model in (
            ("kernel machine", machine),
            ("boosting", HistGradientBoostingClassifier(random_state=0)),
        ):
            with clock(figures, f"{name}: seconds of fit"):
                model.fit(pixels[labelled], y[labelled])
            figures[f"{name}: accuracy %"] = round(100 * model.score(pixels[test], y[test]), 2)
        record("mnist_baselines", figures)
        return
    for name, options in (
        ("krepes", {}),
        ("kernel PCA", {"loss": "kernel_pca", "regularization": 0.0}),
    ):
        model = KernelEmbedding(
            args.components,
            kernel="gaussian",
            n_landmarks=args.landmarks,
            random_state=args.seed,
            **options,
        )
        with clock(figures, f"{name}: seconds of fit"):
            model.fit(X[train])
        with clock(figures, f"{name}: seconds of transform, 70,000 images"):
            Z = model.transform(X)
        figures[f"{name}: rank"] = model.rank_
        probe(name, Z)
    record("mnist", figures)


if __name__ == "__main__":
    main()
