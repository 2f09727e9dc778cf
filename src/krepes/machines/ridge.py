"""Ridge regression whose regularisation is chosen by leaving every row out once, without refitting.

    W = (Phi^T Phi + alpha n s I)^-1 Phi^T Y,   e_i = (y_i - yhat_i) / (1 - h_ii),  h = diag of the hat matrix

of centred columns, s the features' mean variance times their number / rank: alpha is dimensionless, so that one grid
serves every kernel scale (differs from [tang, Eq. 3.3], whose grid has no stated scale). One singular value
decomposition gives the exact leave-one-out errors of every alpha, centring included.

The transductive form [tang, Sec. 3.4.3] adds unlabelled rows with the labels that a first fit gives them:

    W = (A + I)^-1 B,  A = beta' Phi'^T Phi' + beta Phi^T Phi,  B = beta' Phi'^T Y' + beta Phi^T Y

Cost O(n r min(n, r)) once, then O(n r) per alpha.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ALPHAS = tuple(10.0 ** np.arange(-8, 2.5, 0.5))


class LeaveOneOutRidge:
    """Ridge regression on features, alpha chosen by exact leave-one-out errors.

    Parameters
    ----------
    alphas : sequence of float
        Relative to the features' total variance; 1e-8 to 1e2 by default.

    Attributes
    ----------
    alpha_ : float
    coef_ : array of shape (r, c)
    intercept_ : array of shape (c,)
    errors_ : array of shape (number of alphas,)
        Mean squared leave-one-out error of each.
    loo_predictions_ : array of shape (n, c)
        Of every row by the fit on all others, with the chosen alpha: free of the optimism of training predictions.

    Examples
    --------
    >>> x = np.arange(5.0)[:, None]
    >>> model = LeaveOneOutRidge().fit(x, 2 * x + 1)
    >>> model.alpha_, model.predict(np.array([[10.0]])).round(4).tolist()       # an exact line needs no ridge
    (1e-08, [[21.0]])
    """

    def __init__(self, alphas: Any = ALPHAS):
        self.alphas = alphas

    def fit(self, Phi: Any, Y: Any) -> LeaveOneOutRidge:
        """Fit features (n, r) to targets (n, c)."""
        Phi, Y = np.asarray(Phi, dtype=np.float64), np.asarray(Y, dtype=np.float64)
        Y = Y[:, None] if Y.ndim == 1 else Y
        alphas = np.atleast_1d(np.asarray(self.alphas, dtype=np.float64))
        if len(Phi) != len(Y) or len(Phi) < 2:
            raise ValueError(
                f"Got {len(Phi)} rows of features and {len(Y)} of targets; expected the same, at least 2."
            )
        if not (alphas.size and np.isfinite(alphas).all() and (alphas > 0).all()):
            raise ValueError(f"alphas={self.alphas!r}: expected positive numbers.")
        center, mean = Phi.mean(axis=0), Y.mean(axis=0)
        U, s, Vt = np.linalg.svd(Phi - center, full_matrices=False)
        kept = s > 1e-12 * s[0] if len(s) and s[0] > 0 else np.zeros(len(s), dtype=bool)
        U, s, Vt = U[:, kept], s[kept], Vt[kept]
        self.unit_ = float(np.square(s).sum() / max(len(s), 1)) or 1.0
        projected = U.T @ (Y - mean)
        best = np.inf
        self.errors_ = np.empty(len(alphas))
        for k, alpha in enumerate(alphas):
            shrink = s**2 / (s**2 + alpha * self.unit_)
            residual = (Y - mean) - U @ (shrink[:, None] * projected)
            # The mean is fitted too, hence 1/n: exact for centred columns.
            leverage = np.square(U) @ shrink + 1 / len(Phi)
            error = residual / np.maximum(1 - leverage, 1e-12)[:, None]
            self.errors_[k] = np.square(error).mean()
            if self.errors_[k] < best:
                best, self.alpha_, self.loo_predictions_ = self.errors_[k], float(alpha), Y - error
        weights = s / (s**2 + self.alpha_ * self.unit_)
        self.coef_ = Vt.T @ (weights[:, None] * projected)
        self.intercept_ = mean - center @ self.coef_
        return self

    def predict(self, Phi: Any) -> np.ndarray:
        """Phi coef + intercept, shape (n, c)."""
        if not hasattr(self, "coef_"):
            raise ValueError("Call fit(Phi, Y) before predict.")
        return np.asarray(Phi, dtype=np.float64) @ self.coef_ + self.intercept_


def transductive_coefficients(
    Phi: np.ndarray,  # (n, r), labelled
    Y: np.ndarray,  # (n, c)
    Phi_unlabelled: np.ndarray,  # (n', r)
    alpha: float,
    beta: float = 1.0,
    beta_unlabelled: float = 0.1,
) -> np.ndarray:  # (r, c)
    """W of transductive ridge regression: unlabelled rows take the class that ridge regression gives them.

    >>> transductive_coefficients(np.array([[2.0]]), np.array([[1.0, 0.0]]), np.array([[1.0]]), alpha=1.0).round(4)
    array([[0.4118, 0.    ]])
    """
    r = Phi.shape[1]
    first = np.linalg.solve(Phi.T @ Phi + alpha * np.eye(r), Phi.T @ Y)
    guessed = np.eye(Y.shape[1])[(Phi_unlabelled @ first).argmax(axis=1)]
    A = beta * Phi.T @ Phi + beta_unlabelled * Phi_unlabelled.T @ Phi_unlabelled
    B = beta * Phi.T @ Y + beta_unlabelled * Phi_unlabelled.T @ guessed
    return np.linalg.solve(A + np.eye(r), B)
