"""Distances between blocks of rows, arranged so that the landmark side is computed once.

    |x - y|^2 = |x|^2 - 2 x.y + |y|^2 = [x, |x|^2, 1] . [-2y, 1, |y|^2]          one matrix product

Rows are shifted by the mean of Y first: distances do not change, and float32 does not lose the spread of
data that lie far from the origin. Results are clamped at zero in place. The product's rounding error is a
few eps |x|^2, which two guards keep out of the results: exponents (`scale` < 0) are computed in float64
for rows that lie very many lengthscales from the mean, and for square roots the distances of near neighbours are
computed again from their differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.rows import SparseRows
from krepes.kernels import sparse_products
from krepes.kernels.products import Vectors

LARGEST_EXPONENT_ERROR = 1e-5
PAIR_NUMBERS = 2**23  # numbers held at once when pairs are computed from their differences


def squared_distances_to(Y: Vectors, scale: float = 1.0) -> Callable[[Any], Tensor]:
    """A function X -> scale * |x - y|^2, shape (b, m), clamped to the sign of `scale`."""
    if isinstance(Y, SparseRows):
        return sparse_products.sparse_squared_distances_to(Y, scale)
    center = Y.mean(dim=0)
    Yc = Y - center
    right = torch.cat([-2 * Yc, Yc.new_ones(len(Yc), 1), Yc.square().sum(1, keepdim=True)], dim=1).mul_(scale)
    right_T = right.mT.contiguous()
    largest_norm = LARGEST_EXPONENT_ERROR / (abs(scale) * torch.finfo(Y.dtype).eps)

    def block(X: Tensor) -> Tensor:
        left = X.new_empty(len(X), right.shape[1])
        Xc = left[:, :-2]
        if X.requires_grad or center.requires_grad:
            Xc.copy_(X - center)
        else:
            torch.sub(X, center, out=Xc)
        left[:, -2] = Xc.square().sum(1)
        left[:, -1] = 1
        D = left @ right_T
        if scale < 0 and X.dtype != torch.float64 and bool((far := left[:, -2] > largest_norm).any()):
            D[far] = squared_distances_to(Y.double(), scale)(X[far].double()).to(D.dtype)
        elif bool((beyond := left[:, -2].isinf()).any()):  # because infinity - infinity is NaN
            D[beyond] = math.copysign(math.inf, scale)
        return D.clamp_(max=0) if scale < 0 else D.clamp_(min=0)

    return block


def distances_to(Y: Vectors) -> Callable[[Any], Tensor]:
    """A function X -> |x - y|, shape (b, m).

    A square root turns an error of eps |x|^2 into one of sqrt(eps) |x| where x and y coincide. Squared
    distances below sqrt(eps) |x|^2 are therefore computed again: the error falls to eps^(3/4) |x|, and
    equal rows are at distance zero exactly.
    """
    if isinstance(Y, SparseRows):
        return sparse_products.sparse_distances_to(Y)
    squared, center = squared_distances_to(Y), Y.mean(dim=0)
    near = torch.finfo(Y.dtype).eps ** 0.5

    def block(X: Tensor) -> Tensor:
        D = squared(X)
        radius = near * (X - center).square().sum(1, keepdim=True)
        neighbours = torch.le(D, radius).nonzero()
        for pairs in row_blocks(len(neighbours), max(1, PAIR_NUMBERS // max(1, Y.shape[1]))):
            i, j = neighbours[pairs].unbind(1)
            D[i, j] = (X[i] - Y[j]).square_().sum(1)
        return D.sqrt_()

    return block


def manhattan_distances_to(Y: Vectors) -> Callable[[Any], Tensor]:
    """A function X -> sum_j |x_j - y_j|, shape (b, m); of dense rows with numba where it is installed, else torch."""
    if isinstance(Y, SparseRows):
        return sparse_products.sparse_manhattan_distances_to(Y)
    return _compiled_or("manhattan", Y, lambda X: torch.cdist(X, Y, p=1))


def chi_squared_distances_to(Y: Tensor) -> Callable[[Tensor], Tensor]:
    """A function X -> sum_j (x_j - y_j)^2 / (x_j + y_j) of numbers >= 0, shape (b, m); 0 / 0 is 0.

    Numba where it is installed, else column by column with torch.
    """
    tiny = torch.finfo(Y.dtype).tiny

    def by_columns(X: Tensor) -> Tensor:
        total = X.new_zeros(len(X), len(Y))
        for x, y in zip(X.mT, Y.mT):
            total += (x[:, None] - y).square_().div_(x[:, None] + y + tiny)
        return total

    return _compiled_or("chi_squared_sums", Y, by_columns)


def _compiled_or(name: str, Y: Tensor, plain: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The compiled sum of that name on a CPU where numba is installed; otherwise, and for gradients, the plain one."""
    fast = compiled("manhattan", name) if Y.device.type == "cpu" else None

    def block(X: Tensor) -> Tensor:
        if fast is None or X.requires_grad:
            return plain(X)
        return torch.from_numpy(fast(X.detach().numpy(), Y.detach().numpy(), torch.get_num_threads()))

    return block


@cache
def compiled(module: str, name: str) -> Callable[..., Any] | None:
    """A function of `krepes.kernels.<module>`, compiled on first use; None without numba."""
    try:
        return getattr(import_module(f"krepes.kernels.{module}"), name)
    except ImportError:
        return None
