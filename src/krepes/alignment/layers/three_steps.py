"""The three closed-form steps from the layers of a network to a classifier.

1. Low-rank features of a layer, coordinates in the span of a few of its rows:

    phi(x) = Q^T k_x diag(s)^(-1/2),   k_x = L x,   L L^T = Q diag(s) Q^T                      [tang, Eq. 3.1 - 3.2]

The Nyström map of the linear kernel with landmarks L. Differs from [tang, Eq. 3.2]: s are the eigenvalues of L L^T
itself; the printed exponent belongs to its pseudo-inverse, and has the opposite sign there. Landmarks are rows, chosen
by any rule of `krepes.landmarks`, or, as published, signed sums of rows ("countsketch", four tables).
Where rows are few, layers are taken as they are instead, because low-rank features cost accuracy.
Sums of rows are for the linear kernel only: for a Gaussian kernel they lie where no row is, and the error of the kernel
was 0.19 instead of 0.0025 (digits, 200 landmarks). Cost O(n m d) and O(n m^2) for the choice.

2. Weights of layers: "uniform" ones, which give every layer the same variance; those with which the layers' kernels
   together align best with the classes, "alignment"; or "mean", halfway between. Left-out errors of step 3 decide.

3. Kernel ridge regression on the weighted features, its kernel, width and penalty chosen by leave-one-out:

    f(x) = W^T phi(x) + b,   phi the Nyström features of a kernel on landmarks                 [tang, Sec. 3.3.3]

   a linear kernel, Gaussian kernels of several widths, or sums of both. Differs from [tang]: Gaussian ones only.
   Landmarks are chosen without labels, so that leave-one-out errors of the ridge step hold for the whole step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from sklearn.base import clone

from krepes.alignment.inputs import KernelChoice
from krepes.alignment.similarity.cka import cka
from krepes.alignment.similarity.kernel_combination import combine_kernels
from krepes.alignment.similarity.sketched_cka import SketchedCKA
from krepes.base.components import resolve
from krepes.kernels import Gaussian, Kernel, Linear, as_kernel
from krepes.landmarks import LandmarkSelector
from krepes.landmarks.nystrom import NystromMap
from krepes.regression import LeaveOneOutRidge
from krepes.regression.ridge import checked_alphas
from krepes.regression.ridge_algebra import LeaveOneOut

COUNTSKETCH = "countsketch"
N_TABLES = 4  # [tang, Sec. 3.3.1]
FEWEST_ROWS = 4  # of the unbiased alignment


def as_landmark_rule(value: str | LandmarkSelector) -> str | LandmarkSelector:
    """ "countsketch", or a LandmarkSelector from an object or a name."""
    return value if isinstance(value, str) and value == COUNTSKETCH else resolve(LandmarkSelector, value)


def low_rank_map(
    Z: np.ndarray,  # (n, d)
    n_landmarks: int,
    rule: str | LandmarkSelector,
    generator: torch.Generator,
) -> NystromMap:
    """The map x -> phi(x) of a layer, from rows of it.

    Examples
    --------
    >>> Z = np.array([[3.0, 4.0], [6.0, 8.0]])            # one direction, (0.6, 0.8)
    >>> Phi = low_rank_map(Z, 2, as_landmark_rule("uniform"), torch.Generator())(Z)
    >>> Phi.abs().round(decimals=9).tolist()
    [[5.0], [10.0]]
    """
    rows = torch.as_tensor(np.asarray(Z, dtype=np.float64))
    if isinstance(rule, str):
        landmarks = torch.as_tensor(signed_sums(Z, n_landmarks, int(generator.initial_seed())))
    else:
        landmarks = rows[rule.select(rows, Linear(), n_landmarks, generator)]
    return NystromMap(Linear(), landmarks, dtype=torch.float64)


def signed_sums(Z: np.ndarray, n_buckets: int, seed: int) -> np.ndarray:  # (M, d)
    """Sums of rows with random signs: S Z for a stacked CountSketch S.

    It has M buckets, the largest power of two up to `n_buckets`. Empty buckets are left out.
    """
    M = 1 << (int(n_buckets).bit_length() - 1)
    sketch = SketchedCKA(max(M, 2), min(N_TABLES, max(M, 2) // 2), seed=seed % 2**31)
    table = sketch.update({"layer": Z}).sketch("layer").table
    sums = table[: len(table) // 2] - table[len(table) // 2 :]
    return sums[np.abs(sums).sum(axis=1) > 0]


class WholeLayer:
    """All columns of a layer, for as few rows as fit into memory: nothing is lost."""

    def __init__(self, width: int):
        self.width = width

    def __call__(self, Z: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.asarray(Z, dtype=np.float64))


class LowRankLayer:
    """Features of a layer by `low_rank_map`."""

    def __init__(self, features: NystromMap):
        self.features, self.width = features, features.landmarks.shape[1]

    def __call__(self, Z: np.ndarray) -> torch.Tensor:
        return self.features(Z)


class LayerScore(NamedTuple):
    """One layer: its alignment with the classes, its weight, and its share of the features' variance."""

    layer: str
    alignment: float
    weight: float
    share: float


