"""The cosine of the angle between two rows.

    k(x, y) = x.y / (|x| |y|)

The length of a row does not count: word counts of a long and of a short text are alike. A row of zeros has no direction
and is similar to nothing: k(0, y) = 0, also for y = 0, as for kernels on objects.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.kernels.distances import Vectors, products_with, square_norms
from krepes.kernels.kernel import KernelColumns
from krepes.kernels.vectors import VectorKernel


class Cosine(VectorKernel):
    """k(x, y) = x.y / (|x| |y|), and 0 where a row is zero.

    Examples
    --------
    >>> Cosine()([[3.0, 4.0]], [[1.0, 0.0], [6.0, 8.0], [0.0, 0.0]])
    tensor([[0.6000, 1.0000, 0.0000]], dtype=torch.float64)
    """

    name = "cosine"
    known_elsewhere_as = ("cosine_similarity",)
    takes_sparse = True

    def against_rows(self, Y: Vectors) -> KernelColumns:
        products, right = products_with(Y), _inverse_norms(Y)
        return lambda X: products(X).mul_(_inverse_norms(X)[:, None]).mul_(right)

    def diag_rows(self, X: Vectors) -> Tensor:
        norms = square_norms(X)
        return (norms > 0).to(norms.dtype)

    def feature_count(self, n_features: int) -> int:
        return n_features


def _inverse_norms(X: Vectors) -> Tensor:
    """1 / |x|, and 0 where x = 0."""
    norms = square_norms(X)
    return torch.where(norms > 0, norms.rsqrt(), 0.0)
