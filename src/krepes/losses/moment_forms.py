"""The quadratic forms of the features' moments, in any basis: what an embedding (W, gamma) is measured with.

    V_11 = S_11 - mu_1 mu_1^T,  V_22,  V_12 = S_12 - mu_1 mu_2^T,  mu_1, mu_2

In a basis B (W = B M, B with orthogonal columns b_i) the forms become B^T V B and |W|^2 = sum_i |b_i|^2 |M_i|^2. A
basis of eigenvectors makes V_11 diagonal; it is then kept as a vector, and a product with it costs O(r h).

A quadratic form needs one product with its r x r matrix, forwards and backwards together: with Y = V W and V
symmetric, the gradient of f(W^T V W) is Y (G + G^T), so `_Form` keeps Y instead of multiplying by V again. Cost of
value and gradient: O(r^2 h + r h^2) from moments, O(b h^2) from samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from krepes.base.linalg import descending_eigh, symmetric
from krepes.losses.statistics import Statistics
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


class MomentStatistics(Statistics):
    """Statistics of the embedding W^T phi + gamma, from the quadratic forms of the features' moments."""

    def __init__(self, forms: MomentForms, W: Tensor, gamma: Tensor | None = None):
        self.shared = forms.exchangeable
        self._forms = forms
        self._W = W.to(forms.mean_1.dtype)  # (r, h)
        self._gamma = gamma  # (h,), or None for zero
        self._products: dict[str, tuple[Tensor, Tensor | None]] = {}

    def _mean(self, view: int) -> Tensor:
        projected = self._W.mT @ (self._forms.mean_1 if view == 1 else self._forms.mean_2)
        return projected if self._gamma is None else projected + self._gamma

    def _arguments(self, form: str) -> tuple[Tensor, Tensor, Tensor | None]:
        if form not in self._products:
            self._products[form] = self._forms.products(form, self._W.detach())
        return (self._W, *self._products[form])

    def _covariance(self, view: int, other: int) -> Tensor:
        return _Form.apply(*self._arguments(_FORMS[view, other]))

    def _variance(self, view: int, other: int) -> Tensor:
        return _FormDiagonal.apply(*self._arguments(_FORMS[view, other]))

    @property
    def negative_alignment(self) -> Tensor:
        if self._forms.S_1n is None:
            return self.mean_1 @ self.mean_2
        if self._gamma is not None and bool(self._gamma.any()):
            raise ValueError(
                "Moments with explicit negatives do not hold the negatives' mean: gamma must be zero here."
            )
        return _FormDiagonal.apply(*self._arguments("S_1n")).sum()

    @property
    def gram(self) -> Tensor:
        return self._W.mT @ self._normed

    @property
    def norm_sq(self) -> Tensor:
        return (self._W * self._normed).sum(0)

    @property
    def _normed(self) -> Tensor:
        norm_sq = self._forms.basis_norm_sq
        return self._W if norm_sq is None else norm_sq[:, None] * self._W

    @property
    def phi_norm_sq(self) -> Tensor:
        return self._forms.phi_norm_sq


class HeldOutStatistics(MomentStatistics):
    """Statistics of held-out moments about the means of the moments that were learned from.

        C_vw = mean (z_v - m_v)(z_w - m_w)^T,     m_v = W^T mu_v + gamma,   mu_v the mean feature of the training part

    A covariance about the held-out sample's own mean is not linear in its moments. About means that were fixed before,
    it is: then a loss that is quadratic in covariances can be estimated without bias, see `QuadraticInMoments`. What
    does not depend on a centre (alignment, distance, second moment) is as before.

    Parameters
    ----------
    held_out, training : MomentForms
        Of the training part only the means are used.
    W, gamma : Tensors of shape (r, h) and (h,)

    Examples
    --------
    Held-out points 1 and 3 have variance 1 about their own mean, and 1 + (2 - 0)^2 about 0.

    >>> held_out, training = (MomentForms.of(Moments.of_rows(torch.tensor([[a], [b]]))) for a, b in ((1, 3), (-1, 1)))
    >>> HeldOutStatistics(held_out, training, torch.ones(1, 1), torch.zeros(1)).variance_1.item()
    5.0
    """

    def __init__(self, held_out: MomentForms, training: MomentForms, W: Tensor, gamma: Tensor):
        super().__init__(held_out, W, gamma)
        self._about_own_means = MomentStatistics(held_out, W, gamma)
        pairs = ((held_out.mean_1, training.mean_1), (held_out.mean_2, training.mean_2))
        self._shifts = [mine - theirs for mine, theirs in pairs]  # (r,) for each view

    def _shift(self, view: int) -> Tensor:
        return self._W.mT @ self._shifts[view - 1]

    def _covariance(self, view: int, other: int) -> Tensor:
        return super()._covariance(view, other) + torch.outer(self._shift(view), self._shift(other))

    def _variance(self, view: int, other: int) -> Tensor:
        return super()._variance(view, other) + self._shift(view) * self._shift(other)

    @property
    def covariance(self) -> Tensor:
        """Of both views stacked, about the mean of the training part's two views."""
        shift = (self._shift(1) + self._shift(2)) / 2
        return self._about_own_means.covariance + torch.outer(shift, shift)

    @property
    def phi_norm_sq(self) -> Tensor:
        return super().phi_norm_sq + ((self._shifts[0] + self._shifts[1]) / 2).square().sum()

    @property
    def alignment(self) -> Tensor:
        return self._about_own_means.alignment

    @property
    def distance(self) -> Tensor:
        return self._about_own_means.distance

    @property
    def second_moment(self) -> Tensor:
        return self._about_own_means.second_moment

    @property
    def power(self) -> Tensor:
        return self._about_own_means.power


_FORMS = {(1, 1): "V_11", (2, 2): "V_22", (1, 2): "V_12"}


class _Form(torch.autograd.Function):
    """W, V W, V^T W (None: V is symmetric) -> W^T V W; the products are taken as made from that W."""

    @staticmethod
    def forward(ctx: Any, W: Tensor, VW: Tensor, VtW: Tensor | None) -> Tensor:
        ctx.save_for_backward(VW, VtW)
        return W.mT @ VW

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        VW, VtW = ctx.saved_tensors
        if VtW is None:
            return VW @ (grad + grad.mT), None, None
        return VW @ grad.mT + VtW @ grad, None, None


class _FormDiagonal(torch.autograd.Function):
    """The diagonal of `_Form`, (h,), without the h x h matrix."""

    @staticmethod
    def forward(ctx: Any, W: Tensor, VW: Tensor, VtW: Tensor | None) -> Tensor:
        ctx.save_for_backward(VW, VtW)
        return (W * VW).sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        VW, VtW = ctx.saved_tensors
        return (2 * VW if VtW is None else VW + VtW) * grad, None, None


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
