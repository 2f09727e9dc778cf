"""The best of several L-BFGS runs from random starts: what a claimed minimum is measured against."""

from __future__ import annotations

import torch
from scipy.optimize import minimize


def best_of_random_starts(objective, shape, starts=10, seed=0, scale=1.0, **options) -> float:
    """The lowest value of `objective(W)` that L-BFGS finds from `starts` random matrices W of this shape."""
    generator = torch.Generator().manual_seed(seed)

    def value_and_gradient(x):
        W = torch.from_numpy(x).reshape(shape).requires_grad_()
        value = objective(W)
        (gradient,) = torch.autograd.grad(value, W)
        return value.item(), gradient.reshape(-1).numpy()

    best = float("inf")
    for _ in range(starts):
        x = scale * torch.randn(shape, generator=generator, dtype=torch.float64).reshape(-1)
        settings = {"maxiter": 200, "ftol": 1e-13, "gtol": 1e-9, "maxcor": 20} | options
        best = min(
            best,
            minimize(value_and_gradient, x.numpy(), jac=True, method="L-BFGS-B", options=settings).fun,
        )
    return best
