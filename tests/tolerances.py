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
    """Every outcome was seen as often as its probability says, within 4 standard errors."""
    n = sum(counts.values())
    assert set(counts) <= {outcome for outcome, p in probabilities.items() if p > 0}
    for outcome, p in probabilities.items():
        error = abs(counts.get(outcome, 0) - n * p)
        assert error <= 4 * (n * p * (1 - p)) ** 0.5 + 1e-9, (outcome, counts.get(outcome, 0) / n, p)
