"""The effect of a row of the training data, landmark or not, on a model: what would be different without it?

    exact          the row's part is subtracted from the sums, and the model solved again in the same feature space
    first order    the derivative of the same with respect to the row's weight: cheap, for all rows

Of an embedding, the effect is on which rows are alike: G = Z Z^T at the scale "orthonormal", that is Phi P Phi^T with P
the projection onto the span of what was learned. It does not depend on how components are rotated, which ties leave
open. Of a machine, it is on scores, and exact for all rows at once: `krepes.explain.training_rows`; in
cells, by the weights of rows. First order leaves the leverage of the row out: the influence function [koh]. Where
`rows` holds groups, each is left out as a whole.

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
from krepes.explain.training_rows import (
    LinearInRows,
    LinearMachine,
    TrainingRows,
    group_changes,
    query_features,
)
from krepes.losses import BarlowTwins, KernelPCA, Loss, SimpleContrastive, SpectralContrastive, VICReg
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.moments import Moments
from krepes.solvers import ClosedForm

METHODS = ("exact", "first_order")


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
        -1 stands for a group.
    total : ndarray of shape (k,)
        |change of G| / |G| of an embedding; of a machine, the root mean square change of the scores of the q rows.
    on : ndarray of shape (k, q)
        The same for each of the q rows: |change of its row of G| / |its row|; |change of its scores|.
    method : "exact" or "first_order"
    changes : ndarray of shape (k, q, c) or None
        Of a machine: its scores without the rows, less its scores with them.
    """

    rows: np.ndarray
    total: np.ndarray
    on: np.ndarray
    method: str
    changes: np.ndarray | None = None


def row_effect(
    model: KernelEmbedding | LinearMachine,
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
    model : KernelEmbedding with a closed form, kernel ridge machine, or GaussianProcessRegressor
    X, y, positives, negatives, sample_weight : the training data, as they were given to `fit`
    rows : integers of shape (k,), or a list of k arrays of integers
        Rows of X whose effect is asked for, one at a time; or groups of them.
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
    if not isinstance(model, KernelEmbedding | LinearMachine):
        raise TypeError(
            f"model is a {type(model).__name__}; expected a fitted KernelEmbedding, kernel ridge machine or "
            "GaussianProcessRegressor."
        )
    model.check_input(X)
    groups, named = _groups(rows, model.space_.reader(X).n_rows)
    if method != "exact" and (named < 0).any():
        raise ValueError("Groups of rows have an exact effect only: method='exact'.")
    if isinstance(model, LinearMachine):
        if y is None:
            raise ValueError("The effect of a row on a machine depends on its target: give y= as in fit.")
        found = _score_changes(model, X, y, groups, on, sample_weight, method == "exact")
        sizes = found.norm(dim=2)
        total = sizes.square().mean(1).sqrt()
        return RowEffects(named, total.cpu().numpy(), sizes.cpu().numpy(), method, found.cpu().numpy())
    given = {"positives": positives, "negatives": negatives, "sample_weight": sample_weight}
    Phi = torch.from_numpy(model._mapped(model.features_, on)).double()
    span = _span(model)
    G = Phi @ span
    G = G @ G.mT
    if method == "exact":
        changes = [_refitted(model, X, group, given, Phi) - G for group in groups]
    else:
        turning = _turning(model)
        parts = model.row_moments(X, named, **given)
        changes = [turning.gram_change(Phi, turning.turn(part)) for part in parts]
    on_rows = torch.stack([change.norm(dim=1) / G.norm(dim=1).clamp(min=1e-300) for change in changes])
    total = torch.stack([change.norm() for change in changes]) / G.norm().clamp(min=1e-300)
    return RowEffects(named, total.cpu().numpy(), on_rows.cpu().numpy(), method)


def _groups(rows: Any, n_rows: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Groups of rows, each checked, and the row that each is; -1 for several."""
    several = isinstance(rows, list | tuple) and any(np.ndim(group) > 0 for group in rows)
    if not several:
        named = as_row_indices(rows, n_rows)
        return list(named[:, None]), named
    groups = [as_row_indices(group, n_rows) for group in rows]
    return groups, np.array([group[0] if len(group) == 1 else -1 for group in groups])


def _score_changes(
    machine: LinearMachine, X: Any, y: Any, groups: list[np.ndarray], on: Any, sample_weight: Any, exact: bool
) -> Tensor:
    """(k, q, c): how the scores of q rows change without each of k groups of the training data."""
    rows, single = np.concatenate(groups), all(len(group) == 1 for group in groups)
    if isinstance(machine, RidgeMachine) and machine.local_ is not None and machine.local_.in_cells:
        if not single or not exact:
            raise ValueError("This machine is in cells: ask for the exact effect of one row at a time.")
        return -torch.from_numpy(_effects_in_cells(machine, rows, on))
    trained = TrainingRows.given(machine, X, y, rows, sample_weight)
    if single:
        known = trained.features(machine)
        return -LinearInRows.of(machine).effects(query_features(machine, on), *known, exact).transpose(0, 1)
    ends = np.cumsum([len(group) for group in groups])
    return group_changes(machine, trained, np.split(np.arange(ends[-1]), ends[:-1]), on)


def _effects_in_cells(machine: RidgeMachine, rows: np.ndarray, on: Any) -> np.ndarray:
    """(k, q, c), in units of encoded targets; zero for rows that share no cell with a query."""
    found = machine.row_weights(on, n_top=int(machine.n_samples_seen_))
    effects = found.effects / machine.targets_.unit
    return np.stack([np.where((found.rows == row)[:, :, None], effects, 0.0).sum(1) for row in rows])


def _span(model: KernelEmbedding) -> Tensor:
    """An orthonormal basis of the span of W, (r, h), from A = F W: W = F^T K_mm A."""
    F, eigenvalues = model.features_.F, model.features_.eigenvalues
    A = torch.from_numpy(model.coefficients_).to(F)
    W = eigenvalues[:, None] * (F.mT @ A)  # because F^T F = diag(1 / eigenvalues)
    return torch.linalg.qr(W / W.norm(dim=0).clamp(min=1e-300))[0].cpu()


def _refitted(model: KernelEmbedding, X: Any, rows: np.ndarray, given: dict[str, Any], Phi: Tensor) -> Tensor:
    """G of the model without some rows."""
    Z = Phi @ _span(model.without_rows(X, rows, **given))
    return Z @ Z.mT


def _turning(model: KernelEmbedding) -> SpanChange:
    task, moments = model._task(), model.moments_
    if moments is None or not isinstance(model.solver_, ClosedForm) or not model.loss_.offers("minimiser"):
        raise ValueError(
            f"{model.loss_} was minimised by {model.solver_}, not in closed form: ask for method='exact'."
        )
    noise = task.noise_with(model.views_) if model.loss_.views_needed > 1 else 0.0
    return SpanChange(Problem(model.loss_, task.regularization, noise), moments, model.n_components_)
