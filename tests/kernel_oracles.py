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


def chi_squared(x, y):
    return sum((a - b) ** 2 / (a + b) for a, b in zip(x, y) if a + b > 0)


def log_alignments(x, y, lengthscale, triangular):
    """log of the sum over all alignments, cell by cell in logarithms, as Cuturi writes it."""
    logs = np.full((len(x) + 1, len(y) + 1), -np.inf)
    logs[0, 0] = 0.0
    for s in range(1, len(x) + 1):
        for t in range(1, len(y) + 1):
            exponent = -sum((x[s - 1] - y[t - 1]) ** 2) / (2 * lengthscale**2)
            w = 1.0 if triangular is None else max(0.0, 1 - abs(s - t) / triangular)
            if w > 0:
                local = math.log(w) + exponent - math.log(2 - w * math.exp(exponent))
                before = (logs[s - 1, t], logs[s, t - 1], logs[s - 1, t - 1])
                high = max(before)
                if high > -math.inf:
                    logs[s, t] = local + high + math.log(sum(math.exp(each - high) for each in before))
    return logs[-1, -1]


def global_alignment(x, y, lengthscale, triangular):
    xy, xx, yy = (log_alignments(a, b, lengthscale, triangular) for a, b in ((x, y), (x, x), (y, y)))
    return math.exp(xy - (xx + yy) / 2)


def warped_distance(x, w):
    """Dynamic time warping: the least sum of distances over alignments."""
    best = np.full((len(x) + 1, len(w) + 1), np.inf)
    best[0, 0] = 0.0
    for s in range(1, len(x) + 1):
        for t in range(1, len(w) + 1):
            before = min(best[s - 1, t], best[s, t - 1], best[s - 1, t - 1])
            best[s, t] = math.dist(x[s - 1], w[t - 1]) + before
    return best[-1, -1]


def gower(x, y, lengthscale, combine, profile, missing, deviations, may_miss):
    """Rows as dicts; None is missing; numbers are divided by their deviations; a row's own columns are x's keys."""
    found = []
    for name in x:
        a, b = x[name], y[name]
        if a is None or b is None:
            found.append(1.0 if a is None and b is None else missing)
            continue
        d = float(a != b) if isinstance(a, str) else abs(a - b) / deviations[name]
        s = math.exp(-d / lengthscale) if profile == "laplacian" else math.exp(-(d**2) / (2 * lengthscale**2))
        found.append(missing**2 + (1 - missing**2) * s if name in may_miss else s)
    return math.prod(found) if combine == "product" else sum(found) / len(found)
