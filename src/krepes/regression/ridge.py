"""Ridge regression whose regularisation is chosen by leaving every row out once, without refitting.

    W = (Phi^T Phi + alpha n s I)^-1 Phi^T Y,   e_i = (y_i - yhat_i) / (1 - h_ii),  h = diag of the hat matrix

of centred columns, s the features' mean variance times their number / rank: alpha is dimensionless, so that one grid
serves every kernel scale (differs from [tang, Eq. 3.3], whose grid has no stated scale). One eigendecomposition gives
the exact leave-one-out errors of every alpha, centring included (`ridge_algebra`).

Cost O(n r min(n, r)) once, then O(n r) per alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from krepes.base.validation import as_numbers, check_same_rows, check_squares, estimator_rows
from krepes.regression.ridge_algebra import LeaveOneOut

ALPHAS = tuple(float(f"{10 ** (k / 2):.2g}") for k in range(-16, 5))  # 1e-08, 3.2e-08, 1e-07 ... 1e+02


class LeaveOneOutRidge(RegressorMixin, BaseEstimator):
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
    loo_predictions_ : array of the shape of y, (n,) or (n, c)
        The prediction for every row by the fit on all others, with the chosen alpha. Unlike predictions for training
        rows, they are not too optimistic.
    unit_ : float
        What alpha is relative to: the penalty is alpha_ unit_ |W|^2, beside a sum over rows.

    Examples
    --------
    >>> x = np.arange(5.0)[:, None]
    >>> model = LeaveOneOutRidge().fit(x, 2 * x + 1)
    >>> model.alpha_, model.predict(np.array([[10.0]])).round(4).tolist()       # an exact line needs no ridge
    (1e-08, [[21.0]])
    """

    def __init__(self, alphas: Sequence[float] | np.ndarray = ALPHAS):
        self.alphas = alphas

    def fit(self, X: Any, y: Any) -> LeaveOneOutRidge:
        """Fit features (n, r) to targets (n,) or (n, c)."""
        alphas = checked_alphas(self.alphas)
        X = estimator_rows(self, X, ensure_min_samples=2)
        y = _targets(y, len(X))
        for Z, name in ((X, "X"), (y, "y")):
            check_squares(Z, name)
        Y = y[:, None] if y.ndim == 1 else y
        left_out = LeaveOneOut.of_features(torch.from_numpy(X).double(), torch.from_numpy(Y))
        self.unit_ = float(left_out.e.mean()) or 1.0
        self.errors_ = left_out.errors(alphas * self.unit_) / Y.shape[1]
        self.alpha_ = float(alphas[np.argmin(self.errors_)])
        W, b = left_out.coefficients(self.alpha_ * self.unit_)
        self.coef_, self.intercept_ = W.numpy(), b.numpy()
        self.loo_predictions_ = left_out.predictions(self.alpha_ * self.unit_).numpy().reshape(y.shape)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """X coef + intercept, of the shape of the targets: (n,) or (n, c)."""
        check_is_fitted(self, "coef_", msg="Call fit(X, y) before predict.")
        X = estimator_rows(self, X, reset=False)
        predicted = weighted_sum(X, self.coef_, self.intercept_)
        return predicted[:, 0] if self.loo_predictions_.ndim == 1 else predicted

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def weighted_sum(
    X: np.ndarray,  # (n, r)
    coef: np.ndarray,  # (r, c)
    intercept: np.ndarray,  # (c,)
) -> np.ndarray:  # (n, c)
    """X coef + intercept, refused where it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        predicted = X @ coef + intercept
    if not np.isfinite(predicted).all():
        raise ValueError(
            f"X has numbers of up to {np.abs(X).max():.3g}, for which predictions overflow. Scale it as in fit."
        )
    return predicted


def _targets(y: Any, n: int) -> np.ndarray:
    """Numbers, (n,) or (n, c)."""
    if y is None:
        raise ValueError("LeaveOneOutRidge requires y to be passed, but the target y is None.")
    y = as_numbers(y, "y").astype(np.float64)
    check_same_rows(len(y), n, "y")
    if y.ndim > 2:
        raise ValueError(f"y has shape {y.shape}; expected targets (n,) or (n, c).")
    return y


def checked_alphas(alphas: Sequence[float] | np.ndarray) -> np.ndarray:
    """Positive numbers, at least one."""
    values = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if not (values.size and np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"alphas={alphas!r}: expected positive numbers.")
    return values
