"""Naive float64 definitions for alignment: loops over rows, full Gram matrices."""

from __future__ import annotations

import numpy as np


def biased_hsic(K: np.ndarray, L: np.ndarray) -> float:
    n = len(K)
    H = np.eye(n) - 1 / n
    return float(np.trace(K @ H @ L @ H) / (n - 1) ** 2)


def u_centred(K: np.ndarray) -> np.ndarray:
    """Székely and Rizzo: off-diagonal rows and columns sum to zero, the diagonal is zero."""
    n = len(K)
    K = K - np.diag(np.diag(K))
    out, sums, total = np.zeros_like(K), K.sum(axis=0), K.sum()
    for i in range(n):
        for j in range(n):
            if i != j:
                out[i, j] = K[i, j] - (sums[i] + sums[j]) / (n - 2) + total / ((n - 1) * (n - 2))
    return out


def unbiased_hsic(K: np.ndarray, L: np.ndarray) -> float:
    n = len(K)
    return float((u_centred(K) * u_centred(L)).sum() / (n * (n - 3)))


def naive_cka(K: np.ndarray, L: np.ndarray, estimator: str) -> float:
    hsic = {"biased": biased_hsic, "unbiased": unbiased_hsic}[estimator]
    return hsic(K, L) / np.sqrt(hsic(K, K) * hsic(L, L))


def pairwise_products(F: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """<f_k, f_l> and |f_k^T f_l|^2 (as cosines) of standardised predictions, means over the rows that both have."""
    n, p, _ = F.shape
    Z = np.zeros_like(F)
    for k in range(p):
        rows = usable[:, k]
        own = F[rows, k] - F[rows, k].mean(axis=0)
        Z[rows, k] = own / np.sqrt((own**2).sum() / rows.sum())
    cross, squares = np.zeros((p, p)), np.zeros((p, p))
    for k in range(p):
        for j in range(p):
            both = [i for i in range(n) if usable[i, k] and usable[i, j]]
            G = sum(np.outer(Z[i, k], Z[i, j]) for i in both) / len(both)
            cross[k, j], squares[k, j] = np.trace(G), (G**2).sum()
    lengths = np.sqrt(squares.diagonal())
    return cross, squares / np.outer(lengths, lengths)
