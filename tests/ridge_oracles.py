"""Ridge regression with weights, from its definition, in float64: slow, obvious, and independent of the library."""

from __future__ import annotations

import numpy as np


def ridge(
    Phi: np.ndarray,  # (n, r)
    Y: np.ndarray,  # (n, c)
    penalty: float,
    weight: np.ndarray | None = None,
    intercept: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """W (r, c) and b (c,): least squares on rows times root w and rows root(penalty) e_j, which have no intercept."""
    n, r = Phi.shape
    root = np.sqrt(np.ones(n) if weight is None else weight)[:, None]
    constant = np.ones((n, 1)) if intercept else np.zeros((n, 0))
    rows = np.vstack(
        [
            root * np.hstack([Phi, constant]),
            np.hstack([penalty**0.5 * np.eye(r), np.zeros((r, constant.shape[1]))]),
        ]
    )
    targets = np.vstack([root * Y, np.zeros((r, Y.shape[1]))])
    found = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return found[:r], found[r] if intercept else np.zeros(Y.shape[1])


def left_out(
    Phi: np.ndarray,
    Y: np.ndarray,
    penalty: float,
    parts: np.ndarray,  # (n,): the part of every row
    weight: np.ndarray | None = None,
    intercept: bool = True,
) -> np.ndarray:
    """What each row is predicted to be by a fit without its part, (n, c)."""
    found = np.empty_like(Y)
    for part in np.unique(parts):
        rest = parts != part
        W, b = ridge(Phi[rest], Y[rest], penalty, None if weight is None else weight[rest], intercept)
        found[~rest] = Phi[~rest] @ W + b
    return found
