"""The ridge probe, for targets that are quantities, and any estimator of scikit-learn as a probe.

    min_{w, b}  sum_i (y_i - w^T z_i - b)^2  +  alpha u |w|^2

As the linear probe, it scales the representation by one number and never column by column: u is the sum of squares of
the centred columns over their rank, so that one grid of alpha means the same for every representation. alpha is chosen
by leaving out every labelled row once, exactly and without refitting; test rows take no part.

Cost O(n h min(n, h)).

An estimator of scikit-learn is what a user would train instead, on the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor

from krepes.base.estimators import Predictor
from krepes.base.validation import generator_of
from krepes.evaluation.probe_inputs import check_inputs, few_threads
from krepes.evaluation.probe_result import ProbeResult
from krepes.regression.ridge import ALPHAS, LeaveOneOutRidge


def ridge_probe(
    Z_train: Any,  # shape: (n, h)
    y_train: Any,
    Z_test: Any,
    y_test: Any,
    *,
    alphas: Sequence[float] = ALPHAS,
    random_state: int | np.random.Generator | None = 0,
) -> ProbeResult[LeaveOneOutRidge]:
    """Fit ridge regression on labelled rows of a representation and test it.

    Parameters
    ----------
    Z_train, y_train : representation and targets to learn from. Rows whose target is None or NaN are left out.
    Z_test, y_test : rows to test on; they take no part in any choice.
    alphas : values to choose from, relative to the representation's own scale.
    random_state : not used; nothing is random. All probes take it.

    Examples
    --------
    >>> x = np.arange(8.0)[:, None]
    >>> result = ridge_probe(x[::2], 2 * x[::2, 0] + 1, x[1::2], 2 * x[1::2, 0] + 1)
    >>> round(result.r2, 6), result.chosen
    (1.0, {'alpha': 1e-08})
    """
    data = check_inputs(Z_train, y_train, Z_test, y_test, quantity=True)
    fitted = LeaveOneOutRidge(alphas).fit(data.Z_train, data.train)
    return data.result(fitted, fitted.predict(data.Z_test), {"alpha": fitted.alpha_})


def estimator_probe(
    Z_train: Any,  # shape: (n, h)
    y_train: Any,
    Z_test: Any,
    y_test: Any,
    *,
    estimator: Predictor,
    random_state: int | np.random.Generator | None = 0,
) -> ProbeResult[Predictor]:
    """Fit a copy of a scikit-learn estimator on labelled rows and test it.

    Parameters
    ----------
    Z_train, y_train, Z_test, y_test : as in `linear_probe`, or as in `ridge_probe` for a regressor.
    estimator : a classifier or a regressor. If it has a `random_state`, it is set.
    random_state : seed or generator.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> estimator_probe(X[::2], y[::2], X[1::2], y[1::2], estimator=DecisionTreeClassifier()).accuracy > 0.9
    True
    """
    known = isinstance(estimator, BaseEstimator)
    quantity = known and is_regressor(estimator)
    if not known or not (is_classifier(estimator) or quantity):
        raise TypeError(
            f"estimator={type(estimator).__name__}: expected a classifier or a regressor of scikit-learn."
        )
    fitted = clone(estimator)
    if "random_state" in fitted.get_params():
        fitted.set_params(random_state=int(generator_of(random_state).integers(2**31)))
    data = check_inputs(Z_train, y_train, Z_test, y_test, quantity=quantity)
    y = data.train if quantity else data.classes[data.train]
    with few_threads(data.Z_train):
        predicted = np.asarray(fitted.fit(data.Z_train, y).predict(data.Z_test))
    told = predicted if quantity else np.searchsorted(data.classes, predicted)
    return data.result(fitted, told, notes=getattr(fitted, "notes_", []))
