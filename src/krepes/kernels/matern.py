"""Matérn kernels of half-integer smoothness.

nu = 1/2: exp(-u),  u = |x - y| / l
nu = 3/2: (1 + u) exp(-u),              u = sqrt(3) |x - y| / l
nu = 5/2: (1 + u + u^2 / 3) exp(-u),    u = sqrt(5) |x - y| / l
"""

from __future__ import annotations

import math

from torch import Tensor

from krepes.kernels.base import KernelColumns
from krepes.kernels.radial import Lengthscale, RadialKernel, reciprocal


class Matern(RadialKernel):
    """The Matérn kernel with nu = 1/2, 3/2 or 5/2: rougher than the Gaussian, smoother than the Laplacian.

    Parameters
    ----------
    lengthscale : float, array of shape (d,), or "median", default="median"
    nu : 0.5, 1.5 or 2.5, default=1.5

    Examples
    --------
    >>> Matern(lengthscale=3**0.5, nu=1.5)([[0.0]], [[1.0]])      # (1 + 1) exp(-1)
    tensor([[0.7358]], dtype=torch.float64)
    """

    name = "matern"

    @property
    def reach(self) -> float:
        return {1.5: 1.239105, 2.5: 1.298990}.get(self.nu, 1.0)

    def __init__(self, lengthscale: Lengthscale = "median", nu: float = 1.5):
        super().__init__(lengthscale)
        self.nu = nu

    def against_scaled(self, Y: Tensor, lengthscale: float) -> KernelColumns:
        self._check_nu()
        distances = self.distances_to(Y)

        def block(X: Tensor) -> Tensor:
            u = distances(X).mul_(math.sqrt(2 * self.nu) / lengthscale)
            decay = (-u).exp_()
            if self.nu == 0.5:
                return decay
            if self.nu == 1.5:
                return decay.mul_(u.add_(1))
            return decay.mul_((u.square() / 3).add_(u).add_(1))

        return block

    def slope_scaled(self, X: Tensor, Y: Tensor, lengthscale: float) -> Tensor:
        self._check_nu()
        rate = math.sqrt(2 * self.nu) / lengthscale
        r = self.distances_to(Y)(X)
        u = r * rate
        decay = (-u).exp_().mul_(rate)
        if self.nu == 0.5:
            return decay.mul_(reciprocal(r))
        return decay.mul_(rate) if self.nu == 1.5 else decay.mul_(rate / 3).mul_(u.add_(1))

    def _check_nu(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(
                f"nu={self.nu!r}: expected 0.5, 1.5 or 2.5 (nu -> infinity is the Gaussian kernel)."
            )
