"""Minimise a quadratic function over non-negative variables, also where columns depend on one another.

    min over v >= 0 of v^T M v - 2 v^T a                                                  [lawson, Ch. 23]

scipy's `nnls` updates a factorisation, which goes wrong if columns are equal (version 1.17 ends 1 % away from the
optimum of votes of 50 decision stumps, 13 of them repeated). So its result is only the start:
variables enter one by one, the steepest first, and leave when they would become negative. Every subproblem is solved
from scratch, by a pseudo-inverse.

Cost O(k^3) per step for k positive variables.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

CUT = 1e-12
ROUNDING = 1e-14


def nonnegative_minimum(M: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, float]:
    """argmin over v >= 0 of v^T M v - 2 v^T a for M positive semi-definite of unit diagonal, and its KKT residual.

    The residual is the largest of max(a - M v) where v = 0, and |a - M v| where v > 0, relative to max |a|.

    >>> v, residual = nonnegative_minimum(np.eye(2), np.array([2.0, -1.0]))
    >>> v.tolist(), residual
    ([2.0, 0.0], 0.0)
    """
    if not np.abs(a).max(initial=0.0) > 0:
        return np.zeros(len(a)), 0.0
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    kept = values > CUT * values[-1]
    roots = np.sqrt(values[kept])
    try:
        v = nnls((vectors[:, kept] * roots).T, (vectors[:, kept].T @ a) / roots)[0]
    except RuntimeError:  # it may not end where kernels are dependent
        v = np.zeros(len(a))
    share = v * np.sqrt(np.abs(M.diagonal()))
    v = np.where(
        share > ROUNDING * share.max(initial=0.0), v, 0.0
    )  # what is left of a zero differs by machine
    # Takes the rounding away, and goes on where dependent kernels led the iteration astray.
    best = min((active_set_minimum(M, a, v), v), key=lambda w: _violation(M, a, w))
    return best, _violation(M, a, best)


def _violation(M: np.ndarray, a: np.ndarray, v: np.ndarray) -> float:
    slope = a - M @ v
    worst = max(np.abs(slope[v > 0]).max(initial=0.0), slope[v <= 0].max(initial=0.0))
    return float(worst / np.abs(a).max())


def active_set_minimum(M: np.ndarray, a: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The minimiser, from a feasible start v >= 0.

    >>> M, a = np.ones((2, 2)), np.ones(2)                            # two equal members
    >>> float(active_set_minimum(M, a, np.zeros(2)).sum().round(12))
    1.0
    """
    v = _descended(M, a, start.astype(np.float64))
    for _ in range(10 * len(a)):
        slope = np.where(v > 0, -np.inf, a - M @ v)
        entering = int(np.argmax(slope))
        if not slope[entering] > CUT * np.abs(a).max():
            break
        before, v = v, _descended(M, a, v, entering)
        if _value(M, a, v) >= _value(M, a, before):  # what is left is rounding
            return before
    return v


def _descended(M: np.ndarray, a: np.ndarray, v: np.ndarray, entering: int | None = None) -> np.ndarray:
    """The minimum over the positive variables and one more, all of which stay at least 0."""
    free = v > 0
    if entering is not None:
        free[entering] = True
    while free.any():
        goal = np.zeros_like(v)
        goal[free] = np.linalg.lstsq(M[np.ix_(free, free)], a[free], rcond=CUT)[0]
        falling = free & (goal <= 0)
        if not falling.any():
            return goal
        way = v[falling] - goal[falling]
        steps = np.divide(v[falling], way, out=np.zeros_like(way), where=way > 0)
        step = steps.min()
        v = np.where(free, v + step * (goal - v), 0.0)
        leaving = falling & (v <= 1e-15 * np.abs(v).max(initial=0.0))
        leaving[np.flatnonzero(falling)[np.argmin(steps)]] = True
        free &= ~leaving
        v = np.where(free, np.maximum(v, 0.0), 0.0)
    return np.zeros_like(v)


def _value(M: np.ndarray, a: np.ndarray, v: np.ndarray) -> float:
    return float(v @ M @ v - 2 * v @ a)
