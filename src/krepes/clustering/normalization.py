"""Rows in one normalisation, with their distances computed once.

"Normalize the data" [zou, Alg. 1, line 11] has two meanings, which decide success, and affine subspaces need a third:

    unit      every row to length 1; zero rows stay zero. For kernels of distances: directions are compared.
    global    all rows by one number, so that the mean of |x|^2 is 1. For kernels of x.y: lengths are kept.
    affine    (x / s, 1) to length 1, s the root of the mean of |x|^2: an affine subspace is a linear one of these rows.

All commute with linear maps up to a scale per row, so that after several projections one normalisation is enough.
Kernel matrices of any lengthscale come from one matrix of squared distances, n^2 d once and n^2 each.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from krepes.kernels import Gaussian, Kernel

NORMALIZATIONS = ("unit", "global", "affine", "none")


class NormalizedRows:
    """Rows, scaled.

    Attributes
    ----------
    X : Tensor of shape (n, r)
    scale : float
        The number by which "global" and "affine" divide.
    """

    def __init__(self, rows: Tensor, name: str):
        self.scale = scale_of(rows, name)
        self.X = normalized(rows, name, self.scale)

    @cached_property
    def square_distances(self) -> Tensor:
        D = torch.cdist(self.X, self.X).square_()
        D.fill_diagonal_(0)
        return D

    def kernel_matrix(self, kernel: Kernel) -> Tensor:
        """k of all pairs, from the distances where the kernel is a Gaussian."""
        if isinstance(kernel, Gaussian) and isinstance(kernel.lengthscale, float):
            return self.square_distances.mul(-1 / (2 * kernel.lengthscale**2)).exp_()
        return kernel(self.X)


def scale_of(X: Tensor, name: str) -> float:
    """The number by which "global" and "affine" divide."""
    largest = X.abs().max().item() if name in ("global", "affine") else 0.0
    return largest * (X / largest).square().sum(1).mean().item() ** 0.5 if largest > 0 else 1.0


def normalized(X: Tensor, name: str, scale: float) -> Tensor:
    """The rows divided by one scale, or each by its length; rounding noise of projected zero rows counts as zero."""
    if name in ("global", "none"):
        return X / scale
    if not len(X):
        return X
    if name == "affine":
        X = torch.cat([X / scale, X.new_ones(len(X), 1)], dim=1)
    X = X / X.abs().max().clamp(min=torch.finfo(X.dtype).smallest_normal)  # because squares of 1e200 overflow
    norm = X.norm(dim=1, keepdim=True)
    noise = 1e-12 * norm.max()
    return X / norm.where(norm > noise, 1.0) * (norm > noise)


def basis_of(X: Tensor) -> Tensor | None:
    """An orthonormal basis of the rows, (d, r), if there are fewer rows than features; else None.

    Everything depends on the rows through their inner products, and Sigma lies in their span.
    """
    if X.shape[1] <= len(X):
        return None
    _, s, Vt = torch.linalg.svd(X, full_matrices=False)
    rank = max(1, int((s > 1e-12 * s[0]).sum()))
    return Vt[:rank].mT.contiguous()
