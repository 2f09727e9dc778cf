"""The spectrum of the coefficients, and how many directions they use.

s_i: eigenvalues of A^T A [krepes, Figure 1]     effective rank = exp(-sum_i p_i log p_i), p_i = s_i / sum s [roy]
"""

from __future__ import annotations

import numpy as np

from krepes.base.linalg import effective_rank
from krepes.explain.top_landmarks import Explained, coefficient_tensor

__all__ = ["coefficient_spectrum", "effective_rank"]


def coefficient_spectrum(model: Explained) -> np.ndarray:
    """Eigenvalues of A^T A, largest first, (h,)."""
    import torch

    A = coefficient_tensor(model, torch.float64).cpu().numpy()
    largest = np.abs(A).max(initial=0.0)
    if not largest > 0:
        return np.zeros(A.shape[1])
    A = A / largest  # because squares of 1e200 overflow
    with np.errstate(over="ignore"):
        values = np.linalg.eigvalsh(A.T @ A)[::-1].clip(min=0) * largest**2
    if not np.isfinite(values).all():
        raise ValueError(
            f"The coefficients go up to {largest:.3g}, and their squares overflow: fit on rows of larger numbers."
        )
    return values
