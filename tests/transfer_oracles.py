"""Naive float64 definitions of transferability scores: full matrices, loops over rows."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def log_evidence(F: np.ndarray, y: np.ndarray, alpha: float, beta: float) -> float:
    """log p(y) where y ~ N(0, F F^T / alpha + I / beta)."""
    C = F @ F.T / alpha + np.eye(len(y)) / beta
    sign, determinant = np.linalg.slogdet(C)
    assert sign > 0
    return float(-0.5 * (len(y) * np.log(2 * np.pi) + determinant + y @ np.linalg.solve(C, y)))


def naive_logme(F: np.ndarray, y: np.ndarray) -> float:
    """The evidence maximised numerically over log alpha and log beta from several starts, mean over classes."""
    values = []
    for c in np.unique(y):
        target = (y == c).astype(float)
        runs = [
            minimize(
                lambda v, target=target: -log_evidence(F, target, *np.exp(v)),
                start,
                method="Nelder-Mead",
                options={"xatol": 1e-8, "fatol": 1e-11, "maxiter": 4000},
            ).fun
            for start in ((0.0, 0.0), (4.0, 2.0), (-2.0, 4.0))
        ]
        values.append(-min(runs) / len(y))
    return float(np.mean(values))


def published_logme(F: np.ndarray, y: np.ndarray, n_steps: int = 300) -> float:
    """MacKay's fixed point for alpha and beta with explicit matrices, as in the paper's Algorithm 1."""
    n, d = F.shape
    values = []
    for c in np.unique(y):
        target, alpha, beta = (y == c).astype(float), 1.0, 1.0
        for _ in range(n_steps):
            A = alpha * np.eye(d) + beta * F.T @ F
            m = beta * np.linalg.solve(A, F.T @ target)
            s = np.linalg.eigvalsh(F.T @ F)
            used = float((beta * s / (alpha + beta * s)).sum())
            alpha, beta = used / (m @ m), (n - used) / np.square(F @ m - target).sum()
        values.append(log_evidence(F, target, alpha, beta) / n)
    return float(np.mean(values))


def naive_h_score(F: np.ndarray, y: np.ndarray) -> float:
    means = np.array([F[y == label].mean(axis=0) for label in y])
    return float(np.trace(np.linalg.pinv(np.cov(F.T)) @ np.cov(means.T)))


def naive_leep(theta: np.ndarray, y: np.ndarray) -> float:
    n, z = theta.shape
    joint = {label: np.zeros(z) for label in set(y.tolist())}
    for i in range(n):
        for k in range(z):
            joint[y[i]][k] += theta[i, k] / n
    total = 0.0
    for i in range(n):
        total += np.log(
            sum(theta[i, k] * joint[y[i]][k] / sum(other[k] for other in joint.values()) for k in range(z))
        )
    return float(total / n)


def naive_shrunk_h_score(F: np.ndarray, y: np.ndarray) -> float:
    """Within-class covariance shrunk by OAS, eigenvalues of W_a^-1 B less their mean by chance, with full matrices."""
    n, d = F.shape
    classes = np.unique(y)
    v, B, W = n - len(classes), np.zeros((d, d)), np.zeros((d, d))
    for label in classes:
        rows = F[y == label]
        step = rows.mean(axis=0) - F.mean(axis=0)
        B += len(rows) / n * np.outer(step, step)
        for row in rows:
            W += np.outer(row - rows.mean(axis=0), row - rows.mean(axis=0)) / v
    t, t2 = np.trace(W), np.trace(W @ W)
    a = min(((1 - 2 / d) * t2 + t**2) / ((v + 1 - 2 / d) * (t2 - t**2 / d)), 1.0) if d > 1 else 0.0
    W_a = (1 - a) * W + a * t / d * np.eye(d)
    rank = min(d, len(classes) - 1)
    found = np.sort(np.linalg.eigvals(np.linalg.solve(W_a, B)).real)[-rank:]
    f = np.trace((1 - a) * W @ np.linalg.inv(W_a))
    chance = (len(classes) - 1) / n * f / (1 - a) / (1 - f / v) / rank
    return max(sum((x - chance) / (1 + max(x - chance, 0)) for x in found), 0.0)
