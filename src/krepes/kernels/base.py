"""The kernel contract: k(X, Y) as a matrix, its diagonal, and its landmark side prepared once.

A kernel is a formula. `kernel(X, Y)` gives the (n, m) matrix, `kernel.diag(X)` the n values k(x, x).
`kernel.against(Y)` returns a function of X with everything that depends on Y alone computed once; the
engine calls it for block after block. `kernel.fitted(X, generator)` returns a copy in which data-dependent
parameters ("median") are numbers.

Two optional abilities let augmentations be integrated exactly instead of sampled [krepes design, exact
views]: a kernel that is a sum of products over coordinates lists its `product_terms()`, and each of those
gives its one-dimensional factor, smoothed by Gaussian noise, through `coordinate_factor`.

A third one lets metrics be learned from gradients [zou, Sec. 4.2]: a kernel of |x - y| or of x.y says which in
`geometry` and gives the derivative of its profile as `slope`.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.linalg import row_blocks, rows_within

KernelColumns = Callable[[Any], Tensor]  # X (b, d) -> (b, m)

BLOCK_BYTES = 256 * 2**20  # what one call may hold beyond its result


def as_rows(X: Any, like: Tensor | None = None) -> Tensor:
    """Anything array-like as a (n, d) floating tensor; images are flattened, integers become float32."""
    if not isinstance(X, Tensor):
        try:
            X = torch.as_tensor(np.asarray(X))
        except (TypeError, ValueError):
            raise TypeError(
                "This kernel compares vectors, but got objects that are not numbers. Give a kernel on objects: a "
                "callable k(X, Y) -> (n, m), or krepes.kernels.Custom(function, pairwise=True)."
            ) from None
    if X.ndim < 2:
        raise ValueError(f"Expected rows of features, shape (n, d); got shape {tuple(X.shape)}.")
    if not X.is_floating_point():
        X = X.to(torch.float32)
    if like is not None:
        X = X.to(device=like.device, dtype=like.dtype)
    return X.reshape(len(X), int(np.prod(X.shape[1:])))


class Kernel(Component, ABC):
    """A positive semi-definite function of two samples.

    Subclasses implement `against` and `diag`. Vector kernels derive from `VectorKernel` and write their
    formula only.
    """

    positive_semidefinite: ClassVar[bool] = True
    takes_objects: ClassVar[bool] = False  # True: X may be a list of anything
    external: ClassVar[str | None] = None  # the parameter that a model file cannot hold: a function, a module

    @abstractmethod
    def against(self, Y: Any) -> KernelColumns:
        """A function X -> k(X, Y), with the part that depends on Y alone computed now."""

    @abstractmethod
    def diag(self, X: Any) -> Tensor:
        """k(x, x) for every row, shape (n,)."""

    def __call__(self, X: Any, Y: Any = None) -> Tensor:
        """The kernel matrix, shape (n, m); Y = X if not given."""
        Y = X if Y is None else Y
        block, n, m = self.against(Y), len(X), len(Y)
        if n * m * 4 <= BLOCK_BYTES:
            return block(X)
        size = rows_within(BLOCK_BYTES, 8 * m)
        return torch.cat([block(X[rows]) for rows in row_blocks(n, size)])

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Kernel:
        """A kernel whose data-dependent parameters are numbers; by default the kernel itself."""
        return self

    def product_terms(self) -> list[tuple[float, Kernel]] | None:
        """This kernel as a weighted sum of kernels that are products over coordinates, or None."""
        return None

    def coordinate_factor(self, column: int, x: Tensor, z: Tensor, noise: float) -> Tensor:
        """E[kappa_j(x + noise * g, z)] of coordinate j, g standard normal: (b,) and (m,) -> (b, m)."""
        raise TypeError(f"{self} is not a product over coordinates; views cannot be integrated exactly.")

    def smoothed(self, noise: Tensor) -> Kernel | None:
        """k'(x, y) = E[k(x + noise * g, y)], noise of shape (d,), as a fast kernel, or None if there is none."""
        return None

    @property
    def geometry(self) -> str | None:
        """What k(x, y) depends on: "radial" is |x - y|, "dot_product" is x.y, None anything else."""
        return None

    def feature_count(self, n_features: int) -> int | None:
        """The dimension of the kernel's feature space on R^d where it is finite, a bound on the rank of K."""
        return None

    def slope(self, X: Any, Y: Any) -> Tensor:
        """R, shape (n, m), with dk(x, y)/dy = R (x - y) for a radial kernel and R x for one of x.y.

        A radial kernel that has a kink at x = y has slope zero there, the mean of its one-sided derivatives.
        """
        raise TypeError(
            f"{self} does not give its derivative as a function of |x - y| or of x.y. Use a kernel that does, such as "
            "Gaussian(), Matern() or Polynomial(), with one lengthscale for all features."
        )

    def __add__(self, other: Kernel) -> Kernel:
        from krepes.kernels.combine import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        from krepes.kernels.combine import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other) if isinstance(other, numbers.Real) else NotImplemented

    __rmul__ = __mul__


class VectorKernel(Kernel):
    """A kernel on vectors: subclasses see (n, d) floating tensors of one dtype and device."""

    @abstractmethod
    def against_rows(self, Y: Tensor) -> KernelColumns:
        """`against` for Y of shape (m, d)."""

    @abstractmethod
    def diag_rows(self, X: Tensor) -> Tensor:
        """`diag` for X of shape (n, d)."""

    def against(self, Y: Any) -> KernelColumns:
        Y = as_rows(Y)
        block = self.against_rows(Y)

        def checked(X: Any) -> Tensor:
            X = as_rows(X, like=Y)
            if X.shape[1] != Y.shape[1]:
                raise ValueError(f"X has {X.shape[1]} features, but the landmarks have {Y.shape[1]}.")
            return block(X)

        return checked

    def diag(self, X: Any) -> Tensor:
        return self.diag_rows(as_rows(X))
