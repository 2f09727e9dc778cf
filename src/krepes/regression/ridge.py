"""Ridge regression whose regularisation is chosen by leaving every row out once, without refitting.

    W = (Phi^T Phi + alpha n s I)^-1 Phi^T Y,   e_i = (y_i - yhat_i) / (1 - h_ii),  h = diag of the hat matrix

of centred columns, s the features' mean variance times their number / rank: alpha is dimensionless, so that one grid
serves every kernel scale (differs from [tang, Eq. 3.3], whose grid has no stated scale). One eigendecomposition gives
the exact leave-one-out errors of every alpha, centring included (`ridge_algebra`).

Cost O(n r min(n, r)) once, then O(n r) per alpha.

`compare_by_labels` says which of several representations a few labels prefer, by these errors.

    error = sum_i |y_i - yhat_i(without i)|^2  /  sum_i |y_i - mean(without i)|^2          1 - R^2, left out

Every representation gets its own ridge. Classes are regressed as indicators; squared errors say more than counts of
wrong rows where labels are few. One singular value decomposition per representation, O(n h min(n, h)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
        left_out = LeaveOneOut.of_features(torch.tensor(X.astype(np.float64)), torch.tensor(Y))
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


def checked_alphas(
    alphas: Sequence[float] | np.ndarray, name: str = "alphas", zero: bool = False
) -> np.ndarray:
    """Positive numbers, at least one; with `zero`, 0 is one too."""
    values = np.atleast_1d(np.asarray(alphas))
    numeric = values.dtype.kind in "iuf" and values.size > 0 and np.isfinite(values).all()
    if not numeric or not (values >= 0 if zero else values > 0).all():
        raise ValueError(f"{name}={alphas!r:.80}: expected {'numbers >= 0' if zero else 'positive numbers'}.")
    return values.astype(np.float64)


@dataclass(frozen=True)
class Compared:
    """One representation and what the labels say of it.

    Attributes
    ----------
    place : int
        Its position among those that were given.
    name : str
        What makes it differ.
    n_components : int
    error : float
        Squared leave-one-out error, as a share of what predicting the mean has: 0 is perfect, 1 learns nothing.
    accuracy : float or None
        Share of the labels that are predicted right when left out; None for targets that are quantities.
    """

    place: int
    name: str
    n_components: int
    error: float
    accuracy: float | None = None


@dataclass(frozen=True)
class Comparison:
    """What was compared, the best first.

    Attributes
    ----------
    candidates : list of Compared
    reference : Compared or None
        The raw features, which no model can be: a yardstick.
    n_labels : int
    """

    candidates: list[Compared]
    reference: Compared | None
    n_labels: int

    @property
    def chosen(self) -> Compared:
        return self.candidates[0]

    def __str__(self) -> str:
        rows = [*self.candidates, *([] if self.reference is None else [self.reference])]
        width = max(len(row.name) for row in rows)
        lines = [f"{len(self.candidates)} candidates by leave-one-out errors of {self.n_labels:,} labels:"]
        for row in rows:
            share = "" if row.accuracy is None else f", {100 * row.accuracy:5.1f} % right"
            mark = "  <- chosen" if row is self.chosen else ""
            numbers = f"{row.n_components:4d} columns: error {row.error:.4f}{share}{mark}"
            lines.append(f"  {row.name:<{width}}  {numbers}")
        return "\n".join(lines)


def compare_by_labels(
    candidates: Sequence[Mapping[str, Any]],
    representations: Iterable[np.ndarray],  # of shape (n, h)
    targets: np.ndarray,  # of shape (n,)
    reference: np.ndarray | None = None,
) -> Comparison:
    """Compare representations of labelled rows.

    Parameters
    ----------
    candidates : sequence of dicts
        The parameters that each representation stands for.
    representations : iterable of ndarrays of shape (n, h)
    targets : ndarray of shape (n,)
        Integer codes are classes, other numbers quantities.
    reference : ndarray of shape (n, d), optional
        Raw features, to be shown beside.

    Examples
    --------
    >>> Z, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 0, 1, 1])
    >>> print(compare_by_labels([{"loss": "kernel_pca"}, {}], [Z[[0, 2, 1, 3]], Z], y))
    2 candidates by leave-one-out errors of 4 labels:
      as it is            1 columns: error 0.0211, 100.0 % right  <- chosen
      loss kernel_pca     1 columns: error 1.0064,   0.0 % right
    """
    classes = targets.dtype.kind in "iu"
    Y = np.eye(targets.max() + 1)[targets] if classes else targets[:, None].astype(float)
    n = len(Y)
    nothing = np.square((Y - Y.mean(axis=0)) * n / (n - 1)).sum()

    def judged(place: int, name: str, Z: np.ndarray) -> Compared:
        fit = LeaveOneOutRidge().fit(Z, Y)
        error = np.square(Y - fit.loo_predictions_).sum() / nothing
        accuracy = float((fit.loo_predictions_.argmax(1) == targets).mean()) if classes else None
        return Compared(place, name, Z.shape[1], float(error), accuracy)

    pairs = enumerate(zip(candidates, representations, strict=True))
    found = [judged(place, in_words(parameters), Z) for place, (parameters, Z) in pairs]
    if not found:
        raise ValueError("There is nothing to compare: candidates= is empty.")
    beside = None if reference is None else judged(-1, "raw features", reference)
    return Comparison(sorted(found, key=lambda each: each.error), beside, n)


def in_words(parameters: Mapping[str, Any]) -> str:
    """What makes a candidate differ.

    >>> in_words({"feature_noise": 0.1, "n_components": 16})
    'feature noise 0.1, 16 components'
    """
    words = {"n_components": "{} components", "feature_noise": "feature noise {:g}"}
    forms = {name: words.get(name, name.replace("_", " ") + " {}") for name in parameters}
    return ", ".join(forms[name].format(value) for name, value in parameters.items()) or "as it is"
