"""The sums that all novelty scores are solved from: n, sum phi, sum phi phi^T, with |phi| <= 1.

Features are brought to the unit ball, phi(x) = F^T k_x / sqrt(k(x, x)): those of the normalised kernel
k(x, y) / sqrt(k(x, x) k(y, y)), whose Nyström projection on the same landmarks they are. For radial kernels k(x, x) is
1 already. Memory O(r^2), whatever n is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from krepes.base.codec import Bounds, Shape
from krepes.base.rows import Rows
from krepes.features.space import FeatureSpace


def unit_features(space: FeatureSpace, X: Rows) -> Tensor:
    """Normalised features, (b, r); zero where k(x, x) is."""
    Phi = space.features(X)
    diagonal = space.kernel.diag(X).to(Phi.dtype)
    scale = torch.where(diagonal > 0, diagonal.rsqrt(), torch.zeros_like(diagonal))
    return Phi.mul_(scale[:, None])


@dataclass(frozen=True, eq=False)
class OneClassSums:
    """Sums over rows, float64.

    Attributes
    ----------
    n : float
        The sum of the weights; the number of rows where there are none.
    sum_phi : Tensor of shape (r,)
    outer : Tensor of shape (r, r)
    """

    n: Annotated[float, Bounds(least=0)]
    sum_phi: Annotated[Tensor, Shape("r")]
    outer: Annotated[Tensor, Shape("r", "r")]

    @classmethod
    def of_rows(cls, Phi: Tensor) -> OneClassSums:
        """Of features (n, r) in memory."""
        Phi = Phi.double()
        return cls(float(len(Phi)), Phi.sum(0), Phi.mT @ Phi)

    @property
    def mean(self) -> Tensor:
        return self.sum_phi / self.n

    def __add__(self, other: OneClassSums) -> OneClassSums:
        return OneClassSums(self.n + other.n, self.sum_phi + other.sum_phi, self.outer + other.outer)

    def __sub__(self, other: OneClassSums) -> OneClassSums:
        return self + other * -1.0

    def __mul__(self, factor: float) -> OneClassSums:
        return OneClassSums(self.n * factor, self.sum_phi * factor, self.outer * factor)
