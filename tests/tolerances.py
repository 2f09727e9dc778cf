"""How far two computations of the same numbers may differ, by dtype: the only table of tolerances.

The numbers are relative to the largest magnitude in the result (at least 1): room for a few hundred
rounding errors, and for nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def assert_same(actual: Tensor, expected: Tensor, dtype: torch.dtype | None = None) -> None:
    """The largest difference is within the tolerance of `dtype`, by default that of `actual`."""
    assert actual.shape == expected.shape, f"{tuple(actual.shape)} != {tuple(expected.shape)}"
    allowed = TOLERANCE[dtype or actual.dtype] * max(
        1.0, expected.abs().max().item() if expected.numel() else 1.0
    )
    difference = (actual.double() - expected.double()).abs()
    worst = difference.max().item() if difference.numel() else 0.0
    assert worst <= allowed, f"largest difference {worst:.3g}, allowed {allowed:.3g}"


def assert_frequencies(counts: dict, probabilities: dict) -> None:
    """Outcomes were seen as often as their probabilities say: Pearson's X^2 within 4 deviations of its mean.

    One statistic for all outcomes, because among many cells one beyond 4 standard errors is no surprise.
    """
    n, cells = sum(counts.values()), {outcome: p for outcome, p in probabilities.items() if p > 1e-12}
    impossible = set(counts) - set(cells)
    assert not impossible, f"seen, although impossible: {impossible}"
    statistic = sum((counts.get(outcome, 0) - n * p) ** 2 / (n * p) for outcome, p in cells.items())
    k = len(cells)
    variance = 2 * (k - 1) + (sum(1 / p for p in cells.values()) - k**2 - 2 * k + 2) / n
    assert statistic <= k - 1 + 4 * variance**0.5, f"X^2 = {statistic:.1f}, expected about {k - 1}"
