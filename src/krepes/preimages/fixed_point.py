"""The pre-image of a point of the feature space under a radial kernel, by fixed-point iteration.        [mika, Eq. 10]

    x <- sum_l g_l s(x, x_l) x_l / sum_l g_l s(x, x_l),      s = -d k / d(|x - y|^2 / 2)

ascends <phi(x), P>, where P = sum_l g_l k(., x_l) and k(x, x) does not depend on x; for the Gaussian kernel s is k up
to a factor. It needs no decoder, but a start: weights g of both signs may lead it astray, and rows whose weights cancel
stay where they were. Cost O(n m d) for each step.

Differs from [mika]: any radial kernel with a slope, and a step is kept only if it does not lower <phi(x), P>.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.features.space import FeatureSpace
from krepes.kernels import Kernel


def fixed_point(
    kernel: Kernel,
    landmarks: Tensor,  # shape: (m, d)
    weights: Tensor,  # shape: (n, m)
    start: Tensor,  # shape: (n, d)
    max_iter: int = 100,
    tol: float = 1e-8,
) -> Tensor:
    """Rows (n, d) whose images are as near as possible to sum_l weights[i, l] k(., landmarks[l]).

    >>> from krepes.kernels import Gaussian
    >>> landmarks = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    >>> found = fixed_point(Gaussian(4.0), landmarks, torch.ones(1, 2).double(), torch.tensor([[0.3]]).double())
    >>> round(found.item(), 4)                                              # both weigh the same: the middle
    1.0
    """
    if kernel.geometry != "radial":
        raise ValueError(f"fixed_point needs a kernel of the distance, such as gaussian; got {kernel}.")
    X, value = start.clone(), (kernel(start, landmarks) * weights).sum(1)
    for _ in range(max_iter):
        pull = weights * kernel.slope(X, landmarks)
        total = pull.sum(1, keepdim=True)
        step = pull @ landmarks / total
        step = torch.where(step.isfinite().all(1, keepdim=True), step, X)
        reached = (kernel(step, landmarks) * weights).sum(1)
        better = reached > value
        change = torch.where(better[:, None], step - X, 0.0)
        X, value = X + change, torch.where(better, reached, value)
        if change.abs().max() <= tol * X.abs().max():
            break
    return X


def feature_point_weights(space: FeatureSpace, A: Tensor, gamma: Tensor, mean: Tensor, Z: Tensor) -> Tensor:
    """g, shape (n, m): the points nearest to the mean feature (r,) whose representations are Z (n, h).

    P = mu + W (W^T W)^+ (z - gamma - W^T mu),   W = F^T K_mm A,   g = F P
    """
    F, K = space.features.F, space.kernel(space.landmarks).double()
    W = F.mT @ (K @ A.double())
    away = Z.double() - gamma.double() - mean @ W
    return (mean + away @ torch.linalg.pinv(W)) @ F.mT
