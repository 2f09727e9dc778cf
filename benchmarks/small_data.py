"""How long exact models take: every point a landmark, in double precision.

    python benchmarks/small_data.py

Contrastive fits of n triplets (3n points) of 10 columns, and kernel autoencoders of n digits. Peers are what a user
would pick instead: scikit-learn's KernelPCA of the same points, and PCA.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from recording import clock, record
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA

from krepes import KernelAutoencoder, KernelEmbedding
from krepes.kernels import Gaussian
from krepes.losses import SpectralContrastive


def triplets(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, rows alike and other rows, (n, 10) each."""
    generator = np.random.default_rng(0)
    X, other = generator.normal(size=(2, n, 10))
    return X, X + 0.2 * generator.normal(size=X.shape), other


def main() -> None:
    figures: dict[str, Any] = {}
    for n in (500, 1000, 2000):
        X, positives, negatives = triplets(n)
        exact = KernelEmbedding(2, kernel=Gaussian(3.0), n_landmarks=None, random_state=0)
        with clock(figures, f"simple contrastive, {n} triplets, seconds"):
            exact.set_params(loss="simple_contrastive").fit(X, positives=positives, negatives=negatives)
        points = np.concatenate([X, positives, negatives])
        with clock(figures, f"scikit-learn's KernelPCA of the {3 * n} points, seconds"):
            KernelPCA(2, kernel="rbf", gamma=1 / 18, eigen_solver="dense").fit(points)
    X, positives, negatives = triplets(500)
    spectral = exact.set_params(loss=SpectralContrastive("triplet"), regularization=0.5)
    with clock(figures, "spectral contrastive, 500 triplets, seconds"):
        spectral.fit(X, positives=positives, negatives=negatives)
    digits = load_digits().data[:500] / 16
    for width in (2, 8):
        with clock(figures, f"autoencoder of 500 digits, h = {width}, seconds"):
            KernelAutoencoder(width, n_landmarks=None, random_state=0).fit(digits)
    record("small_data", figures)


if __name__ == "__main__":
    main()
