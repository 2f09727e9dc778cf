"""The evidence of a Gaussian process on a sample of rows, and its gradient with respect to the kernel matrix.

    quantities   log N(Y; 0, K + s^2 / w),                  G = 1/2 (alpha alpha^T - C^-1),  C = K + s^2 / w
    classes      Laplace's approximation [rasmussen, 3.32]  G = 1/2 (g g^T - R) + 1/2 (v g^T + g v^T)      [Alg. 5.1]

where g is the slope of the likelihood at the mode, R = (K + D^-1)^-1 and v = (I - R K) d, d_i = 1/2 [(K^-1 + D)^-1]_ii
times the third derivative: the mode moves with K. Whatever K is a function of, the evidence changes by the sum of
G_ij dK_ij. Cost O(n^3) for each value with its gradient.

A radial kernel between rows whose columns are stretched, and what it changes by with each of them.

    k(x, y) = f(u),   u = |z_x - z_y|,   z_j = exp(t_j) x_j

    dk/dt_j = f'(u)/u (z_xj - z_yj)^2          Euclidean distance
            = f'(u) |z_xj - z_yj|              L1 distance

so that for any G, the sum of G_ab dk_ab/dt_j is a product of matrices, O(n^2 d), without derivatives of single entries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from krepes.kernels import Kernel, Laplacian
from krepes.kernels.vectors import RadialKernel
from krepes.machines.gaussian_process.laplace import halved

JITTER = 1e-10  # of the mean of the diagonal, added where rounding needs it
MOST_STEPS, MOST_HALVINGS, TOLERANCE = 100, 10, 1e-10


@dataclass(frozen=True, eq=False)
class Evidence:
    """A log marginal likelihood, its gradient (n, n) to K, and its derivative to the logarithm of the noise."""

    value: float
    G: Tensor
    of_log_noise: float = 0.0


class SampleEvidence(ABC):
    """The evidence of kernel matrices on rows whose targets are known."""

    noisy: bool  # whether it depends on a noise

    @abstractmethod
    def __call__(self, K: Tensor, noise: float) -> Evidence:
        """Of prior covariances K, (n, n)."""

    @abstractmethod
    def first(self, n: int) -> SampleEvidence:
        """That of the first n rows."""


class QuantityEvidence(SampleEvidence):
    """Of targets Y (n, c) with Gaussian noise; rows of weight w count as w rows.

    >>> evidence = QuantityEvidence(torch.full((1, 1), 2.0, dtype=torch.float64), None)
    >>> evidence(torch.ones(1, 1, dtype=torch.float64), 3.0).value == -0.5 * math.log(2 * math.pi * 4) - 0.5
    True
    """

    noisy = True

    def __init__(self, Y: Tensor, weight: Tensor | None):
        self.Y, self.weight = Y, torch.ones_like(Y[:, 0]) if weight is None else weight

    def first(self, n: int) -> QuantityEvidence:
        return QuantityEvidence(self.Y[:n], self.weight[:n])

    def __call__(self, K: Tensor, noise: float) -> Evidence:
        (n, c), w = self.Y.shape, self.weight
        L = _cholesky(K + torch.diag(noise / w))
        alpha = torch.cholesky_solve(self.Y, L)
        log_det, repeated = 2 * L.diagonal().log().sum(), w.sum() - n
        value = (self.Y * alpha).sum() + c * (log_det + n * math.log(2 * math.pi))
        value += c * (repeated * math.log(2 * math.pi * noise) + w.log().sum())
        G = 0.5 * (alpha @ alpha.mT - c * torch.cholesky_inverse(L))
        of_noise = noise * (G.diagonal() / w).sum() - c * repeated / 2
        return Evidence(-0.5 * value.item(), G, of_noise.item())


class ClassEvidence(SampleEvidence):
    """Of signs T (n, c), a process for each column, all with the same prior; rows of weight w count as w rows."""

    noisy = False

    def __init__(self, T: Tensor, weight: Tensor | None):
        self.T, self.weight = T, (torch.ones_like(T[:, 0]) if weight is None else weight)[:, None]
        self._start = torch.zeros_like(T)  # the last mode, from where the next is near

    def first(self, n: int) -> ClassEvidence:
        return ClassEvidence(self.T[:n], self.weight[:n, 0])

    def __call__(self, K: Tensor, noise: float = 0.0) -> Evidence:
        a, F = self._mode(K)
        T, w = self.T, self.weight
        p, g = torch.sigmoid(F), w * T * torch.sigmoid(-T * F)
        D = w * p * (1 - p)
        value, G = (w * logsigmoid(T * F)).sum() - 0.5 * (a * F).sum(), torch.zeros_like(K)
        for j in range(T.shape[1]):
            root = D[:, j].sqrt()
            L = _cholesky(torch.eye(len(K)).to(K) + root[:, None] * K * root)
            R = root[:, None] * torch.cholesky_inverse(L) * root
            spread = K.diagonal() - (K * (R @ K)).sum(0)  # of (K^-1 + D)^-1
            d = -0.5 * spread * D[:, j] * (1 - 2 * p[:, j])
            v = d - R @ (K @ d)
            value -= L.diagonal().log().sum()
            moved = torch.outer(v, g[:, j])
            G += 0.5 * (torch.outer(g[:, j], g[:, j]) - R + moved + moved.mT)
        return Evidence(value.item(), G)

    def _mode(self, K: Tensor) -> tuple[Tensor, Tensor]:
        """a and F = K a at the mode, (n, c) each.  [rasmussen, Alg. 3.1]"""
        T, w, a = self.T, self.weight, self._start

        def height(a: Tensor, F: Tensor) -> Tensor:
            return (w * logsigmoid(T * F)).sum(0) - 0.5 * (a * F).sum(0)

        F = K @ a
        now = height(a, F)
        if bool((now < height(0 * a, 0 * F)).any()):
            a, F = 0 * a, 0 * F
            now = height(a, F)
        eye = torch.eye(len(K)).to(K)
        for _ in range(MOST_STEPS):
            p = torch.sigmoid(F)
            D, g = w * p * (1 - p), w * T * torch.sigmoid(-T * F)
            root = D.sqrt()
            B = eye + root.mT[:, :, None] * K * root.mT[:, None, :]
            b = D * F + g
            inner = (root * (K @ b)).mT[:, :, None]
            solved = torch.cholesky_solve(inner, torch.linalg.cholesky(B))[:, :, 0].mT
            before = now
            a, F, now = halved(lambda a: K @ a, height, a, b - root * solved - a, before, MOST_HALVINGS)
            if bool(((now - before).abs() < TOLERANCE).all()):
                break
        self._start = a
        return a, F


def _cholesky(C: Tensor) -> Tensor:
    L, failed = torch.linalg.cholesky_ex(C)
    ridge = JITTER * C.diagonal().mean()
    while failed.item() and ridge < C.diagonal().mean():
        L, failed = torch.linalg.cholesky_ex(C + ridge * torch.eye(len(C)).to(C))
        ridge = 100 * ridge
    return L


def has_scales(kernel: Kernel) -> bool:
    """Whether the lengthscale of a kernel is open, and its derivatives are known."""
    if not isinstance(kernel, RadialKernel) or not isinstance(kernel.lengthscale, str):
        return False
    try:
        kernel.profile_slope(torch.ones(1, dtype=torch.float64))
    except TypeError:
        return False
    return True


def scaled_kernel(kernel: RadialKernel, Z: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """K (n, n) of stretched rows, and a function from G (n, n), symmetric, to the sums of G dK/dt, (d,)."""
    u = kernel.distances_to(Z)(Z)
    u.fill_diagonal_(0)
    slope = kernel.profile_slope(u.clone())
    slope = torch.where(slope == -torch.inf, 0.0, slope)

    def by_squares(G: Tensor) -> Tensor:
        M, centred = G * slope, Z - Z[0]  # constant columns are zero exactly
        centred -= centred.mean(0)
        return 2 * (M.sum(1) @ centred.square() - (centred * (M @ centred)).sum(0))

    def by_absolutes(G: Tensor) -> Tensor:
        M = G * slope * u
        return torch.stack([(M * (z[:, None] - z).abs()).sum() for z in Z.unbind(1)])

    absolute = isinstance(kernel, Laplacian) and kernel.norm == 1
    return kernel.profile(u.clone()), by_absolutes if absolute else by_squares
