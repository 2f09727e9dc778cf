"""Transductive ridge regression: rows without labels take the class that a first fit gives them.

    min over W, b of  sum_i |y_i - f(x_i)|^2 + beta n / n' sum_j |y'_j - f(x'_j)|^2 + alpha unit |W|^2

f = W^T phi + b, y'_j the one-hot class that ridge regression on the labelled rows gives x'_j [tang, Sec. 3.4.3]. With
beta = 1 all unlabelled rows together weigh as much as all labelled ones; beta = 0 is ridge regression.

Both alpha and beta are chosen by exact leave-one-out errors: a row that is left out is missing from the first fit
too, so that it has no say in the classes guessed with its help. No refitting: with A = Phi~^T Phi~ + beta' Phi~'^T
Phi~' + penalty, columns of ones appended, h_i = phi_i^T A^-1 phi_i and e_i the first fit's leave-one-out errors,

    f'_(-i)(x'_j) = f'(x'_j) - phi'_j^T A_0^-1 phi_i e_i             gives the guesses without row i, and
    f_(-i)(x_i)   = (f(x_i) - h_i y_i + beta' phi_i^T A^-1 Phi'^T (Y'_(-i) - Y')) / (1 - h_i)

The fit is drawn towards the class that it has guessed for x'_j itself, and is too sure of it. What the others say of an
unlabelled row, with h'_j = beta' phi'_j^T A^-1 phi'_j, is exact, too:

    f_(-j)(x'_j)  = (f(x'_j) - h'_j y'_j) / (1 - h'_j)

Differs from [tang, Sec. 3.4.3]: an intercept; one penalty for both fits, where the printed (A + I)^-1 B has a
penalty of 1 that does not depend on alpha; beta relative to the numbers of rows.

Cost O(n n' (r + c) + (n + n') r^2 + r^3) per beta; memory O(n n') in blocks of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from krepes.base.blocks import row_blocks
from krepes.base.validation import SQUARES, as_matrix, check_squares
from krepes.regression.ridge import ALPHAS, LeaveOneOutRidge, checked_alphas, weighted_sum

BETAS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
BLOCK_NUMBERS = 2**24  # of guesses without a row, at once


class TransductiveRidge(BaseEstimator):
    """Ridge regression to classes, helped by rows without labels.

    Parameters
    ----------
    alphas : sequence of float
        As in `LeaveOneOutRidge`; chosen on the labelled rows.
    betas : sequence of float, default=(0, 0.01, 0.03, 0.1, 0.3, 1)
        Weights of all unlabelled rows together, relative to all labelled ones. Leave-one-out errors choose one of
        them, the first of equally good ones. Include 0, so that unlabelled rows are not used where they do not help.

    Attributes
    ----------
    alpha_, beta_ : float
    coef_ : array of shape (r, c)
    intercept_ : array of shape (c,)
    guesses_ : array of shape (n',), int
        Column of the class that the first fit gives each unlabelled row.
    errors_ : array of shape (number of betas,)
        Mean squared leave-one-out error of each.
    loo_predictions_ : array of shape (n, c)
    unlabelled_predictions_ : array of shape (n', c)
        Of the unlabelled rows, each without the class that was guessed for it. Use these for the rows of the fit, and
        `predict` for others: on the former `predict` is too sure, and less often right.
    unit_ : float
        As in `LeaveOneOutRidge`.

    Examples
    --------
    >>> Phi, Y = np.array([[-1.0], [1.0], [-1.2], [1.2]]), np.eye(2)[[0, 1, 0, 1]]
    >>> model = TransductiveRidge().fit(Phi, Y, np.array([[-2.0], [2.0]]))
    >>> model.guesses_.tolist(), model.predict(Phi).argmax(axis=1).tolist()
    ([0, 1], [0, 1, 0, 1])
    """

    def __init__(
        self, alphas: Sequence[float] | np.ndarray = ALPHAS, betas: Sequence[float] | np.ndarray = BETAS
    ):
        self.alphas = alphas
        self.betas = betas

    def fit(self, X: Any, Y: Any, X_unlabelled: Any) -> TransductiveRidge:
        """Fit labelled features (n, r), one-hot targets (n, c) and unlabelled features (n', r)."""
        betas = checked_alphas(self.betas, "betas", zero=True)
        X, Y, free = (
            as_matrix(part, name).astype(np.float64)
            for part, name in ((X, "X"), (Y, "Y"), (X_unlabelled, "X_unlabelled"))
        )
        first = LeaveOneOutRidge(self.alphas).fit(X, Y)
        # Centred and in units of their spread, because the normal equations are then better conditioned.
        center, spread = X.mean(axis=0), first.unit_**0.5
        rows, free = (
            np.column_stack([(part - center) / spread, np.ones(len(part))])
            for part in (X, _unlabelled(free, X.shape[1], spread))
        )
        penalty = np.append(np.full(X.shape[1], first.alpha_), 0.0)
        scores = free[:, :-1] @ (first.coef_ * spread) + center @ first.coef_ + first.intercept_
        self.guesses_ = scores.argmax(axis=1)
        guessed, weights = np.eye(Y.shape[1])[self.guesses_], betas * len(X) / len(free)
        damped = [rows.T @ rows + weight * free.T @ free + np.diag(penalty) for weight in weights]
        solved = []  # W with the intercept as its last row, and A^-1 Phi~^T of the labelled rows
        for A, weight in zip(damped, weights):
            both = _inverse_times(A, np.hstack([rows.T @ Y + weight * free.T @ guessed, rows.T]))
            solved.append(np.split(both, [Y.shape[1]], axis=1))
        errors_first = Y - first.loo_predictions_
        # One pass over blocks of rows: guesses without each of them, and what they do to every beta.
        S_0 = _inverse_times(rows.T @ rows + np.diag(penalty), rows.T)  # (r + 1, n)
        left_out = np.empty((len(betas), *Y.shape))
        for block in row_blocks(len(X), max(1, BLOCK_NUMBERS // guessed.size)):
            moved = (free @ S_0[:, block]).T[:, :, None] * errors_first[block][:, None, :]  # (b, n', c)
            without = (scores - moved).argmax(axis=2)
            for k, (W, S) in enumerate(solved):
                part = rows[block], Y[block], W, S[:, block]
                left_out[k, block] = _left_out(*part, free, without, self.guesses_, weights[k])
        self.errors_ = np.square(left_out - Y).mean(axis=(1, 2))
        best = int(np.argmin(self.errors_))
        self.alpha_, self.beta_, self.unit_ = first.alpha_, float(betas[best]), first.unit_
        self.loo_predictions_ = left_out[best]
        W = solved[best][0]
        S_free = _inverse_times(damped[best], free.T)
        leverage = weights[best] * np.einsum("ij,ji->i", free, S_free)[:, None]
        others = (free @ W - leverage * guessed) / np.maximum(1 - leverage, 1e-12)
        self.unlabelled_predictions_ = others  # each by the fit on all others
        self.coef_ = W[:-1] / spread
        self.intercept_ = W[-1] - center @ self.coef_
        return self

    def predict(self, X: Any) -> np.ndarray:
        """X coef + intercept, shape (n, c)."""
        check_is_fitted(self, "coef_", msg="Call fit(X, Y, X_unlabelled) before predict.")
        X = as_matrix(X).astype(np.float64)
        if X.shape[1] != len(self.coef_):
            raise ValueError(f"X has {X.shape[1]} features; expected {len(self.coef_)}, as in fit.")
        return weighted_sum(X, self.coef_, self.intercept_)


def _unlabelled(free: np.ndarray, width: int, spread: float) -> np.ndarray:
    """Unlabelled features, checked for width and scale against the labelled ones."""
    if free.shape[1] != width:
        raise ValueError(
            f"X_unlabelled has shape {free.shape}; expected (n', {width}), as many features as labelled rows."
        )
    check_squares(free, "X_unlabelled")
    if np.abs(free).max() > SQUARES[1] * spread:
        raise ValueError(
            f"X_unlabelled has numbers of up to {np.abs(free).max():.3g}, and labelled rows vary by {spread:.3g}: "
            "expected rows of the same scale."
        )
    return free


def _inverse_times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    try:
        return scipy.linalg.cho_solve(scipy.linalg.cho_factor(A), B)
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            "The penalty is too small for features of this scale and rank: raise alpha, or bring the features to unit "
            f"variance. {error}"
        ) from error


def _left_out(
    rows: np.ndarray,  # (b, r + 1)
    Y: np.ndarray,  # (b, c)
    W: np.ndarray,  # (r + 1, c)
    S: np.ndarray,  # (r + 1, b)
    free: np.ndarray,  # (n', r + 1)
    without: np.ndarray,  # (b, n'), guesses without each of the rows
    guesses: np.ndarray,  # (n',)
    weight: float,
) -> np.ndarray:  # (b, c)
    """Predictions of rows by the fit on all others, whose guesses are their own."""
    leverage = np.einsum("ij,ji->i", rows, S)[:, None]
    change = np.zeros_like(Y)
    i, j = np.nonzero(without != guesses) if weight > 0 else (np.empty(0, int), np.empty(0, int))
    pull = weight * np.einsum("rk,kr->k", S[:, i], free[j])
    np.add.at(change, (i, without[i, j]), pull)
    np.add.at(change, (i, guesses[j]), -pull)
    return (rows @ W - leverage * Y + change) / np.maximum(1 - leverage, 1e-12)
