"""Probabilities from scores: temperature scaling, and how far probabilities are from frequencies.

    p_c = exp(z_c / T) / sum_k exp(z_k / T),   T = argmin of the mean of -log p_(y_i)                      [guo]
    ECE = sum over bins of (rows in bin / n) |accuracy in bin - mean confidence in bin|

T has one minimum in 1/T (the negative log-likelihood is convex there). Cost O(n c) per evaluation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from krepes.base.validation import as_codes, as_matrix, is_number

LIMITS = (-12.0, 12.0)  # of log(1 / T), relative to the scores' spread


def temperature(scores: ArrayLike, codes: ArrayLike, doubt: float = 0.0) -> float:
    """The temperature under which the softmax of scores (n, c) is most likely, given class codes (n,).

    Give scores of rows that the machine was not fitted on, such as leave-one-out predictions. `doubt` is the
    probability that a label is replaced by one drawn at random among all classes: without it, scores that are right
    on a few rows would mean certainty. 1 / (n + 2), with the n rows at hand, is the rule of succession.

    >>> scores = np.array([[1.0, 0.0]] * 4)          # right in 3 of 4: exp(1/T) / (1 + exp(1/T)) = 3/4, T = 1 / log 3
    >>> float(round(temperature(scores, [0, 0, 0, 1]) * np.log(3), 6))
    1.0
    """
    Z = as_matrix(scores, "scores").astype(np.float64)
    codes = as_codes(codes, *Z.shape)
    if not is_number(doubt, least=0, below=1):
        raise ValueError(f"doubt={doubt!r}: expected a probability, at least 0 and below 1.")
    rounding = 1e-15 * np.abs(Z).max()
    Z = Z - Z.mean(axis=1, keepdims=True)
    largest = np.abs(Z).max()
    if not largest > rounding:
        return 1.0
    Z /= largest  # because squares of 1e200 overflow
    spread = np.std(Z)

    def loss(log_sharpness: float) -> float:
        log_p = log_softmax(Z * (np.exp(log_sharpness) / spread), axis=1)
        return -(1 - doubt) * log_p[np.arange(len(Z)), codes].mean() - doubt * log_p.mean()

    found = minimize_scalar(loss, bounds=LIMITS, method="bounded", options={"xatol": 1e-10})
    return float(largest * (spread / np.exp(found.x)))


def expected_calibration_error(probabilities: ArrayLike, codes: ArrayLike, n_bins: int = 15) -> float:
    """The mean gap between confidence and accuracy over bins of equal width in confidence.

    >>> expected_calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1], n_bins=10)          # |1/2 - 0.9|
    0.4
    """
    P = as_matrix(probabilities, "probabilities").astype(np.float64)
    codes = as_codes(codes, *P.shape)
    if P.min() < 0 or P.max() > 1:
        raise ValueError(
            f"probabilities lie between {P.min():.3g} and {P.max():.3g}; expected numbers from 0 to 1. Give the "
            "softmax of scores."
        )
    if not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"n_bins={n_bins!r}: expected an integer >= 1.")
    confidence, right = P.max(axis=1), P.argmax(axis=1) == codes
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(P))
