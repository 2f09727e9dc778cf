"""The Gaussian kernel.

    k(x, y) = exp(-|x - y|^2 / (2 l^2)) = prod_j exp(-(x_j - y_j)^2 / (2 l^2))

One matrix product with norms and scale folded in, then clamp and exp in place: O(n m d).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from torch import Tensor

from krepes.kernels.distances import Vectors, squared_distances_to
from krepes.kernels.kernel import CoordinateProduct, Kernel, KernelColumns, ProductTerms
from krepes.kernels.vectors import RadialKernel


class Gaussian(RadialKernel, CoordinateProduct):
    """k(x, y) = exp(-|x - y|^2 / (2 l^2)).

    Parameters
    ----------
    lengthscale : float, array of shape (d,), or "median", default="median"

    Notes
    -----
    A product over coordinates: tabular augmentations can be integrated exactly. Gaussian noise of standard
    deviation s turns it into (l^2 / (l^2 + s^2))^(d/2) times a Gaussian kernel of lengthscale sqrt(l^2 + s^2).

    Examples
    --------
    >>> Gaussian(lengthscale=1.0)([[0.0]], [[0.0], [1.0]])      # 1 and exp(-1/2)
    tensor([[1.0000, 0.6065]], dtype=torch.float64)
    """

    name = "gaussian"
    known_elsewhere_as = ("rbf", "se", "squared_exponential")

    @property
    def reach(self) -> float:
        return math.sqrt(2)

    def profile(self, u: Tensor) -> Tensor:
        return u.square_().mul_(-0.5).exp_()

    def profile_slope(self, u: Tensor) -> Tensor:
        return self.profile(u).neg_()

    def against_scaled(self, Y: Vectors, lengthscale: float) -> KernelColumns:
        exponent = squared_distances_to(Y, scale=-0.5 / lengthscale**2)
        return lambda X: exponent(X).exp_()

    def slope_scaled(self, X: Tensor, Y: Tensor, lengthscale: float) -> Tensor:
        return self.against_scaled(Y, lengthscale)(X).div_(lengthscale**2)

    def product_terms(self) -> ProductTerms:
        return [(1.0, self)]

    def coordinate_product(self, columns: list[int], X: Tensor, Z: Tensor, noise: Sequence[float]) -> Tensor:
        lengths = np.array(self.column_lengthscales(columns))
        variances = lengths**2 + np.square(noise)
        squares = ((x[:, None] - z).square_() for x, z in zip(X.mT, Z.mT))
        exponents = (D.mul_(-0.5 / v) for D, v in zip(squares, variances.tolist(), strict=True))
        return reduce(Tensor.add_, exponents).exp_().mul_(float(np.prod(lengths / np.sqrt(variances))))

    def smoothed(self, noise: Tensor) -> Kernel:
        lengths = np.broadcast_to(np.asarray(self._lengthscale(len(noise))), (len(noise),))
        wider = np.sqrt(lengths**2 + noise.double().cpu().numpy() ** 2)
        factor = float(np.exp(np.sum(np.log(lengths / wider))))
        same = np.allclose(wider, wider[0], rtol=1e-15, atol=0) if len(wider) else False
        return Gaussian(float(wider[0]) if same else wider) * factor