def choose_layers(
    features: Mapping[str, np.ndarray],  # {layer: (n, r)}
    codes: np.ndarray,  # (n,)
    weighting: str,
) -> tuple[list[LayerScore], float]:
    """Every layer's score, and the alignment of the weighted layers together.

    Weights have 2-norm 1. With fewer than four rows, or if no layer aligns better than chance, they are as with
    "uniform": every layer has the same variance. "mean" gives each layer the mean of both shares of the variance.

    >>> y = np.array([0, 1] * 10)
    >>> layers = {"a": np.arange(20.0)[:, None] ** 2 % 7, "b": 5.0 * y[:, None]}
    >>> scores, alignment = choose_layers(layers, y, "alignment")
    >>> [score.share for score in scores], round(alignment, 9)
    ([0.0, 1.0], 1.0)
    """
    Y = np.eye(int(codes.max()) + 1)[codes]
    variances = np.array([Z.var(axis=0).sum() for Z in features.values()])
    alive = variances > 1e-20 * np.array([np.square(Z).sum(axis=1).mean() for Z in features.values()])
    if not alive.any():
        raise ValueError("All layers are constant, up to rounding: nothing tells the classes apart.")
    weights = np.where(alive, 1 / np.where(alive, variances, 1.0), 0.0)
    weights = weights / weights.max()
    weights /= np.linalg.norm(weights)
    alone = np.full(len(features), np.nan)
    if len(codes) >= FEWEST_ROWS:
        found = combine_kernels(features, Y)
        alone = found.alone
        if weighting != "uniform" and found.weights.any():
            weights = (
                found.weights if weighting == "alignment" else mean_shares(weights, found.weights, variances)
            )
    share = weights * variances
    share = share / share.sum()
    together = np.hstack([Z * np.sqrt(mu) for Z, mu in zip(features.values(), weights) if mu > 0])
    alignment = cka(together, Y) if len(codes) >= FEWEST_ROWS else float("nan")
    scores = zip(features, alone.tolist(), weights.tolist(), share.tolist())
    return [LayerScore(*score) for score in scores], float(alignment)


def mean_shares(first: np.ndarray, second: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Weights of 2-norm 1 that give every layer the mean of its shares of the variance with two sets of weights.

    >>> mean_shares(np.array([1.0, 1.0]), np.array([0.0, 1.0]), np.array([1.0, 1.0])).round(3)
    array([0.316, 0.949])
    """
    parts = [weights * variances for weights in (first, second)]
    share = sum(part / part.sum() for part in parts)
    weights = np.divide(share, variances, out=np.zeros_like(share), where=variances > 0)
    weights /= weights.max()
    return weights / np.linalg.norm(weights)


def candidate_kernels(
    kernel: KernelChoice, Z: np.ndarray, factors: Sequence[float] | np.ndarray, generator: torch.Generator
) -> list[Kernel]:
    """The kernel with its data-dependent numbers found, at several multiples of the median lengthscale.

    "auto" are linear and Gaussian kernels, and sums of both; the rows have a total variance of 1, which makes the parts
    of a sum alike.

    >>> Z = np.array([[0.0], [2.0]])
    >>> [k.lengthscale for k in candidate_kernels("laplacian", Z, (0.5, 1.0), torch.Generator())]
    [1.0, 2.0]
    """
    if isinstance(kernel, str) and kernel == "auto":
        gaussian = candidate_kernels(Gaussian("median"), Z, factors, generator)
        return [Linear(), *gaussian, *(Linear() + each for each in gaussian)]
    given = as_kernel(kernel)
    fitted = given.fitted(torch.as_tensor(Z), generator)
    if not isinstance(getattr(given, "lengthscale", None), str):
        return [fitted]
    length = fitted.get_params()["lengthscale"]
    return [clone(fitted).set_params(lengthscale=float(f * length)) for f in np.atleast_1d(factors)]


def coordinates(Z: np.ndarray) -> np.ndarray:  # (n, d) -> (n, min(n, d))
    """Rows turned into as few columns as hold them: their distances and inner products stay the same.

    >>> Z = np.array([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]])
    >>> R = coordinates(Z)
    >>> R.shape, np.allclose(R @ R.T, Z @ Z.T)
    ((2, 2), True)
    """
    if Z.shape[1] <= len(Z):
        return Z
    e, U = np.linalg.eigh(Z @ Z.T)
    return U * np.sqrt(np.maximum(e, 0))


def best_kernel(
    Z: np.ndarray,  # (n, d)
    Y: np.ndarray,  # (n, c)
    kernels: Sequence[Kernel],
    alphas: Sequence[float] | np.ndarray,
) -> tuple[Kernel, float]:
    """The kernel whose ridge regression on all these rows has the smallest leave-one-out error, and the error.

    Cost O(n^2 d + n^3) for every kernel.

    >>> Z = np.arange(6.0)[:, None]
    >>> kernel, error = best_kernel(Z, Z, [Gaussian(0.1), Linear()], [1e-9])
    >>> kernel.name, bool(error < 1e-12)
    ('linear', True)
    """
    rows, targets, errors = torch.as_tensor(Z), torch.as_tensor(Y), []
    for kernel in kernels:
        left_out = LeaveOneOut.of_kernel(kernel(rows, rows).double(), targets)
        unit = float(left_out.e.mean()) if len(left_out.e) else 1.0
        errors.append(left_out.errors(checked_alphas(alphas) * unit).min())
    best = int(np.argmin(errors))
    return kernels[best], float(errors[best])


def kernel_ridge(
    Z: np.ndarray,  # (n, d)
    Y: np.ndarray,  # (n, c)
    kernels: Sequence[Kernel],
    centres: Callable[[Kernel], torch.Tensor],  # the landmarks for a kernel
    alphas: Sequence[float] | np.ndarray,
) -> tuple[NystromMap, LeaveOneOutRidge]:
    """The features and the ridge regression of the kernel with the smallest leave-one-out error."""
    best = np.inf
    for kernel in kernels:
        features = NystromMap(kernel, centres(kernel), dtype=torch.float64)
        ridge = LeaveOneOutRidge(alphas).fit(features(Z).numpy(), Y)
        if ridge.errors_.min() < best:
            best, found = ridge.errors_.min(), (features, ridge)
    return found
