"""What the moment losses see of an embedding: first and second moments of Z1, Z2, from samples or from moments.

    Z_v = Phi_v W + gamma,   mean Z1 = W^T mu_1 + gamma,   cov(Z1, Z2) = W^T V_12 W,   V_12 = S_12 - mu_1 mu_2^T

A loss written in these quantities has one formula and two readings: `SampleStatistics` (in `batch`) takes them from
the rows of a batch, `MomentStatistics` from the features' moments and (W, gamma). Everything is computed on first use.

In a basis B (W = B M, B with orthogonal columns b_i) the forms become B^T V B and |W|^2 = sum_i |b_i|^2 |M_i|^2. A
basis of eigenvectors makes V_11 diagonal; it is then kept as a vector, and a product with it costs O(r h).

A quadratic form needs one product with its r x r matrix, forwards and backwards together: with Y = V W and V
symmetric, the gradient of f(W^T V W) is Y (G + G^T), so `_Form` keeps Y instead of multiplying by V again. Cost of
value and gradient: O(r^2 h + r h^2) from moments, O(b h^2) from samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from krepes.base.linalg import symmetric
from krepes.moments import Moments


class Statistics(ABC):
    """Moments of two views' embeddings, divided by n; covariances are about each view's own mean.

    Attributes
    ----------
    mean_1, mean_2 : Tensor of shape (h,)
    covariance_1, covariance_2, covariance_12 : Tensor of shape (h, h)
        Within the first view, within the second, and of the first (rows) with the second (columns).
    variance_1, variance_2, agreement : Tensor of shape (h,)
        Their diagonals, cheaper where nothing else of them is needed.
    gram : Tensor of shape (h, h)
        W^T W; `norm_sq` (h,) is its diagonal.
    phi_norm_sq : Tensor, a scalar
        Mean of |phi(x) - mu|^2.
    negative_alignment : Tensor, a scalar
        Mean of z1^T z-, with independent negatives (every Z2) where none were given.
    """

    shared: bool  # both views have the same moments: one of them speaks for both

    @abstractmethod
    def _mean(self, view: int) -> Tensor: ...

    @abstractmethod
    def _covariance(self, view: int, other: int) -> Tensor: ...

    @abstractmethod
    def _variance(self, view: int, other: int) -> Tensor: ...

    @property
    @abstractmethod
    def negative_alignment(self) -> Tensor: ...

    @property
    @abstractmethod
    def gram(self) -> Tensor: ...

    @property
    @abstractmethod
    def norm_sq(self) -> Tensor: ...

    @property
    @abstractmethod
    def phi_norm_sq(self) -> Tensor: ...

    @cached_property
    def mean_1(self) -> Tensor:
        return self._mean(1)

    @cached_property
    def mean_2(self) -> Tensor:
        return self.mean_1 if self.shared else self._mean(2)

    @cached_property
    def variance_1(self) -> Tensor:
        return self._variance(1, 1)

    @cached_property
    def variance_2(self) -> Tensor:
        return self.variance_1 if self.shared else self._variance(2, 2)

    @cached_property
    def agreement(self) -> Tensor:
        return self._variance(1, 2)

    @cached_property
    def covariance_1(self) -> Tensor:
        return self._covariance(1, 1)

    @cached_property
    def covariance_2(self) -> Tensor:
        return self.covariance_1 if self.shared else self._covariance(2, 2)

    @cached_property
    def covariance_12(self) -> Tensor:
        return self._covariance(1, 2)

    @property
    def alignment(self) -> Tensor:
        """Mean of z1^T z2."""
        return self.agreement.sum() + self.mean_1 @ self.mean_2

    @property
    def distance(self) -> Tensor:
        """Mean of |z1 - z2|^2."""
        within = self.variance_1 + self.variance_2 - 2 * self.agreement
        return within.sum() + (self.mean_1 - self.mean_2).square().sum()

    @property
    def second_moment(self) -> Tensor:
        """Mean of z z^T over both views, (h, h)."""
        first = self.covariance_1 + torch.outer(self.mean_1, self.mean_1)
        if self.shared:
            return first
        return (first + self.covariance_2 + torch.outer(self.mean_2, self.mean_2)) / 2

    @property
    def covariance(self) -> Tensor:
        """Covariance of both views' embeddings stacked into one sample, (h, h)."""
        if self.shared:
            return self.covariance_1
        gap = self.mean_1 - self.mean_2
        return (self.covariance_1 + self.covariance_2) / 2 + torch.outer(gap, gap) / 4

    @property
    def variance(self) -> Tensor:
        """Mean of the two views' variances, (h,)."""
        return self.variance_1 if self.shared else (self.variance_1 + self.variance_2) / 2

    @property
    def power(self) -> Tensor:
        """Mean of z_j^2 over both views, (h,)."""
        return self.variance + (self.mean_1.square() + self.mean_2.square()) / 2


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


_FORMS = {(1, 1): "V_11", (2, 2): "V_22", (1, 2): "V_12"}


class _Form(torch.autograd.Function):
    """W, V W, V^T W (None: V is symmetric) -> W^T V W; the products are taken as made from that W."""

    @staticmethod
    def forward(ctx: FunctionCtx, W: Tensor, VW: Tensor, VtW: Tensor | None) -> Tensor:
        ctx.save_for_backward(VW, VtW)  # type: ignore[arg-type]  # None is allowed
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
    def forward(ctx: FunctionCtx, W: Tensor, VW: Tensor, VtW: Tensor | None) -> Tensor:
        ctx.save_for_backward(VW, VtW)  # type: ignore[arg-type]  # None is allowed
        return (W * VW).sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        VW, VtW = ctx.saved_tensors
        return (2 * VW if VtW is None else VW + VtW) * grad, None, None
