"""The probability of a class under a normal distribution of f.

    E sigmoid(f),  f = m + s z,      = sum over nodes z of  N(z; 0, 1) sigmoid(m + s z) h                  small s
                                     = sum over nodes u of  sigmoid'(u) Phi((m + u) / s) h                 large s

The two are equal: sigmoid is the distribution function of a logistic variable u. With evenly spaced nodes both sums
converge exponentially, because their terms are analytic; the error is below 1e-12 everywhere. Differs from
scikit-learn's classifier, which replaces the sigmoid by five error functions: that is off by up to 2e-4, and may leave
the interval from 0 to 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtr

WIDE = 1.5  # deviation from which the logistic nodes are better
NORMAL = np.arange(-9.0, 9.01, 0.2)
LOGISTIC = np.arange(-40.0, 40.01, 0.25)
BLOCK = 4096  # rows at once


def probability(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E sigmoid(f) for f ~ N(mean, variance), of the shape of the means.

    >>> probability(np.array([0.0, 2.0, 2.0]), np.array([4.0, 0.0, 1e8])).round(4).tolist()
    [0.5, 0.8808, 0.5001]
    """
    m, s = mean.ravel(), np.sqrt(variance).ravel()
    found = np.empty(len(m))
    for start in range(0, len(m), BLOCK):
        part = slice(start, start + BLOCK)
        found[part] = np.where(s[part] < WIDE, _narrow(m[part], s[part]), _wide(m[part], s[part]))
    return found.clip(0, 1).reshape(mean.shape)


def _narrow(m: np.ndarray, s: np.ndarray) -> np.ndarray:
    density = np.exp(-(NORMAL**2) / 2)
    return expit(m[:, None] + np.minimum(s, WIDE)[:, None] * NORMAL) @ (density / density.sum())


def _wide(m: np.ndarray, s: np.ndarray) -> np.ndarray:
    density = expit(LOGISTIC) * expit(-LOGISTIC)
    return ndtr((m[:, None] + LOGISTIC) / np.maximum(s, WIDE)[:, None]) @ (density / density.sum())
