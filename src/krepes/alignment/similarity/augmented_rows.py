"""Rows (x, |x|^2, 1), whose Gram matrices suffice for the unbiased criterion, at any scale.

    T (x, |x|^2, 1) = (f x - step, |f x - step|^2, 1)

Moving the origin is linear, so that sums which began at different origins can be added. A change of unit is linear
too: sums are kept in units of 2^(64 k) near the largest number, because fourth powers of 1e100 overflow and those of
1e-100 vanish. Powers of two do not round, and the unit of numbers between 2e-10 and 4e9 is 1.
"""

from __future__ import annotations

import numpy as np

STEP = 64
FURTHEST = 15  # 2^(64 * 15) is 1e289
CONSTANT = 1e-15  # of |mean|: the deviation of rows that differ by rounding only


def augmented(X: np.ndarray, origin: np.ndarray, unit: float) -> np.ndarray:
    """Rows (x, |x|^2, 1), with x seen from an origin, in a unit."""
    X = X - origin
    X /= unit
    return np.column_stack([X, np.einsum("ij,ij->i", X, X), np.ones(len(X))])


def origin_move(step: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """The matrix T: change the unit by a factor f, then move the origin by a step in the new unit."""
    d = len(step)
    T = np.diag(np.append(np.full(d, factor), [factor**2, 1.0]))
    T[:d, -1], T[d, :d], T[d, -1] = -step, -2 * factor * step, step @ step
    return T


def origin_of(X: np.ndarray) -> np.ndarray:  # (b, d) -> (d,)
    """The mean of the rows, which avoids cancellation; in constant columns the value itself."""
    return np.where((X[0] == X).all(axis=0), X[0], X.mean(axis=0, dtype=np.float64)).astype(np.float64)


def unit_of(X: np.ndarray, origin: np.ndarray) -> float:
    """The unit for rows (b, d) seen from an origin.

    >>> unit_of(np.array([[1.0], [1e9]]), np.zeros(1)), unit_of(np.array([[1e20]]), np.zeros(1)) == 2.0**64
    (1.0, True)
    """
    largest = np.maximum(X.max(axis=0) - origin, origin - X.min(axis=0)).max()
    if not largest > 0:
        return 2.0 ** (-STEP * FURTHEST)
    return 2.0 ** (STEP * int(np.clip(round(np.log2(largest) / STEP), -FURTHEST, FURTHEST)))


def varies(variances: np.ndarray, unit: float, mean: np.ndarray) -> bool:
    """Whether some column differs from row to row by more than rounding: variances in a unit, and means, both (d,)."""
    return bool((np.sqrt(np.maximum(variances, 0.0)) * unit > CONSTANT * np.abs(mean)).any())
