"""How the span of a closed form turns when a row is left out, to first order.

    M w = e N w,        M, N functions of the moments, w_1 ... w_h the leading eigenvectors, w_j^T N w_k = [j = k]

    kernel PCA              M = C                                   N = I
    simple contrastive      M = S_+ - S_-                           N = I
    spectral contrastive    M = S_+ - lam/2 I                       N = S
    VICReg, quadratic       M = (1 - beta) C + beta C_+ - lam/2 I   N = C
    Barlow Twins, plain     M = C_12                                N = I

C is the covariance, C_+ = S_+ - mu mu^T. Leaving a row of weight w out of n changes mean moments by
-w / (n - w) (row - mean), and M and N by dM, dN. The part of dw_j outside the span is

    sum over k > h of  w_k w_k^T (dM - e_j dN) w_j / (e_j - e_k)                                      [stewart]

which gives the change of the projection P onto the span. M and N are at most quadratic in mean moments, so that a
central difference gives dM and dN exactly. Cost: one decomposition, O(r^3), then O(r^2 h) per row instead of O(r^3).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.losses import BarlowTwins, KernelPCA, Loss, SimpleContrastive, SpectralContrastive, VICReg
from krepes.losses.moment_forms import spanned
from krepes.moments import Moments


@dataclass(frozen=True)
class Problem:
    """A loss with a closed form, and the strengths of regularisation and feature noise as shares of the variance."""

    loss: Loss
    regularization: float
    noise: float

    def matrices(self, moments: Moments) -> tuple[Tensor, Tensor | None]:
        """M and N; None is the identity."""
        identity = torch.eye(moments.rank, dtype=torch.float64, device=moments.sum_1.device)
        half = self.regularization * moments.variance / 2
        noisy, loss = moments.with_feature_noise(self.noise), self.loss
        mean = torch.outer(moments.mean, moments.mean)
        if isinstance(loss, KernelPCA):
            return moments.covariance, None
        if isinstance(loss, SimpleContrastive):
            return noisy.S_plus - noisy.S_minus, None
        if isinstance(loss, SpectralContrastive):
            return noisy.S_plus - half * identity, noisy.S
        if isinstance(loss, VICReg):
            C = noisy.covariance
            return (1 - loss.beta) * C + loss.beta * (noisy.S_plus - mean) - half * identity, C
        if isinstance(loss, BarlowTwins):
            return symmetric(noisy.S_12 - torch.outer(noisy.mean_1, noisy.mean_2)), None
        raise ValueError(
            f"{loss} has no eigenproblem that is known here: ask for the exact effect, method='exact'."
        )


class SpanChange:
    """The span of the leading eigenvectors, and how it turns.

    Parameters
    ----------
    problem : Problem
    moments : Moments
    n_components : int
        h.
    """

    def __init__(self, problem: Problem, moments: Moments, n_components: int):
        self.problem, self.n, self.mean = problem, moments.n, moments * (1 / moments.n)
        M, N = problem.matrices(self.mean)
        basis = torch.eye(len(M), dtype=M.dtype, device=M.device)
        if N is not None:
            values, vectors = spanned(N, self.mean.S.trace().item())
            basis = vectors * values.rsqrt()
        self.e, V = descending_eigh(basis.mT @ M @ basis)
        V = basis @ V
        self.inside, self.outside, h = V[:, :n_components], V[:, n_components:], n_components
        self.gaps = self.e[:h] - self.e[h:, None]  # (r - h, h)
        self.orthonormal = torch.linalg.qr(self.inside)[0]  # of the span, (r, h)
        self.dual = torch.linalg.pinv(self.inside)  # (h, r)

    def turn(self, row: Moments) -> Tensor:
        """The part of dW outside the span without the row, in coordinates of the other eigenvectors: (r - h, h)."""
        weight = row.n
        mean_row = row * (1 / weight)
        ends = [
            self.problem.matrices(
                self.mean * (1 - t) + mean_row * t if t > 0 else self.mean * (1 - t) - mean_row * -t
            )
            for t in (0.5, -0.5)
        ]
        dM = ends[0][0] - ends[1][0]
        moved = self.outside.mT @ dM @ self.inside
        if ends[0][1] is not None and ends[1][1] is not None:
            dN = ends[0][1] - ends[1][1]
            moved = moved - (self.outside.mT @ dN @ self.inside) * self.e[: len(self.gaps.mT)]
        return -weight / (self.n - weight) * moved / self.gaps

    def gram_change(self, Phi: Tensor, turn: Tensor) -> Tensor:
        """The change of Phi P Phi^T, (n, n), for features (n, r)."""
        away = self.outside - self.orthonormal @ (self.orthonormal.mT @ self.outside)  # (I - P) V_out
        half = (Phi @ away) @ turn @ (self.dual @ Phi.mT)
        return half + half.mT
