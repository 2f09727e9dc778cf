"""The effect of a row of the training data, landmark or not, on a model: what would be different without it?

    exact          the row's part is subtracted from the sums, and the model solved again in the same feature space
    first order    the derivative of the same with respect to the row's weight: cheap, for all rows

Of an embedding, the effect is on which rows are alike: G = Z Z^T at the scale "orthonormal", that is Phi P Phi^T with P
the projection onto the span of what was learned. It does not depend on how components are rotated, which ties leave
open. Of a ridge machine, it is on scores, and exact for all rows at once:

    f_-i(x) - f(x) = - w_i e_i g_i(x) / (1 - h_i),     g_i(x) = (phi(x) - mu)^T (A + penalty I)^-1 (phi_i - mu) + 1 / n
    e_i = y_i - f(x_i),     h_i = w_i g_i(x_i)

A is the centred second moment of all rows, n the sum of their weights. Without an intercept, mu = 0 and 1 / n goes.
First order leaves the 1 - h_i out: that is the influence function [koh]. Penalty and weights of classes stay as they
are. Cost O(r^3) once, then O(r (r + q)) per row for q rows to look at.

How the span of a closed form turns when a row is left out, to first order.

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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh, spanned, symmetric
from krepes.base.validation import as_row_indices, check_choice
from krepes.embedding import KernelEmbedding
from krepes.losses import BarlowTwins, KernelPCA, Loss, SimpleContrastive, SpectralContrastive, VICReg
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.moments import Moments
from krepes.solvers import ClosedForm

METHODS = ("exact", "first_order")
FULL = 1e-12  # 1 - h below it: the row alone decides its prediction


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
        M, N = self.problem.matrices(self.mean * 0.5 + mean_row * 0.5)
        M_away, N_away = self.problem.matrices(self.mean * 1.5 - mean_row * 0.5)
        moved = self.outside.mT @ (M - M_away) @ self.inside
        if N is not None and N_away is not None:
            moved -= (self.outside.mT @ (N - N_away) @ self.inside) * self.e[: len(self.gaps.mT)]
        return -weight / (self.n - weight) * moved / self.gaps

    def gram_change(self, Phi: Tensor, turn: Tensor) -> Tensor:
        """The change of Phi P Phi^T, (n, n), for features (n, r)."""
        away = self.outside - self.orthonormal @ (self.orthonormal.mT @ self.outside)  # (I - P) V_out
        half = (Phi @ away) @ turn @ (self.dual @ Phi.mT)
        return half + half.mT


@dataclass(frozen=True)
class RowEffects:
    """What k rows of the training data do to q other rows.

    Attributes
    ----------
    rows : ndarray of shape (k,)
    total : ndarray of shape (k,)
        |change of G| / |G| of an embedding; of a machine, the root mean square change of the scores of the q rows.
    on : ndarray of shape (k, q)
        The same for each of the q rows: |change of its row of G| / |its row|; |change of its scores|.
    method : "exact" or "first_order"
    """

    rows: np.ndarray
    total: np.ndarray
    on: np.ndarray
    method: str


def row_effect(
    model: KernelEmbedding | RidgeMachine,
    X: Any,
    rows: Any,
    *,
    on: Any,
    y: Any = None,
    positives: Any = None,
    negatives: Any = None,
    sample_weight: Any = None,
    method: str = "exact",
) -> RowEffects:
    """How a model would see some rows if a row of its training data had not been there.

    Parameters
    ----------
    model : KernelEmbedding with a closed form, or KernelRidgeClassifier or KernelRidgeRegressor
    X, y, positives, negatives, sample_weight : the training data, as they were given to `fit`
    rows : integers of shape (k,)
        Rows of X whose effect is asked for, one at a time.
    on : rows to look at, in any form that the model takes
    method : "exact" or "first_order", default="exact"

    Examples
    --------
    An outlier has more effect than a row among many:

    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((60, 2)); X[7] += 3
    >>> model = KernelEmbedding(2, n_landmarks=20, loss="kernel_pca", random_state=0, dtype="float64").fit(X)
    >>> found = row_effect(model, X, [7, 8], on=X)
    >>> bool(found.total[0] > found.total[1])
    True
    """
    check_choice("method", method, METHODS)
    if not isinstance(model, KernelEmbedding | RidgeMachine):
        raise TypeError(
            f"model is a {type(model).__name__}; expected a fitted KernelEmbedding or kernel ridge machine."
        )
    model.check_input(X)
    rows = as_row_indices(rows, model.space_.reader(X).n_rows)
    if isinstance(model, RidgeMachine):
        if y is None:
            raise ValueError("The effect of a row on a machine depends on its target: give y= as in fit.")
        changes = _score_changes(model, X, y, rows, on, sample_weight, method == "exact").norm(dim=2)
        total = changes.square().mean(1).sqrt()
        return RowEffects(rows, total.cpu().numpy(), changes.cpu().numpy(), method)
    given = {"positives": positives, "negatives": negatives, "sample_weight": sample_weight}
    Phi = torch.from_numpy(model._mapped(model.features_, on)).double()
    span = _span(model)
    G = Phi @ span
    G = G @ G.mT
    if method == "exact":
        changes = [_refitted(model, X, row, given, Phi) - G for row in rows]
    else:
        turning = _turning(model)
        parts = model.row_moments(X, rows, **given)
        changes = [turning.gram_change(Phi, turning.turn(part)) for part in parts]
    on_rows = torch.stack([change.norm(dim=1) / G.norm(dim=1).clamp(min=1e-300) for change in changes])
    total = torch.stack([change.norm() for change in changes]) / G.norm().clamp(min=1e-300)
    return RowEffects(rows, total.cpu().numpy(), on_rows.cpu().numpy(), method)


def _score_changes(
    machine: RidgeMachine, X: Any, y: Any, rows: np.ndarray, on: Any, sample_weight: Any, exact: bool
) -> Tensor:
    """(k, q, c): how the scores of q rows change without each of k rows of the training data."""
    machine._check_has_total()
    loss = getattr(machine, "loss", "squared")
    if loss != "squared":
        raise ValueError(
            f"loss={loss!r} has no closed form, from which the effect of a row would follow: fit with loss='squared'."
        )
    total, space = machine.total_, machine.space_
    assert total is not None
    class_weight = machine._class_weight(total)
    sums = total.by_fold(class_weight).total
    data = machine._reopened(X, y=y, weight=sample_weight)
    block = data.reader(space.inputs, space.placement).take(rows)
    Phi = space.features(block.inputs[0]).double()
    w = torch.ones(len(rows), dtype=torch.float64) if block.weight is None else torch.from_numpy(block.weight)
    assert block.y is not None
    if class_weight is not None:
        w = w * torch.from_numpy(class_weight[block.y])
    w = w.to(Phi)
    mu, ybar = sums.about(machine.fit_intercept)
    centred = sums.centred(mu, ybar)
    damped = centred.A + machine.penalty_ * torch.eye(len(mu)).to(centred.A)
    W = torch.linalg.solve(damped, centred.B)
    constant = 1 / sums.n if machine.fit_intercept else 0.0
    away = torch.linalg.solve(damped, (Phi - mu).mT)  # (r, k)
    leverage = w * (((Phi - mu).mT * away).sum(0) + constant)
    errors = machine.targets_.matrix(block.y).to(Phi) - (Phi - mu) @ W - ybar  # (k, c)
    factors = -w / (1 - leverage).clamp(min=FULL) if exact else -w
    queries = torch.from_numpy(machine._mapped(space.features, on)).to(Phi)
    reach = (queries - mu) @ away + constant  # (q, k)
    return torch.einsum("qk,kc->kqc", reach * factors, errors)


def _span(model: KernelEmbedding) -> Tensor:
    """An orthonormal basis of the span of W, (r, h), from A = F W: W = F^T K_mm A."""
    F, eigenvalues = model.features_.F, model.features_.eigenvalues
    A = torch.from_numpy(model.coefficients_).to(F)
    W = eigenvalues[:, None] * (F.mT @ A)  # because F^T F = diag(1 / eigenvalues)
    return torch.linalg.qr(W / W.norm(dim=0).clamp(min=1e-300))[0].cpu()


def _refitted(model: KernelEmbedding, X: Any, row: int, given: dict[str, Any], Phi: Tensor) -> Tensor:
    """G of the model without a row."""
    Z = Phi @ _span(model.without_rows(X, [row], **given))
    return Z @ Z.mT


def _turning(model: KernelEmbedding) -> SpanChange:
    task, moments = model._task(), model.moments_
    if moments is None or not isinstance(model.solver_, ClosedForm) or not model.loss_.offers("minimiser"):
        raise ValueError(
            f"{model.loss_} was minimised by {model.solver_}, not in closed form: ask for method='exact'."
        )
    noise = task.noise_with(model.views_) if model.loss_.views_needed > 1 else 0.0
    return SpanChange(Problem(model.loss_, task.regularization, noise), moments, model.n_components_)
