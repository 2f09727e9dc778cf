"""The spectrum of the coefficients, and how many directions they use.

s_i: eigenvalues of A^T A [krepes, Figure 1]     effective rank = exp(-sum_i p_i log p_i), p_i = s_i / sum s [roy]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from krepes.embedding import KernelEmbedding
from krepes.explain.ranking import coefficients


def coefficient_spectrum(model: KernelEmbedding) -> np.ndarray:
    """Eigenvalues of A^T A, largest first, (h,)."""
    import torch

    A = coefficients(model, torch.float64)
    return np.linalg.eigvalsh((A.mT @ A).cpu().numpy())[::-1].clip(min=0)


def effective_rank(eigenvalues: ArrayLike) -> float:
    """exp of the entropy of eigenvalues that are scaled to sum to one.

    >>> round(effective_rank([2.0, 2.0, 2.0, 0.0]), 6)
    3.0
    """
    values = np.asarray(eigenvalues, dtype=np.float64).clip(min=0)
    total = values.sum()
    if not total > 0:
        return 0.0
    shares = values[values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))
