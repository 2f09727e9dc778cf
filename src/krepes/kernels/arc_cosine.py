"""Arc-cosine kernels: infinitely wide random layers of step or ReLU units.

    degree 0:  1 - t / pi                                    t the angle between x and y
    degree 1:  |x| |y| (sin t + (pi - t) cos t) / pi         ReLU, scaled so that k(x, x) = |x|^2

Cho and Saul, Kernel methods for deep learning. `depth` composes the map with itself: layer l+1 sees the
norms and angles that layer l's kernel defines.
"""

from __future__ import annotations

import math
import numbers

import torch
from torch import Tensor

from krepes.kernels.base import Block, VectorKernel


class ArcCosine(VectorKernel):
    """The kernel of a wide random network with ReLU (degree 1) or step (degree 0) units.

    Parameters
    ----------
    degree : 0 or 1, default=1
    depth : int, default=1
        Number of hidden layers.

    Examples
    --------
    Orthogonal unit vectors are at angle pi/2: (1 + 0) / pi.

    >>> ArcCosine()([[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    tensor([[0.3183, 1.0000]], dtype=torch.float64)
    """

    name = "arc_cosine"

    def __init__(self, degree: int = 1, depth: int = 1):
        self.degree = degree
        self.depth = depth

    def against_rows(self, Y: Tensor) -> Block:
        self._check()
        y_norm = Y.norm(dim=1)
        directions = Y / y_norm.clamp(min=torch.finfo(Y.dtype).tiny)[:, None]

        def block(X: Tensor) -> Tensor:
            x_norm = X.norm(dim=1)
            cosine = (X @ directions.mT).div_(x_norm.clamp(min=torch.finfo(X.dtype).tiny)[:, None])
            for _ in range(self.depth):
                cosine = self._layer(cosine)
            if self.degree == 0:  # after one step layer all norms are 1
                return cosine
            return cosine.mul_(x_norm[:, None]).mul_(y_norm[None, :])

        return block

    def diag_rows(self, X: Tensor) -> Tensor:
        self._check()
        return X.square().sum(1) if self.degree == 1 else torch.ones_like(X[:, 0])

    def _layer(self, cosine: Tensor) -> Tensor:
        """One layer's kernel between unit vectors: from cosines to cosines."""
        cosine = cosine.clamp_(-1, 1)
        angle = cosine.acos()
        if self.degree == 0:
            return 1 - angle / math.pi
        return ((1 - cosine.square()).sqrt_() + (math.pi - angle) * cosine).div_(math.pi)

    def _check(self) -> None:
        if self.degree not in (0, 1):
            raise ValueError(f"degree={self.degree!r}: expected 0 (step units) or 1 (ReLU units).")
        if not isinstance(self.depth, numbers.Integral) or self.depth < 1:
            raise ValueError(f"depth={self.depth!r}: expected an integer >= 1.")
