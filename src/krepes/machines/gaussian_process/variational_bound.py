"""Amplitude and noise of a Gaussian process by a bound on the evidence, from sums over all rows.

    y = mean + f(x) + e,    f ~ GP(0, a k),    e ~ N(0, s^2)

    log p(y) >= log N(y; mean, a Phi Phi^T + s^2 I) - a (sum k(x, x) - tr Phi^T Phi) / (2 s^2)            [titsias]

The last term is what the landmarks do not span; without it this is no bound. With all rows as landmarks it is zero, and
the bound is the evidence. With Phi^T Phi = U diag(e) U^T, Z = U^T Phi^T (y - mean) and rho = s^2 / a, the bound is

    -n/2 log(2 pi s^2) - 1/2 sum_i log(1 + e_i / rho) - q(rho) / (2 s^2) - (sum k(x, x) - sum_i e_i) / (2 rho)
    q(rho) = |y - mean|^2 - sum_i Z_i^2 / (rho + e_i)

so that at every rho the best noise is s^2 = q(rho) / n, and a search in one variable is left. rho is the penalty of the
ridge regression that the posterior mean is. Several outputs share a and s^2; their bounds add up. A row of weight w
counts as w rows. Cost O(r^3) once, then O(r) for every value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from krepes.base.linalg import descending_eigh
from krepes.regression.ridge_algebra import NormalSums

LEAST_NOISE = 1e-12  # in units of the variance of y: below it is rounding
LEAST_RATIO, LARGEST_RATIO = 1e-10, 1e4  # of the noise to the prior variance of all rows together
ROUNDING = 32  # units in the last place by which sums of squares may be off
GRID = 200


@dataclass(frozen=True)
class Hyperparameters:
    """Variances of the function and of the noise, and the bound that they give, in units of the encoded targets."""

    amplitude: float
    noise: float
    bound: float


class VariationalBound:
    """The bound as a function of amplitude and noise.

    Parameters
    ----------
    sums : NormalSums
    intercept : bool
        Whether the mean is that of the targets; otherwise it is zero.
    dtype : torch.dtype
        Of the features: smaller ratios of noise and amplitude are rounding.

    Attributes
    ----------
    e, U : Tensors of shape (r,) and (r, r)
        Eigenvalues and eigenvectors of the sum of phi phi^T.
    Z : Tensor of shape (r, c)
    mean : Tensor of shape (c,)

    Examples
    --------
    A prior of variance 1 and a noise of 3 at a single row make N(2; 0, 4):

    >>> sums = NormalSums.of_rows(torch.ones(1, 1), torch.full((1, 1), 2.0))
    >>> round(VariationalBound(sums, intercept=False).value(1.0, 3.0), 6) == round(
    ...     -0.5 * math.log(2 * math.pi * 4) - 2**2 / (2 * 4), 6)
    True
    """

    def __init__(self, sums: NormalSums, intercept: bool, dtype: torch.dtype = torch.float64):
        nothing = torch.zeros_like(sums.sum_phi)
        self.mean = sums.means[1] if intercept else torch.zeros_like(sums.sum_y)
        about = sums.centred(nothing, self.mean)
        values, self.U = descending_eigh(about.A)
        self.e, self.Z = values.clamp(min=0), self.U.mT @ about.B
        self.n, self.c = sums.n, len(self.mean)
        self.squares, self.trace = about.yy.sum().item(), sums.trace
        self.unspanned = max(sums.trace - self.e.sum().item(), 0.0)
        self.least_ratio = max(
            LEAST_RATIO * sums.trace / sums.n, ROUNDING * torch.finfo(dtype).eps * sums.trace
        )
        self._e, self._Z_sq = self.e.cpu().numpy(), self.Z.square().sum(1).cpu().numpy()

    def value(self, amplitude: float, noise: float) -> float:
        """The bound for all outputs together."""
        return float(self._values(np.array([noise / amplitude]), np.array([noise]))[0])

    def best(self, amplitude: float | None = None, noise: float | None = None) -> Hyperparameters:
        """The highest bound; amplitude or noise may be given."""
        if amplitude is not None and noise is not None:
            return Hyperparameters(amplitude, noise, self.value(amplitude, noise))

        def loss(logs: np.ndarray) -> np.ndarray:
            ratios = np.exp(logs)
            return -self._values(ratios, self._noises(ratios, amplitude, noise))

        largest = max(LARGEST_RATIO * self.trace, 10 * self.least_ratio)
        logs = np.linspace(math.log(self.least_ratio), math.log(largest), GRID)
        losses = loss(logs)
        at = int(np.argmin(losses))
        around = logs[max(at - 1, 0)], logs[min(at + 1, GRID - 1)]
        found = minimize_scalar(
            lambda x: float(loss(np.array([x]))[0]), bounds=around, method="bounded", options={"xatol": 1e-10}
        )
        ratio = math.exp(found.x if found.fun <= losses[at] else logs[at])
        noise = float(self._noises(np.array([ratio]), amplitude, noise)[0])
        return Hyperparameters(noise / ratio, noise, self.value(noise / ratio, noise))

    def _noises(self, ratios: np.ndarray, amplitude: float | None, noise: float | None) -> np.ndarray:
        """The noise at these ratios: as given, as the amplitude says, or the best."""
        if noise is not None:
            return np.full(len(ratios), noise)
        if amplitude is not None:
            return ratios * amplitude
        return np.maximum(self._residues(ratios) / (self.n * self.c), LEAST_NOISE)

    def _residues(self, ratios: np.ndarray) -> np.ndarray:
        """q(rho), summed over outputs."""
        explained = (self._Z_sq / (ratios[:, None] + self._e)).sum(1)
        return np.maximum(self.squares - explained, LEAST_NOISE * self.squares)

    def _values(self, ratios: np.ndarray, noises: np.ndarray) -> np.ndarray:
        of_all = self.n * np.log(2 * math.pi * noises) + np.log1p(self._e / ratios[:, None]).sum(1)
        return -0.5 * (self.c * (of_all + self.unspanned / ratios) + self._residues(ratios) / noises)

    def weights(self, ratio: float) -> Tensor:
        """W of the posterior mean W^T phi + mean, (r, c): ridge regression with this penalty."""
        return self.U @ (self.Z / (self.e + ratio)[:, None])

    def root(self, noise: float, ratio: float) -> Tensor:
        """R with R R^T = s^2 (Phi^T Phi + rho I)^-1, the posterior covariance of the weights, (r, r)."""
        return (self.U * (noise / (self.e + ratio)).sqrt()).contiguous()
