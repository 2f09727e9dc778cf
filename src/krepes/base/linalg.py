"""Linear algebra with one policy: the only home of truncation, inverse square roots and signs.

    K = U diag(s) U^T,  s_1 >= s_2 >= ... ; directions with s_i <= cut * s_1 are dropped      (relative cut)

A relative cut of 1e-6 makes float32 and float64 features span the same space and shortens them at almost
no loss of trace; an absolute one (1e-12 is common) leaves a tail of rounding noise which whitening losses
amplify. Symmetric matrices are decomposed in float64, whatever the dtype of the data.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import scipy.linalg
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.validation import as_numbers

RELATIVE_CUT = {torch.float32: 1e-6, torch.float64: 1e-12, torch.bfloat16: 1e-4, torch.float16: 1e-4}
NOISE = 1e-12  # relative to the scale of moments; what is below it was made by rounding

if hasattr(os, "register_at_fork"):
    # OpenMP hangs in the fork of a process that has used its threads; one thread does not need it.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def symmetric(M: Tensor) -> Tensor:
    """(M + M^T) / 2."""
    return (M + M.mT) / 2


def fix_signs(U: Tensor) -> Tensor:
    """Flip columns so that the entry of largest magnitude is positive: the same signs on every machine."""
    if U.numel() == 0:
        return U
    largest = U.gather(0, U.abs().argmax(dim=0, keepdim=True))
    return U * torch.where(largest < 0, -1.0, 1.0).to(U.dtype)


def descending_eigh(M: Tensor, n_components: int | None = None) -> tuple[Tensor, Tensor]:
    """Eigenpairs of a symmetric matrix in float64, largest first, with fixed signs.

    >>> values, vectors = descending_eigh(torch.tensor([[2.0, 0.0], [0.0, 5.0]]))
    >>> values.tolist()
    [5.0, 2.0]
    """
    M = symmetric(M.double())
    try:
        values, vectors = _ascending_eigh(M, n_components)
    except (torch.linalg.LinAlgError, scipy.linalg.LinAlgError, ValueError) as error:
        raise ValueError(
            f"The eigenvalues of a matrix of shape {tuple(M.shape)} could not be found: its numbers differ too much in "
            "size, or are not finite. Look for extreme values in the rows."
        ) from error
    kept = slice(None) if n_components is None else slice(n_components)
    return values.flip(0)[kept], fix_signs(vectors.flip(1)[:, kept])


def _ascending_eigh(M: Tensor, n_components: int | None) -> tuple[Tensor, Tensor]:
    """The last eigenpairs, or all of them where that costs no more."""
    r = len(M)
    if n_components is not None and n_components < r / 2 and M.device.type == "cpu":
        # Only the leading part: 2 to 3 times faster than all of it.
        found = scipy.linalg.eigh(M.numpy(), subset_by_index=[r - n_components, r - 1], driver="evr")
        return torch.from_numpy(found[0]), torch.from_numpy(found[1])
    values, vectors = torch.linalg.eigh(M)
    return values, vectors


def truncated_eigh(M: Tensor, cut: float) -> tuple[Tensor, Tensor]:
    """Eigenpairs of a positive semi-definite matrix above `cut` times the largest, largest first."""
    values, vectors = descending_eigh(M)
    largest = values[0].item() if values.numel() else 0.0
    if not largest > 0:
        return values[:0], vectors[:, :0]
    kept = int((values > cut * largest).sum())
    return values[:kept], vectors[:, :kept]


def inverse_sqrt(M: Tensor, cut: float = 1e-12) -> Tensor:
    """The pseudo-inverse square root of a positive semi-definite matrix, symmetric.

    >>> inverse_sqrt(torch.tensor([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    values, vectors = truncated_eigh(M, cut)
    return (vectors * values.rsqrt()) @ vectors.mT


def effective_rank(eigenvalues: ArrayLike) -> float:
    """exp of the entropy of eigenvalues that are scaled to sum to one.                      [roy]

    >>> round(effective_rank([2.0, 2.0, 2.0, 0.0]), 6)
    3.0
    """
    values = as_numbers(eigenvalues, "eigenvalues").astype(np.float64).clip(min=0)
    if not values.max() > 0:
        return 0.0
    shares = np.ldexp(
        values[values > 0], -int(np.frexp(values.max())[1])
    )  # a sum of the smallest numbers rounds
    shares = shares[shares > 0] / shares.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def spanned(S: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Eigenpairs of a second moment or covariance (r, r) that stand above rounding, largest first.

    A direction counts when its eigenvalue exceeds NOISE times `scale` (the trace of the uncentred moments: the
    covariance of constant data is rounding alone) and four times the most negative eigenvalue: exact moments
    have none, so its size shows how much rounding the sums carry.

    >>> spanned(torch.diag(torch.tensor([1e-20, 2.0, 1.0])), scale=3.0)[0].tolist()
    [2.0, 1.0]
    """
    values, vectors = descending_eigh(S)
    rounding = max(0.0, -values[-1].item()) if values.numel() else 0.0
    kept = int((values > max(NOISE * scale, 4 * rounding)).sum())
    return values[:kept], vectors[:, :kept]


def low_rank_factor(S: Tensor, target: Tensor, lam: float, n_components: int, scale: float) -> Tensor:
    """The W (r, h') that minimises |W^T S W|_F^2 - 2 tr(W^T target W) + lam |W|^2, h' <= n_components.

        T = S^(-1/2) (target - lam/2 I) S^(-1/2) = V diag(e) V^T,   W = S^(-1/2) V_h diag(e_h)_+^(1/2),

    value -sum_i (e_i)_+^2: with Y = S^(1/2) W the objective is |Y Y^T - T|_F^2 - |T|_F^2, whose best approximation
    of rank h is the positive part of T (Eckart-Young; [haochen] for lam = 0). Components with e_i <= 0 are
    dropped. S must dominate target: directions that S does not span are taken as empty. Two
    eigendecompositions, O(r^3).
    """
    values, vectors = spanned(S, scale)
    basis = vectors * values.rsqrt()
    T = basis.mT @ target @ basis - torch.diag(lam / (2 * values))
    e, V = descending_eigh(T, n_components)
    kept = int((e > NOISE).sum())
    return basis @ (V[:, :kept] * e[:kept].sqrt())


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],  # (n, s) -> (n, s)
    B: Tensor,  # (n, s)
    tolerance: float,
    max_iter: int,
    preconditioner: Callable[[Tensor], Tensor] | None = None,  # (n, s) -> (n, s)
) -> tuple[Tensor, Tensor]:
    """The solution Z, (n, s), of A Z = B, and for every column whether |B - A Z| <= tolerance |B|, (s,).

    A is symmetric positive definite, and known through the product P -> A P [Hestenes and Stiefel]. Columns share one
    product per iteration. A preconditioner, P -> M^-1 P with M near A, needs fewer of them. A column stops where it has
    converged, or where A turns out not to be positive definite along its direction; it then keeps its last value.

    >>> Z, converged = conjugate_gradients(lambda P: 4 * P, torch.tensor([[8.0], [2.0]]), 1e-6, 10)
    >>> Z[:, 0].tolist(), converged.tolist()
    ([2.0, 0.5], [True])
    """
    precondition = preconditioner or (lambda R: R)
    Z, R = torch.zeros_like(B), B.clone()
    P = precondition(R).clone()
    rho, left = (R * P).sum(dim=0), R.square().sum(dim=0)
    goal = tolerance**2 * left
    active = left > goal
    for _ in range(max_iter):
        if not bool(active.any()):
            break
        Q = product(P)
        curvature = (P * Q).sum(dim=0)
        active &= curvature > 0
        step = torch.where(active, rho / curvature, 0.0)
        Z += step * P
        R -= step * Q
        Y = precondition(R)
        rho_next, left = (R * Y).sum(dim=0), R.square().sum(dim=0)
        P = torch.where(active, Y + (rho_next / rho) * P, P)
        rho = rho_next
        active &= left > goal
    return Z, left <= goal
