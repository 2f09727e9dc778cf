"""Kernel ridge regression on the weighted features of layers, its width and penalty chosen by leave-one-out.

    f(x) = W^T phi(x) + b,   phi the Nyström features of a Gaussian kernel on landmarks       [tang, Sec. 3.3.3]

Landmarks are chosen without labels, so that leave-one-out errors of the ridge step hold for the whole step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.base import clone

from krepes.alignment.inputs import KernelChoice
from krepes.kernels import Kernel, as_kernel
from krepes.landmarks import LandmarkSelector
from krepes.landmarks.nystrom import NystromMap
from krepes.regression import LeaveOneOutRidge, TransductiveRidge


def candidate_kernels(
    kernel: KernelChoice, Z: np.ndarray, factors: Sequence[float] | np.ndarray, generator: torch.Generator
) -> list[Kernel]:
    """The kernel with its data-dependent numbers found, at several multiples of the median lengthscale.

    >>> Z = np.array([[0.0], [2.0]])
    >>> [k.lengthscale for k in candidate_kernels("laplacian", Z, (0.5, 1.0), torch.Generator())]
    [1.0, 2.0]
    """
    given = as_kernel(kernel)
    fitted = given.fitted(torch.as_tensor(Z), generator)
    if not isinstance(getattr(given, "lengthscale", None), str):
        return [fitted]
    length = fitted.get_params()["lengthscale"]
    return [clone(fitted).set_params(lengthscale=float(f * length)) for f in np.atleast_1d(factors)]


def kernel_ridge(
    Z: np.ndarray,  # (n, d), labelled
    Y: np.ndarray,  # (n, c)
    free: np.ndarray,  # (n', d), unlabelled
    kernels: list[Kernel],
    rule: LandmarkSelector,
    n_landmarks: int,
    alphas: Sequence[float] | np.ndarray,
    betas: Sequence[float] | np.ndarray,
    generator: torch.Generator,
) -> tuple[NystromMap, LeaveOneOutRidge | TransductiveRidge]:
    """Try every kernel and keep the features and the ridge regression with the smallest leave-one-out error.

    Unlabelled rows are used only after that choice.
    """
    everything = torch.as_tensor(np.concatenate([Z, free]))
    best = np.inf
    for kernel in kernels:
        chosen = rule.select(everything, kernel, n_landmarks, generator)
        features = NystromMap(kernel, everything[chosen], dtype=torch.float64)
        Phi = features(Z).numpy()
        ridge = LeaveOneOutRidge(alphas).fit(Phi, Y)
        if ridge.errors_.min() < best:
            best, found = ridge.errors_.min(), (features, ridge, Phi)
    features, ridge, Phi = found
    if not len(free):
        return features, ridge
    return features, TransductiveRidge((ridge.alpha_,), betas).fit(Phi, Y, features(free).numpy())
