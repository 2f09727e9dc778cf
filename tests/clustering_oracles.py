"""Self-expression by n separate solves and finite differences, in float64: slow and obvious."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def leave_one_out(k: Callable, X: np.ndarray, lam: float) -> np.ndarray:
    """c_i of every sample, one per row, by n solves of (K_-i + lam I) c = k_i.  [zou, Eq. 3]"""
    n = len(X)
    K = np.array([[k(x, y) for y in X] for x in X])
    C = np.zeros((n, n))
    for i in range(n):
        others = [j for j in range(n) if j != i]
        C[i, others] = np.linalg.solve(K[np.ix_(others, others)] + lam * np.eye(n - 1), K[others, i])
    return C


def gradient(k: Callable, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dk(x, y)/dy by central differences of fourth order."""
    found, h = np.zeros(len(y)), 2e-3
    for a in range(len(y)):
        e = np.zeros(len(y))
        e[a] = h
        values = [k(x, y + s * e) for s in (-2, -1, 1, 2)]
        found[a] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    return found


def local_covariance(k: Callable, grad: Callable, X: np.ndarray, lam: float, space: str) -> np.ndarray:
    """The mean of J_i^T J_i by n solves; `grad(x, y)` is dk(x, y)/dy.

    latent: J_i^T J_i = G^T (K_-i + lam)^-1 K_-i (K_-i + lam)^-1 G.  data: J_i = X^T (K + lam)^-1 K[:, -i] dc_i.
    """
    n, d = X.shape
    K = np.array([[k(x, y) for y in X] for x in X])
    back = X.T @ np.linalg.inv(K + lam * np.eye(n))
    total = np.zeros((d, d))
    for i in range(n):
        others = [j for j in range(n) if j != i]
        G = np.array([grad(X[j], X[i]) for j in others])
        K_i = K[np.ix_(others, others)]
        dc = np.linalg.solve(K_i + lam * np.eye(n - 1), G)
        J = back @ K[:, others] @ dc
        total += dc.T @ K_i @ dc if space == "latent" else J.T @ J
    return total / n
