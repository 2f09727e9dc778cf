"""Augmentations as definitions: enumerate every outcome, integrate noise numerically, walk over pixels."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
from scipy.integrate import quad


@functools.cache
def noisy_factor(kappa, x: float, z: float, noise: float) -> float:
    """E kappa(x + noise * g - z), g standard normal, by numerical integration."""
    if noise == 0:
        return kappa(x - z)
    t = x - z  # the kernels have a kink where x + noise * g meets z
    value, _ = quad(
        lambda g: kappa(t + noise * g) * math.exp(-g * g / 2) / math.sqrt(2 * math.pi),
        -9,
        9,
        points=[min(max(-t / noise, -9), 9)],
        limit=200,
        epsabs=1e-14,
    )
    return value


def expected_kernel(kappa, X, Z, units, noise, fill, table, drop: float, replace: float) -> np.ndarray:
    """E_aug k(aug(x), z) for k = prod_j kappa(x_j - z_j): the sum over all outcomes of all units, (n, m)."""
    K = np.zeros((len(X), len(Z)))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            for sources in itertools.product([None, -1, *range(len(table))], repeat=len(units)):
                outcome, probability = np.array(x, dtype=float), 1.0
                for columns, source in zip(units, sources):
                    if source is None:  # kept
                        probability *= (1 - replace) * (1 - drop)
                    elif source == -1:  # dropped
                        probability *= (1 - replace) * drop
                        outcome[columns] = fill[columns]
                    else:  # replaced by a row of the table
                        probability *= replace / len(table)
                        outcome[columns] = table[source][columns]
                if probability > 0:
                    factors = [noisy_factor(kappa, *args) for args in zip(outcome.tolist(), z, noise)]
                    K[i, j] += probability * math.prod(factors)
    return K
