"""The lengthscale: a positive number, or a rule by the median distance between rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor

from krepes.base.validation import check_number
from krepes.kernels.products import Vectors


def medians(rule: str) -> float:
    """The multiple of the median distance that a rule names.

    >>> medians("median"), medians("4 median")
    (1.0, 4.0)
    """
    words = rule.split()
    if words[-1:] == ["median"] and len(words) <= 2:
        try:
            multiple = float(words[0]) if len(words) == 2 else 1.0
        except ValueError:
            multiple = 0.0
        if 0 < multiple < math.inf:
            return multiple
    raise ValueError(
        f"lengthscale={rule!r}: expected a positive number, one per feature where the kernel takes several, 'median', "
        "or a multiple of it such as '4 median'."
    )


def refuse_rule(rule: str) -> NoReturn:
    """The error for a lengthscale that still has to be found from data."""
    medians(rule)
    raise ValueError(
        f"lengthscale={rule!r} depends on data: call kernel.fitted(X) first, or give a number (estimators do this for "
        "you)."
    )


def fixed_lengthscale(lengthscale: float | str) -> float:
    """A lengthscale that is one positive number already."""
    if isinstance(lengthscale, str):
        refuse_rule(lengthscale)
    check_number("lengthscale", lengthscale, "'median' or a number", above=0)
    return float(lengthscale)


def median_distance(
    X: Vectors, distances_to: Callable[[Any], Callable[[Any], Tensor]], generator: torch.Generator | None
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
