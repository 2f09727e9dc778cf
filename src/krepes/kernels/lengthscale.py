"""The lengthscale from data: the median distance between rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def median_distance(
    X: Tensor, distances_to: Callable[[Tensor], Callable[[Tensor], Tensor]], generator: torch.Generator | None
) -> float:
    """The median distance between two different rows, from at most 1000 rows of X.

    Falls back to the mean of the positive distances where more than half of the pairs coincide, and to 1
    for constant data, for which every lengthscale gives the same constant kernel.
    """
    if len(X) > 1000:
        order = torch.randperm(len(X), generator=generator)
        X = X[order[:1000].to(X.device)]
    return middle_distance(distances_to(X.double())(X.double()))


def middle_distance(D: Tensor) -> float:
    """The median of the distances between different rows, of which D, (n, n), has all; see `median_distance`."""
    pairs = D[tuple(torch.triu_indices(len(D), len(D), offset=1))]
    positive = pairs[pairs > 0]
    if positive.numel() == 0:
        return 1.0
    median = pairs.quantile(0.5).item()
    return median if median > 0 else positive.mean().item()
