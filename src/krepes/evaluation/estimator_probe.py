"""Any classifier or regressor of scikit-learn as a probe: what a user would train instead, on the same draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

from krepes.base.estimators import Predictor
from krepes.base.validation import generator_of
from krepes.evaluation.probe_inputs import check_inputs, few_threads
from krepes.evaluation.probe_result import ProbeResult


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
    quantity = is_regressor(estimator)
    if not (is_classifier(estimator) or quantity):
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
