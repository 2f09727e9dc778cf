"""KernelRidgeRegressor: quantities from rows, images or objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.kernel_ridge.parameters import with_parameters
from krepes.machines.kernel_ridge.targets import Quantities, Targets


class KernelRidgeRegressor(RegressorMixin, RidgeMachine):
    __doc__ = with_parameters("""Predict numbers by kernel ridge regression, in one pass over the data.

    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeRegressor(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.45)
    True
    """)

    targets_: Quantities

    def _targets_of(self, y: Any, classes: ArrayLike | None = None) -> Targets:
        return Quantities.of(y, shift=self.fit_intercept)

    def predict(self, X: Any) -> np.ndarray:
        """The predicted targets, (n,) or (n, c)."""
        scores = self._scores(X)
        return self.targets_.decoded(scores)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
