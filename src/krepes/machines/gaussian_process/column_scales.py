"""A radial kernel between rows whose columns are stretched, and what it changes by with each of them.

    k(x, y) = f(u),   u = |z_x - z_y|,   z_j = exp(t_j) x_j

    dk/dt_j = f'(u)/u (z_xj - z_yj)^2          Euclidean distance
            = f'(u) |z_xj - z_yj|              L1 distance

so that for any G, the sum of G_ab dk_ab/dt_j is a product of matrices, O(n^2 d), without derivatives of single entries.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from krepes.kernels import Kernel, Laplacian
from krepes.kernels.radial import RadialKernel


def has_scales(kernel: Kernel) -> bool:
    """Whether the lengthscale of a kernel is open, and its derivatives are known."""
    if not isinstance(kernel, RadialKernel) or not isinstance(kernel.lengthscale, str):
        return False
    try:
        kernel.profile_slope(torch.ones(1, dtype=torch.float64))
    except TypeError:
        return False
    return True


def scaled_kernel(kernel: RadialKernel, Z: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """K (n, n) of stretched rows, and a function from G (n, n), symmetric, to the sums of G dK/dt, (d,)."""
    u = kernel.distances_to(Z)(Z)
    u.fill_diagonal_(0)
    slope = kernel.profile_slope(u.clone())
    slope = torch.where(slope == -torch.inf, 0.0, slope)

    def by_squares(G: Tensor) -> Tensor:
        M, centred = G * slope, Z - Z[0]  # constant columns are zero exactly
        centred -= centred.mean(0)
        return 2 * (M.sum(1) @ centred.square() - (centred * (M @ centred)).sum(0))

    def by_absolutes(G: Tensor) -> Tensor:
        M = G * slope * u
        return torch.stack([(M * (z[:, None] - z).abs()).sum() for z in Z.unbind(1)])

    absolute = isinstance(kernel, Laplacian) and kernel.norm == 1
    return kernel.profile(u.clone()), by_absolutes if absolute else by_squares
