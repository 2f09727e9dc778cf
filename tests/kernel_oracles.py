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


# Kernels on objects: counts in plain dictionaries, and their inner product


def objects_matrix(k: Callable, X: list, Y: list, normalize: bool = True) -> Tensor:
    """k(x, y), or k(x, y) / sqrt(k(x, x) k(y, y)) and 0 where that is 0 / 0, in a double loop."""

    def value(x, y):
        scale = math.sqrt(k(x, x)) * math.sqrt(k(y, y)) if normalize else 1.0
        return k(x, y) / scale if scale > 0 else 0.0

    return torch.tensor([[value(x, y) for y in Y] for x in X], dtype=torch.float64).reshape(len(X), len(Y))


def of_counts(counts: Callable[..., dict]) -> Callable:
    """sum_u c_u(x) c_u(y)."""
    return lambda x, y: sum(c * counts(y).get(u, 0) for u, c in counts(x).items())


def _tally(pieces) -> dict:
    found: dict = {}
    for piece in pieces:
        found[piece] = found.get(piece, 0) + 1
    return found


def substring_counts(x: str, length: int) -> dict:
    return _tally(x[i : i + length] for i in range(len(x)) if i + length <= len(x))


def mismatch_counts(x: str, length: int, mismatches: int, alphabet: str) -> dict:
    """Every string over the alphabet is compared with every substring of x."""
    found = {}
    for u in itertools.product(alphabet, repeat=length):
        windows = [x[i : i + length] for i in range(len(x) - length + 1)]
        near = [w for w in windows if set(w) <= set(alphabet)]
        found["".join(u)] = sum(sum(a != b for a, b in zip(u, w)) <= mismatches for w in near)
    return found


def subsequence_weights(x: str, length: int, decay: float) -> dict:
    """All choices of places, one by one."""
    found: dict = {}
    for places in itertools.combinations(range(len(x)), length):
        u = "".join(x[i] for i in places)
        found[u] = found.get(u, 0.0) + decay ** (places[-1] - places[0] + 1)
    return found


def surroundings(graph: dict, rounds: int) -> dict:
    """Labels of Weisfeiler and Lehman as nested tuples."""
    edges = {tuple(sorted(e)): label for e, label in zip(graph["edges"], graph["edge_labels"])}
    labels: list = [("label", repr(label)) for label in graph["labels"]]
    seen = list(labels)
    for _ in range(rounds):
        new = []
        for v, own in enumerate(labels):
            near = []
            for (i, j), label in edges.items():
                if v in (i, j):
                    near.append((repr(label), labels[i + j - v]))
            new.append((own, tuple(sorted(near))))
        labels = new
        seen += labels
    return _tally(seen)


def distances_of_labels(graph: dict) -> dict:
    """Floyd and Warshall's distances of all pairs of nodes."""
    n = len(graph["labels"])
    D = [[0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for i, j in graph["edges"]:
        if i != j:
            D[i][j] = D[j][i] = 1
    for k, i, j in itertools.product(range(n), repeat=3):
        D[i][j] = min(D[i][j], D[i][k] + D[k][j])
    names = [repr(label) for label in graph["labels"]]
    pairs = [(i, j) for i in range(n) for j in range(i) if D[i][j] < math.inf]
    return _tally((*sorted((names[i], names[j])), D[i][j]) for i, j in pairs)


def mean_of_pairs(k: Callable) -> Callable:
    """The mean of k(a, b) over all pairs of members; 0 where there are none."""

    def mean(A, B):
        return sum(k(a, b) for a in A for b in B) / (len(A) * len(B)) if len(A) and len(B) else 0.0

    return mean


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
