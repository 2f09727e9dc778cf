"""Matérn kernels of half-integer smoothness.

nu = 1/2: exp(-v),                    v = sqrt(2 nu) u,   u = |x - y| / l
nu = 3/2: (1 + v) exp(-v)
nu = 5/2: (1 + v + v^2 / 3) exp(-v)
"""

from __future__ import annotations

import math

from torch import Tensor

from krepes.base.validation import check_choice
from krepes.kernels.vectors import Lengthscale, RadialKernel

FARTHEST = 1000.0  # exp(-v) is 0 from there on, and v^2 a number


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

    def profile(self, u: Tensor) -> Tensor:
        v, decay = self._scaled(u)
        if self.nu == 0.5:
            return decay
        return decay.mul_(v.add_(1)) if self.nu == 1.5 else decay.mul_((v.square() / 3).add_(v).add_(1))

    def profile_slope(self, u: Tensor) -> Tensor:
        v, decay = self._scaled(u)
        if self.nu == 0.5:
            return decay.neg_().div_(v)
        return decay.mul_(-3) if self.nu == 1.5 else decay.mul_(-5 / 3).mul_(v.add_(1))

    def _scaled(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """v = sqrt(2 nu) u, and exp(-v)."""
        check_choice("nu", self.nu, (0.5, 1.5, 2.5))
        v = u.mul_(math.sqrt(2 * self.nu)).clamp_(max=FARTHEST)
        return v, v.neg().exp_()
