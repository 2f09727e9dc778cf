"""Kernels of the inner product: linear, cosine, polynomial and sigmoid.

    linear       x.y
    cosine       x.y / (|x| |y|)
    polynomial   (s x.y + c)^q           homogeneous for c = 0
    sigmoid      tanh(s x.y + c)         not positive semi-definite

`scale="auto"` is 1 / mean |x|^2 of the data, found by `fitted`, so that values are of order one.

For the cosine the length of a row does not count: word counts of a long and of a short text are alike. A row of zeros
has no direction and is similar to nothing: k(0, y) = 0, also for y = 0, as for kernels on objects.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.validation import check_count, check_number
from krepes.kernels.distances import Vectors, products_with, square_norms
from krepes.kernels.kernel import Geometry, KernelColumns
from krepes.kernels.vectors import VectorKernel, as_rows


class Linear(VectorKernel):
    """k(x, y) = x.y: with it, kernel PCA is PCA.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    tensor([[11.]], dtype=torch.float64)
    """

    name = "linear"
    takes_sparse = True
    geometry: ClassVar[Geometry | None] = "dot_product"

    def against_rows(self, Y: Vectors) -> KernelColumns:
        return products_with(Y)

    def diag_rows(self, X: Vectors) -> Tensor:
        return square_norms(X)

    def feature_count(self, n_features: int) -> int:
        return n_features

    def slope(self, X: Any, Y: Any) -> Tensor:
        Y = as_rows(Y)
        return Y.new_ones(len(X), len(Y))


class DotProductKernel(VectorKernel):
    """f(s x.y + c); subclasses give f."""

    takes_sparse = True
    geometry: ClassVar[Geometry | None] = "dot_product"
    scale: Any
    offset: float

    @abstractmethod
    def function(self) -> Callable[[Tensor], Tensor]:
        """f, which may work in place; parameters are checked here."""

    @abstractmethod
    def derivative(self, u: Tensor) -> Tensor:
        """f'(u), as a new tensor."""

    def slope(self, X: Any, Y: Any) -> Tensor:
        self.function()  # checks the parameters
        Y, scale = as_rows(Y), self._scale()
        return self.derivative((as_rows(X, like=Y) @ Y.mT).mul_(scale).add_(self.offset)).mul_(scale)

    def against_rows(self, Y: Vectors) -> KernelColumns:
        f, scale, products = self.function(), self._scale(), products_with(Y)
        return lambda X: f(products(X).mul_(scale).add_(self.offset))

    def diag_rows(self, X: Vectors) -> Tensor:
        return self.function()(square_norms(X).mul_(self._scale()).add_(self.offset))

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> DotProductKernel:
        if self.scale != "auto":
            return self
        mean = square_norms(self._rows(X).double()).mean().item()
        return clone(self).set_params(scale=1 / mean if mean > 0 else 1.0)

    def _scale(self) -> float:
        if self.scale == "auto":
            raise ValueError("scale='auto' depends on data: call kernel.fitted(X) first, or give a number.")
        check_number("scale", self.scale, "'auto' or a number", above=0)
        return float(self.scale)


class Polynomial(DotProductKernel):
    """k(x, y) = (s x.y + c)^q.

    Parameters
    ----------
    degree : int, default=3
    offset : float, default=1.0
        c >= 0; with 0 the kernel is homogeneous: monomials of degree exactly q.
    scale : float or "auto", default="auto"

    Examples
    --------
    >>> Polynomial(degree=2, offset=1.0, scale=1.0)([[1.0, 2.0]], [[3.0, 4.0]])      # (11 + 1)^2
    tensor([[144.]], dtype=torch.float64)
    """

    name = "polynomial"
    known_elsewhere_as = ("poly",)

    def __init__(self, degree: int = 3, offset: float = 1.0, scale: float | str = "auto"):
        self.degree = degree
        self.offset = offset
        self.scale = scale

    def function(self) -> Callable[[Tensor], Tensor]:
        check_count("degree", self.degree)
        # with a negative one the kernel is not positive
        check_number("offset", self.offset, least=0)
        return lambda u: u.pow_(int(self.degree))

    def derivative(self, u: Tensor) -> Tensor:
        return u.pow(int(self.degree) - 1).mul_(int(self.degree))

    def feature_count(self, n_features: int) -> int:
        self.function()  # checks the parameters
        return math.comb(n_features + int(self.degree) - (self.offset == 0), int(self.degree))


class Sigmoid(DotProductKernel):
    """k(x, y) = tanh(s x.y + c), offered because it is well known. It is not positive semi-definite.

    Models use the positive part of its spectrum and warn.

    Parameters
    ----------
    scale : float or "auto", default="auto"
    offset : float, default=0.0

    Examples
    --------
    >>> Sigmoid(scale=1.0)([[1.0]], [[1.0]])      # tanh(1)
    tensor([[0.7616]], dtype=torch.float64)
    """

    name = "sigmoid"
    known_elsewhere_as = ("tanh",)
    positive_semidefinite = False

    def __init__(self, scale: float | str = "auto", offset: float = 0.0):
        self.scale = scale
        self.offset = offset

    def function(self) -> Callable[[Tensor], Tensor]:
        check_number("offset", self.offset)
        return torch.Tensor.tanh_

    def derivative(self, u: Tensor) -> Tensor:
        return 1 - u.tanh().square_()


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
