"""Kernel PCA by krepes against what scikit-learn offers, in one run.

    python benchmarks/against_scikit_learn.py

n = 10 000: exact KernelPCA (an n x n matrix). n = 100 000: Nystroem followed by PCA, with the same number of
landmarks. Quality is the share of the kernel's variance that h components keep, measured for both in the same
way on held-out rows: 1 - mean reconstruction error / mean centred norm.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from recording import clock, data_file, record
from sklearn.decomposition import PCA, KernelPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from krepes import KernelEmbedding
from krepes.kernels import Gaussian

H, M = 64, 1000


def kept_variance(Z: np.ndarray, K: np.ndarray) -> float:
    """Alignment of the embedding with the kernel: how much of the centred kernel's trace Z spans, best linear fit.

    Z (n, h) centred spans a subspace of R^n; the kept share is tr(P H K H) / tr(H K H), P the projection on it.
    """
    Kc = K - K.mean(0) - K.mean(1, keepdims=True) + K.mean()
    Q, _ = np.linalg.qr(Z - Z.mean(0))
    return float(np.trace(Q.T @ Kc @ Q) / np.trace(Kc))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    X = np.load(data_file("covtype.npz"))["X"].astype(np.float32)
    X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1)
    rng = np.random.default_rng(0)
    X = X[rng.permutation(len(X))[:102_000]]
    test, X = X[100_000:], np.ascontiguousarray(X[:100_000])
    length = float(Gaussian().fitted(torch.from_numpy(X)).lengthscale)
    gamma = 1 / (2 * length**2)
    K_test = rbf_kernel(test, gamma=gamma).astype(float)
    figures: dict = {}

    def ours(rows: np.ndarray) -> KernelEmbedding:
        model = KernelEmbedding(
            H, kernel=Gaussian(length), loss="kernel_pca", regularization=0, n_landmarks=M, random_state=0
        )
        return model.fit(rows)

    with clock(figures, "krepes kernel PCA, n=10,000: seconds"):
        model = ours(X[:10_000])
    figures["krepes kernel PCA, n=10,000: variance kept"] = round(
        kept_variance(model.transform(test), K_test), 4
    )
    exact = KernelPCA(H, kernel="rbf", gamma=gamma, eigen_solver="randomized", random_state=0)
    with clock(figures, "scikit-learn KernelPCA (randomized), n=10,000: seconds"):
        exact.fit(X[:10_000])
    kept = kept_variance(exact.transform(test), K_test)
    figures["scikit-learn KernelPCA, n=10,000: variance kept"] = round(kept, 4)
    with clock(figures, "krepes kernel PCA, n=100,000: seconds"):
        model = ours(X)
    figures["krepes kernel PCA, n=100,000: variance kept"] = round(
        kept_variance(model.transform(test), K_test), 4
    )
    nystroem = Nystroem(gamma=gamma, n_components=M, random_state=0)
    pca = PCA(H, svd_solver="covariance_eigh")
    with clock(figures, "scikit-learn Nystroem + PCA, n=100,000: seconds"):
        pca.fit(nystroem.fit_transform(X))
    kept = kept_variance(pca.transform(nystroem.transform(test)), K_test)
    figures["scikit-learn Nystroem + PCA, n=100,000: variance kept"] = round(kept, 4)
    for n, theirs in (("10,000", "KernelPCA (randomized)"), ("100,000", "Nystroem + PCA")):
        ratio = (
            figures[f"scikit-learn {theirs}, n={n}: seconds"] / figures[f"krepes kernel PCA, n={n}: seconds"]
        )
        figures[f"times faster than {theirs} at n={n}"] = round(ratio, 2)
    record("against_scikit_learn", figures)


if __name__ == "__main__":
    main()
