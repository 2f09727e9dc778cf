"""LogME: how probable the labels are under a Bayesian linear model on the features, a score of a pretrained model.

    y ~ N(F w, 1/beta),  w ~ N(0, 1/alpha):    score = mean over classes of  max over alpha, beta of  log p(y | F) / n
                                                                                                       [logme, Alg. 1]
With t = alpha / beta, F^T F = V diag(s) V^T and z = V^T F^T y, beta has a closed form and one number is left,

    E(t) = y^T y - sum_j z_j^2 / (t + s_j),     log p = n/2 log(n / (2 pi e E(t))) + 1/2 sum_j log(t / (t + s_j)),

which is found on a grid and refined. Differs from [logme, Alg. 1], whose fixed-point iteration finds a maximum that
may be local and does not end where t grows without bound: the result is the largest value, and needs F^T F, F^T y and
y^T y only, so that it streams and holds for d > n. As published, features are not centred and labels are 0 and 1.

Cost O(d^3) after the moments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from krepes.alignment.inputs import labelled
from krepes.alignment.similarity.augmented_grams import AugmentedGrams, unit_of

GRID = np.linspace(-40.0, 40.0, 161)  # of log t, relative to the mean of the spectrum
SMALLEST_RESIDUAL = 1e-12  # of y^T y: below it is rounding, and the evidence of a perfect fit is unbounded


def logme(features: Any, y: Any) -> float:
    """The logarithm of the maximum evidence of labels y (n,) on features (n, d), per row: larger is better.

    Examples
    --------
    Features that say nothing leave a constant variance: y = 0 or 1 has mean square 1/2, and the score is
    -log(2 pi e / 2) / 2 for both classes.

    >>> round(logme(np.zeros((6, 2)), [0, 1, 0, 1, 0, 1]), 4)                           # -log(pi e) / 2
    -1.0724
    """
    return logme_of_moments(AugmentedGrams.by_class(*labelled(features, y)))


def logme_of_moments(moments: AugmentedGrams) -> float:
    """LogME from second moments and sums by class."""
    n, mean = int(moments.n), moments.means["x"]
    zero = np.zeros(len(mean))
    unit = max(moments.units["x"], unit_of(mean[None], zero))
    grams = moments.seen_from({"x": zero}, {"x": unit}).grams
    s, V = np.linalg.eigh(grams["xx"][:-2, :-2])
    kept = s > len(s) * np.finfo(float).eps * max(s[-1], 0.0)
    Z = (grams["cx"][:, :-2] @ V)[:, kept]  # (classes, rank)
    values = [max_log_evidence(s[kept], z, y_squared, n) for z, y_squared in zip(Z, grams["cx"][:, -1])]
    return float(np.mean(values) / n)


def max_log_evidence(s: np.ndarray, z: np.ndarray, y_squared: float, n: int) -> float:
    """The largest log p(y | F) over alpha and beta.

    Parameters
    ----------
    s : eigenvalues of F^T F that are not zero, (r,)
    z : F^T y in its eigenvectors, (r,)
    y_squared : y^T y
    n : rows
    """
    explained = z**2 / s
    rest = max(y_squared - explained.sum(), SMALLEST_RESIDUAL * y_squared)

    def log_evidence(log_t: np.ndarray) -> np.ndarray:  # of any shape
        t = np.exp(log_t)[..., None]
        # E(t) as a sum of positive terms, because the difference above cancels
        E = rest + (explained * t / (t + s)).sum(axis=-1)
        return n / 2 * np.log(n / (2 * np.pi * math.e * E)) - 0.5 * np.log1p(s / t).sum(axis=-1)

    unbounded = n / 2 * np.log(n / (2 * np.pi * math.e * y_squared))  # t without bound: w = 0
    if len(s) == 0:
        return float(unbounded)
    grid = GRID + np.log(s.mean())
    values = log_evidence(grid)
    best = int(np.argmax(values))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda v: -log_evidence(np.asarray(v)), bounds=ends, method="bounded", options={"xatol": 1e-9}
    )
    return float(max(-found.fun, values[best], unbounded))
