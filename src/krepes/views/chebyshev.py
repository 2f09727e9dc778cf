"""Smooth functions of one variable as short sums of Chebyshev polynomials, many functions at a time.

    f(x) ~ sum_{k <= K} c_k T_k(s),   s = (x - center) / half in [-1, 1],   T_{k+1} = 2 s T_k - T_{k-1}

c comes from the values of f at Chebyshev points by a cosine transform; the degree K is the smallest one that
leaves out less than the tolerance. The error of interpolating an analytic function falls geometrically with
K [trefethen, ch. 8].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

POINTS = (17, 33, 65, 129, 257)  # tried in turn until the coefficients have died out


def coefficients(
    f: Callable[[Tensor, slice], Tensor],
    lower: float,
    upper: float,
    tolerance: float,
    max_degree: int,
    device: torch.device | str = "cpu",
) -> Tensor | None:
    """Coefficients of m functions on [lower, upper], shape (K + 1, m), float64.

    Parameters
    ----------
    f : callable (x of shape (N,), which) -> (N, m')
        The values of the functions selected by the slice `which`. Every 64th one is tried first, so that
        functions out of reach (a kink, a narrow peak) cost little.
    lower, upper : float
    tolerance : float
        Bound on the error, on top of rounding.
    max_degree : int

    Returns
    -------
    None where no allowed degree reaches the tolerance, or f is not finite.

    Examples
    --------
    x^2 = (T_0 + T_2) / 2 on [-1, 1]:

    >>> c = coefficients(lambda x, which: x[:, None] ** 2, -1.0, 1.0, 1e-12, max_degree=16)
    >>> c.flatten().round(decimals=9).tolist()
    [0.5, 0.0, 0.5]
    """
    for n_points in POINTS:
        if n_points > 4 * max_degree + 1:
            return None
        angles = (torch.arange(n_points, dtype=torch.float64, device=device) + 0.5) * (math.pi / n_points)
        x = (lower + upper) / 2 + (upper - lower) / 2 * angles.cos()
        if _series(f(x, slice(None, None, 64)), angles, tolerance) is not None:
            c = _series(f(x, slice(None)), angles, tolerance)
            if c is not None:
                return c if len(c) <= max_degree + 1 else None
    return None


def _series(values: Tensor, angles: Tensor, tolerance: float) -> Tensor | None:
    """The cosine transform of values at Chebyshev points, cut at the tolerance; None if it has not died out."""
    n_points = len(angles)
    if not torch.isfinite(values).all():
        return None
    orders = torch.arange(n_points, dtype=angles.dtype, device=angles.device)
    c = torch.cos(orders[:, None] * angles[None, :]) @ values * (2 / n_points)
    c[0] /= 2
    largest = c.abs().amax(dim=1)
    allowed = tolerance + 16 * n_points * torch.finfo(c.dtype).eps * largest.max().item()
    left_out = largest.flip(0).cumsum(0).flip(0)  # entry k bounds the sum of the terms from k on
    if left_out[3 * n_points // 4] > allowed:
        return None
    return c[: max(int((left_out > allowed).sum()), 1)]


def write_polynomials(s: Tensor, counts: list[int], out: Tensor) -> None:
    """Write T_1, T_2, ... of the columns of s (b, c) into `out`, T_k for the first counts[k - 1] columns.

    The columns are sorted by falling degree, so that the k-th polynomials are one slice of `out`.
    """
    start = 0
    previous: Tensor | None = None
    current: Tensor | None = None
    for count in counts:
        following = out[:, start : start + count]
        if current is None:
            following.copy_(s[:, :count])
        else:
            torch.mul(s[:, :count], current[:, :count], out=following)
            following.mul_(2).sub_(1 if previous is None else previous[:, :count])
        start += count
        previous, current = current, following
