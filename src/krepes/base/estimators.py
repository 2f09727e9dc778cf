"""What krepes asks of estimators that are not its own, such as scikit-learn's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np


class Predictor(Protocol):
    """An estimator that learns from rows and targets and predicts targets."""

    def fit(self, X: Any, y: Any) -> Any: ...

    def predict(self, X: Any) -> Any: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...

    def set_params(self, **params: Any) -> Self: ...


class ProbabilisticClassifier(Predictor, Protocol):
    """A fitted classifier that gives probabilities."""

    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray: ...


class FittedEnsemble(ProbabilisticClassifier, Protocol):
    """A fitted ensemble, whose members are classifiers or regressors."""

    estimators_: Sequence[ProbabilisticClassifier]
