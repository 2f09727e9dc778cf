"""Kernels made of kernels: sums, products and multiples, written with + and *.

(k1 + k2)(x, y) = k1(x, y) + k2(x, y),    (k1 k2)(x, y) = k1(x, y) k2(x, y),    (c k)(x, y) = c k(x, y)
"""

from __future__ import annotations

import numbers
from typing import Any

import torch
from torch import Tensor

from krepes.kernels.base import Kernel, KernelColumns


class Pair(Kernel):
    """Two kernels on the same samples."""

    def __init__(self, left: Kernel | None = None, right: Kernel | None = None):
        self.left = left
        self.right = right

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        return all(k.positive_semidefinite for k in self._kernels())

    @property
    def takes_objects(self) -> bool:  # type: ignore[override]
        return all(k.takes_objects for k in self._kernels())

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Pair:
        left, right = (kernel.fitted(X, generator) for kernel in self._kernels())
        return type(self)(left, right)

    @property
    def geometry(self) -> str | None:
        left, right = (kernel.geometry for kernel in self._kernels())
        return left if left == right else None

    def _kernels(self) -> tuple[Kernel, Kernel]:
        if self.left is None or self.right is None:
            raise ValueError(f"{type(self).__name__} needs two kernels: write left + right or left * right.")
        return self.left, self.right


class Sum(Pair):
    """k1 + k2.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> (Linear() + Linear())([[1.0]], [[2.0]])
    tensor([[4.]], dtype=torch.float64)
    """

    def against(self, Y: Any) -> KernelColumns:
        left, right = (kernel.against(Y) for kernel in self._kernels())
        return lambda X: left(X).add_(right(X))

    def diag(self, X: Any) -> Tensor:
        left, right = (kernel.diag(X) for kernel in self._kernels())
        return left + right

    def slope(self, X: Any, Y: Any) -> Tensor:
        if self.geometry is None:
            return super().slope(X, Y)
        left, right = (kernel.slope(X, Y) for kernel in self._kernels())
        return left.add_(right)

    def product_terms(self) -> list[tuple[float, Kernel]] | None:
        left, right = (kernel.product_terms() for kernel in self._kernels())
        return None if left is None or right is None else left + right

    def smoothed(self, noise: Tensor) -> Kernel | None:
        left, right = (kernel.smoothed(noise) for kernel in self._kernels())
        return None if left is None or right is None else left + right


class Product(Pair):
    """k1 k2.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> (Linear() * Linear())([[1.0]], [[3.0]])
    tensor([[9.]], dtype=torch.float64)
    """

    def against(self, Y: Any) -> KernelColumns:
        left, right = (kernel.against(Y) for kernel in self._kernels())
        return lambda X: left(X).mul_(right(X))

    def diag(self, X: Any) -> Tensor:
        left, right = (kernel.diag(X) for kernel in self._kernels())
        return left * right

    def slope(self, X: Any, Y: Any) -> Tensor:
        if self.geometry is None:
            return super().slope(X, Y)
        left, right = self._kernels()
        return left.slope(X, Y).mul_(right(X, Y)).add_(right.slope(X, Y).mul_(left(X, Y)))


class Scaled(Kernel):
    """c k with c > 0.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> (2 * Linear())([[1.0]], [[3.0]])
    tensor([[6.]], dtype=torch.float64)
    """

    def __init__(self, kernel: Kernel | None = None, factor: float = 1.0):
        self.kernel = kernel
        self.factor = factor

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        return self._inner().positive_semidefinite

    @property
    def takes_objects(self) -> bool:  # type: ignore[override]
        return self._inner().takes_objects

    def against(self, Y: Any) -> KernelColumns:
        block, factor = self._inner().against(Y), self._factor()
        return lambda X: block(X).mul_(factor)

    def diag(self, X: Any) -> Tensor:
        return self._inner().diag(X) * self._factor()

    def fitted(self, X: Any, generator: torch.Generator | None = None) -> Scaled:
        return Scaled(self._inner().fitted(X, generator), self.factor)

    @property
    def geometry(self) -> str | None:
        return self._inner().geometry

    def slope(self, X: Any, Y: Any) -> Tensor:
        return self._inner().slope(X, Y) * self._factor()

    def product_terms(self) -> list[tuple[float, Kernel]] | None:
        terms = self._inner().product_terms()
        return None if terms is None else [(weight * self._factor(), kernel) for weight, kernel in terms]

    def smoothed(self, noise: Tensor) -> Kernel | None:
        inner = self._inner().smoothed(noise)
        return None if inner is None else inner * self._factor()

    def _inner(self) -> Kernel:
        if self.kernel is None:
            raise ValueError("Scaled needs a kernel: write 2.0 * kernel.")
        return self.kernel

    def _factor(self) -> float:
        if not isinstance(self.factor, numbers.Real) or not 0 < float(self.factor) < float("inf"):
            raise ValueError(
                f"A kernel may only be multiplied by a positive, finite number; got {self.factor!r}."
            )
        return float(self.factor)
