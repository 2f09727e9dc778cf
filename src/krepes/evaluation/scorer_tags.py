"""What scikit-learn's scorers ask of a fitted model: what it is, and its classes."""

from __future__ import annotations

import numpy as np
from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

CLASSIFIER = Tags(
    estimator_type="classifier", target_tags=TargetTags(required=True), classifier_tags=ClassifierTags()
)
REGRESSOR = Tags(
    estimator_type="regressor", target_tags=TargetTags(required=True), regressor_tags=RegressorTags()
)


class FittedClassifier:
    """A classifier that was made fitted: scorers may be called with it, and there is no `fit`."""

    classes: np.ndarray

    @property
    def classes_(self) -> np.ndarray:
        return self.classes

    def __sklearn_tags__(self) -> Tags:
        return CLASSIFIER

    def __sklearn_is_fitted__(self) -> bool:
        return True
