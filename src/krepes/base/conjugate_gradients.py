"""Conjugate gradients for many right-hand sides at once.

    A Z = B,  A symmetric positive definite, known through the product P -> A P        [Hestenes and Stiefel]

Every column runs its own recursion; all share one product with A per iteration: O(t) products. A preconditioner,
P -> M^-1 P with M near A, makes t smaller.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],  # (n, s) -> (n, s)
    B: Tensor,  # (n, s)
    tolerance: float,
    max_iter: int,
    preconditioner: Callable[[Tensor], Tensor] | None = None,  # (n, s) -> (n, s)
) -> tuple[Tensor, Tensor]:
    """The solution Z, (n, s), and for every column whether |B - A Z| <= tolerance |B|, (s,).

    A column stops where it has converged, or where A turns out not to be positive definite along its
    direction; it then keeps its last value.

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
