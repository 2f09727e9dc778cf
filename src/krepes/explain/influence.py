"""How much every landmark moves a representation: as published, and by leaving it out.

    iota_l(x) = k(x, x_l) |a_l|                                                       [krepes, section 5.1]
    delta_l(x) = |f(x) - f_-l(x)| = |a_l| |(k_x^T B)_l| / B_ll,    B = (K_mm + eps I)^-1

iota is the length of the landmark's own term. Where landmarks are near-duplicates, large terms cancel, and iota says
that both matter. f_-l is the model without landmark l, that is the nearest function to f (in the kernel's own norm)
that the other landmarks can express: a duplicate takes over, and delta is small. Use iota to ask which examples a
representation is made of, delta to ask which ones it needs. delta costs O(m^3) once and O(n m^2).

If a landmark has p views, iota is the sum over its views, and delta leaves all of them out.
Differs from [krepes]: rows of A, not columns; x_l, not c_j; |iota| ranks, because k may be negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.validation import check_finite
from krepes.explain.expansion import (
    Expansion,
    Explained,
    TopLandmarks,
    Values,
    all_values,
    coefficient_tensor,
    in_range,
    largest_values,
    over_views,
    row_norms,
)


def influence(model: Explained, X: Any) -> np.ndarray:
    """iota of every landmark on every row, (n, m). `top_influence` does not hold that many numbers.

    Examples
    --------
    One landmark at 0 with |a| = 2 and a Gaussian kernel of lengthscale 1, so iota(x) = 2 exp(-x^2 / 2):

    >>> from krepes import KernelEmbedding
    >>> X = np.array([[0.0], [1.0]])
    >>> model = KernelEmbedding(1, loss="kernel_pca", landmarks=[[0.0]], random_state=0, dtype="float64")
    >>> scaled = influence(model.fit(X), X) / np.linalg.norm(model.coefficients_)
    >>> bool(np.allclose(scaled[:, 0], [1, model.kernel_(torch.tensor(X[1:]), torch.tensor(X[:1])).item()]))
    True
    """
    return all_values(model, X, influences(model))


def top_influence(model: Explained, X: Any, n_top: int = 5) -> TopLandmarks:
    """The most influential landmarks of every row."""
    return largest_values(model, X, influences(model), n_top)


def leave_out(model: Explained, X: Any) -> np.ndarray:
    """delta: how far every row moves when a landmark is left out, (n, m)."""
    return all_values(model, X, changes(Expansion.of(model)))


def top_leave_out(model: Explained, X: Any, n_top: int = 5) -> TopLandmarks:
    """The landmarks that every row's representation depends on most."""
    return largest_values(model, X, changes(Expansion.of(model)), n_top)


def landmark_norms(model: Explained) -> np.ndarray:
    """omega_l = |a_l| of every landmark, over all its views, (m,)."""
    norms = row_norms(coefficient_tensor(model, torch.float64)).cpu().numpy()
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


def influences(model: Explained) -> Values:
    """k_x -> iota."""
    norms = in_range(row_norms(coefficient_tensor(model, torch.float64)), model, "Coefficients")
    return lambda K: over_views(K * norms.to(K), model.views_per_landmark_)


def changes(expansion: Expansion) -> Values:
    """k_x -> delta, with p = 1 or the p x p blocks of B for landmarks with p views."""
    B, views = expansion.landmarks.inverse, expansion.landmarks.centres
    within = B[views[:, :, None], views[:, None, :]]  # (m, p, p)
    moves = torch.linalg.solve(within, expansion.A[views])  # (m, p, h): what one unit of (k_x B) moves
    gram = moves @ moves.mT  # (m, p, p)

    def lengths(K: Tensor) -> Tensor:
        parts = (K.double() @ B)[:, views]  # (b, m, p)
        squares = torch.einsum("bmp,mpq,bmq->bm", parts, gram, parts)
        return squares.clamp_(min=0).sqrt().to(K.dtype)

    return lengths
