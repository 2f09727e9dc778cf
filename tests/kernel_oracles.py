"""Kernels as formulas for one pair of vectors, in float64: slow, obvious, and independent of the library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from scipy import integrate, special
from torch import Tensor


def matrix(k: Callable, X: Tensor, Y: Tensor) -> Tensor:
    """k(x, y) for every pair, in a double loop."""
    return torch.tensor(
        [[k(x, y) for y in Y.double().numpy()] for x in X.double().numpy()], dtype=torch.float64
    )


def gaussian(x, y, lengthscale):
    return math.exp(-sum(((x - y) / lengthscale) ** 2) / 2)


def laplacian(x, y, lengthscale, norm):
    return math.exp(-(sum(abs((x - y) / lengthscale) ** norm) ** (1 / norm)))


def matern(x, y, lengthscale, nu):
    """The general formula with a Bessel function, for any nu."""
    u = math.sqrt(2 * nu * sum(((x - y) / lengthscale) ** 2))
    return 1.0 if u == 0 else 2 ** (1 - nu) / math.gamma(nu) * u**nu * special.kv(nu, u)


def polynomial(x, y, degree, offset, scale):
    return (scale * float(np.dot(x, y)) + offset) ** degree


def sigmoid(x, y, scale, offset):
    return math.tanh(scale * float(np.dot(x, y)) + offset)


def arc_cosine(x, y, degree, depth):
    """k_{l+1} from the 2 x 2 matrix of k_l, as Cho and Saul write it."""
    xx, xy, yy = float(np.dot(x, x)), float(np.dot(x, y)), float(np.dot(y, y))
    for _ in range(depth):
        t = math.acos(min(1.0, max(-1.0, xy / math.sqrt(xx * yy))))
        if degree == 0:
            xx, xy, yy = 1.0, 1 - t / math.pi, 1.0
        else:
            xy = math.sqrt(xx * yy) * (math.sin(t) + (math.pi - t) * math.cos(t)) / math.pi
    return xy


def smoothed(factor: Callable[[float], float], t: float, noise: float, length: float) -> float:
    """E[factor(t + noise * g)], g standard normal, by quadrature; factor is negligible beyond 40 lengths.

    In units of the narrower of the two functions, and in pieces between their peaks and kinks.
    """

    def bell(g):
        return math.exp(-0.5 * g**2) / math.sqrt(2 * math.pi)

    if noise <= length:
        middle, other, wide = 0.0, -t / noise, 40 * length / noise
        integrand = lambda g: factor(t + noise * g) * bell(g)  # noqa: E731
    else:
        middle, other, wide = 0.0, t / length, 40 * noise / length
        integrand = lambda v: factor(length * v) * bell((length * v - t) / noise) * length / noise  # noqa: E731
    low, high = max(-40.0, other - wide), min(40.0, other + wide)
    if low >= high:
        return 0.0
    edges = sorted({low, high, *(p for p in (middle - 8, middle, middle + 8, other) if low < p < high)})
    return sum(
        integrate.quad(integrand, a, b, epsabs=1e-300, epsrel=1e-12, limit=200)[0]
        for a, b in itertools.pairwise(edges)
    )
