"""How much every landmark weighs in a model, and how many directions the coefficients use."""

from __future__ import annotations

import numpy as np
import torch

from krepes.base.validation import check_finite
from krepes.explain.expansion import Explained, coefficient_tensor


def landmark_norms(model: Explained) -> np.ndarray:
    """omega_l = |a_l| of every landmark, over all its views, (m,)."""
    A = coefficient_tensor(model, torch.float64).cpu().numpy()
    norms = np.hypot.reduce(A, axis=1)  # because squares may overflow
    return np.hypot.reduce(norms.reshape(model.views_per_landmark_, -1), axis=0)


def coefficient_spectrum(model: Explained) -> np.ndarray:
    """Eigenvalues of A^T A, largest first, (h,) [krepes, Figure 1]; `effective_rank` says how many matter."""
    A = coefficient_tensor(model, torch.float64)
    values = np.zeros(A.shape[1])
    found = torch.linalg.svdvals(A).cpu().numpy()
    with np.errstate(over="ignore"):
        values[: len(found)] = found**2
    check_finite(values, "The spectrum of the coefficients")
    return values
