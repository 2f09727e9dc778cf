"""Kernels that are products over coordinates, and what that is good for.

    k(x, y) = prod_j kappa_j(x_j, y_j)

An augmentation that acts on every coordinate by itself has an exact expectation for such a kernel, and for a weighted
sum of them (`Kernel.product_terms`): it is a product of one-dimensional expectations [krepes design, exact views].
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor


class CoordinateProduct(ABC):
    """A kernel that is a product over coordinates, with its factors."""

    @abstractmethod
    def coordinate_factor(self, column: int, x: Tensor, z: Tensor, noise: float) -> Tensor:
        """E[kappa_j(x + noise * g, z)] of coordinate j, g standard normal: (b,) and (m,) -> (b, m)."""
