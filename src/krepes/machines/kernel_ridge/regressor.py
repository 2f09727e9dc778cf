"""KernelRidgeRegressor: quantities from rows, images or objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.machines.kernel_ridge.conformal import Calibration, intervals
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.kernel_ridge.solution import RidgeSolution, RidgeTotal
from krepes.machines.labelled_machine import QuantityMachine


class KernelRidgeRegressor(QuantityMachine[RidgeTotal, RidgeSolution], RidgeMachine):
    """Predict numbers by kernel ridge regression, in one pass over the data.

    Parameters
    ----------
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
    """

    def predict(self, X: Any) -> np.ndarray:
        """The predicted targets, (n,) or (n, c)."""
        scores = self._scores(X)
        return self.targets_.decoded(scores)

    # Conformal prediction

    @property
    def held_out_predictions_(self) -> np.ndarray:
        """What was predicted for the rows `held_out_rows_` without them, (k,) or (k, c).

        Single rows were left out where all rows are kept, folds elsewhere. Kernel, metric and penalty have seen them.
        """
        return self.targets_.decoded(self._solved().held_out.predictions.numpy())

    def predict_interval(
        self, X: Any, confidence: float = 0.9, *, calibration: Calibration | None = None
    ) -> np.ndarray:
        """Intervals that hold the target, (n, 2): lower and upper bounds; (n, c, 2) for several targets.

        By CV+ [barber], from the residuals of the rows kept with the model under the fits without their folds. If new
        rows come from where the others came from, more than 2 confidence - 1 of the targets are covered, about, and
        usually about `confidence`. That kernel, metric and penalty were chosen on the same rows is outside the
        guarantee. Each of several targets is covered so; all of them together less often.

        Parameters
        ----------
        X : rows, as for `predict`
        confidence : float, default=0.9
        calibration : (X, y), optional
            Rows that the model has not seen, nor were used to choose anything. Split conformal prediction with them
            covers at least `confidence`, on average over calibration rows, whatever was chosen before.

        Notes
        -----
        Rows count once, whatever their `sample_weight`. With too few held-out rows for the confidence (fewer than 9
        for 0.9, 19 for 0.95), intervals are infinite, and a warning says so.
        """
        self._fit()
        found = intervals(self, X, confidence, calibration)
        return found[:, 0] if self.targets_.flat else found
