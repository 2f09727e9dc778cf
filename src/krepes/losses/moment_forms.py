"""The quadratic forms of the features' moments, in any basis: what an embedding (W, gamma) is measured with.

    V_11 = S_11 - mu_1 mu_1^T,  V_22,  V_12 = S_12 - mu_1 mu_2^T,  mu_1, mu_2

In a basis B (W = B M, B with orthogonal columns b_i) the forms become B^T V B and |W|^2 = sum_i |b_i|^2 |M_i|^2. A
basis of eigenvectors makes V_11 diagonal; it is then kept as a vector, and a product with it costs O(r h).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, symmetric
from krepes.losses.statistics import MomentStatistics
from krepes.moments import Moments

NOISE = 1e-12  # relative to the scale of the moments; what is below it was made by rounding


@dataclass(frozen=True)
class MomentForms:
    """Means and covariances of the features of two views.

    Attributes
    ----------
    mean_1, mean_2 : Tensor of shape (r,)
        About the origin that the intercept refers to; `shifted` moves it.
    V_11, V_22 : Tensor of shape (r, r), or (r,) where diagonal
    V_12 : Tensor of shape (r, r), or None where every sample has one view
    phi_norm_sq : Tensor, a scalar
        Mean of |phi(x) - mu|^2, the part outside the landmarks' span included.
    S_1n : Tensor of shape (r, r), or None
        Uncentred, anchors times explicit negatives.
    basis_norm_sq : Tensor of shape (r,), or None for an orthonormal basis
        Squared norms of the basis vectors.

    Examples
    --------
    >>> forms = MomentForms.of(Moments.of_views(torch.tensor([[1.0], [3.0]]), torch.tensor([[3.0], [1.0]])))
    >>> statistics = forms.embed(torch.tensor([[2.0]]), torch.tensor([1.0]))
    >>> [float(v) for v in (statistics.mean_1, statistics.variance_1, statistics.agreement)]    # of 2 x + 1
    [5.0, 4.0, -4.0]
    """

    mean_1: Tensor
    mean_2: Tensor
    V_11: Tensor
    V_22: Tensor
    V_12: Tensor | None
    phi_norm_sq: Tensor
    S_1n: Tensor | None = None
    basis_norm_sq: Tensor | None = None

    @classmethod
    def of(cls, moments: Moments) -> MomentForms:
        mean_1, mean_2, mean = moments.mean_1, moments.mean_2, moments.mean
        V_11 = moments.S_11 - torch.outer(mean_1, mean_1)
        if moments.exchangeable:
            mean_2, V_22 = mean_1, V_11
        else:
            V_22 = moments.S_22 - torch.outer(mean_2, mean_2)
        V_12 = None
        if moments.paired:
            V_12 = moments.S_12 - torch.outer(mean_1, mean_2)
            V_12 = symmetric(V_12) if moments.exchangeable else V_12
        S_1n = None if moments.sum_1n is None else moments.sum_1n / moments.n
        return cls(mean_1, mean_2, V_11, V_22, V_12, moments.mean_norm_sq - mean @ mean, S_1n)

    @property
    def exchangeable(self) -> bool:
        """Whether the views share their moments; then V_12 is symmetric."""
        return self.V_22 is self.V_11

    @property
    def second_moment(self) -> Tensor:
        """Mean of phi phi^T over both views, about the origin, (r, r)."""
        first = torch.diag(self.V_11) if self.V_11.ndim == 1 else self.V_11
        first = first + torch.outer(self.mean_1, self.mean_1)
        if self.exchangeable:
            return first
        return (first + self.V_22 + torch.outer(self.mean_2, self.mean_2)) / 2

    def shifted(self, origin: Tensor) -> MomentForms:
        """The same forms with phi - origin for phi, origin of shape (r,)."""
        mean_1 = self.mean_1 - origin
        mean_2 = mean_1 if self.exchangeable else self.mean_2 - origin
        return replace(self, mean_1=mean_1, mean_2=mean_2)

    def in_basis(self, basis: Tensor, variances: Tensor | None = None) -> MomentForms:
        """The forms of M, where W = basis @ M; basis (r, k) has columns orthogonal in the norm of these forms.

        With `variances` (k,) the caller says that the basis makes V_11 (= V_22) this diagonal matrix.
        """

        def form(V: Tensor) -> Tensor:
            return basis.mT @ (V[:, None] * basis if V.ndim == 1 else V @ basis)

        known = self.basis_norm_sq
        V_11 = form(self.V_11) if variances is None else variances
        mean_1 = basis.mT @ self.mean_1
        return replace(
            self,
            mean_1=mean_1,
            mean_2=mean_1 if self.exchangeable else basis.mT @ self.mean_2,
            V_11=V_11,
            V_22=V_11 if self.exchangeable else form(self.V_22),
            V_12=None if self.V_12 is None else form(self.V_12),
            S_1n=None if self.S_1n is None else form(self.S_1n),
            basis_norm_sq=(basis.square() if known is None else known[:, None] * basis.square()).sum(0),
        )

    def products(self, name: str, W: Tensor) -> tuple[Tensor, Tensor | None]:
        """(V W, V^T W) for one of the forms; None for the second where V is symmetric."""
        V = getattr(self, name)
        if V is None:
            raise ValueError(
                "These moments hold one view per sample, but the loss compares two views of a sample: "
                "fit with views= or positives=."
            )
        if V.ndim == 1:
            return V[:, None] * W, None
        is_symmetric = name in ("V_11", "V_22") or (name == "V_12" and self.exchangeable)
        return V @ W, None if is_symmetric else V.mT @ W

    def embed(self, W: Tensor, gamma: Tensor | None = None) -> MomentStatistics:
        """Statistics of the embedding W^T phi + gamma: W (r, h), gamma (h,)."""
        return MomentStatistics(self, W, gamma)


def spanned(S: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Eigenpairs of a second moment or covariance (r, r) that stand above rounding, largest first.

    A direction counts when its eigenvalue exceeds NOISE times `scale` (the trace of the uncentred moments: the
    covariance of constant data is rounding alone) and four times the most negative eigenvalue: exact moments
    have none, so its size shows how much rounding the sums carry.

    >>> spanned(torch.diag(torch.tensor([1e-20, 2.0, 1.0])), scale=3.0)[0].tolist()
    [2.0, 1.0]
    """
    values, vectors = descending_eigh(S)
    rounding = max(0.0, -values[-1].item()) if values.numel() else 0.0
    kept = int((values > max(NOISE * scale, 4 * rounding)).sum())
    return values[:kept], vectors[:, :kept]


def low_rank_factor(S: Tensor, target: Tensor, lam: float, n_components: int, scale: float) -> Tensor:
    """The W (r, h') that minimises |W^T S W|_F^2 - 2 tr(W^T target W) + lam |W|^2, h' <= n_components.

        T = S^(-1/2) (target - lam/2 I) S^(-1/2) = V diag(e) V^T,   W = S^(-1/2) V_h diag(e_h)_+^(1/2),

    value -sum_i (e_i)_+^2: with Y = S^(1/2) W the objective is |Y Y^T - T|_F^2 - |T|_F^2, whose best approximation
    of rank h is the positive part of T (Eckart-Young; [haochen] for lam = 0). Components with e_i <= 0 are
    dropped. S must dominate target: directions that S does not span are taken as empty. Two
    eigendecompositions, O(r^3).
    """
    values, vectors = spanned(S, scale)
    basis = vectors * values.rsqrt()
    T = basis.mT @ target @ basis - torch.diag(lam / (2 * values))
    e, V = descending_eigh(T, n_components)
    kept = int((e > NOISE).sum())
    return basis @ (V[:, :kept] * e[:kept].sqrt())
