"""What a probe found, of classes or of a quantity; and what scikit-learn's scorers ask of a fitted model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

from krepes.base.display import displayed

Label = bool | int | float | str | np.generic  # of a row: true or false, a number or text
Model = TypeVar("Model")
NAMES = {
    "balanced_accuracy": "balanced accuracy",
    "r2": "R²",
    "mean_absolute_error": "mean absolute error",
}
CLASSIFIER = Tags(
    estimator_type="classifier", target_tags=TargetTags(required=True), classifier_tags=ClassifierTags()
)
REGRESSOR = Tags(
    estimator_type="regressor", target_tags=TargetTags(required=True), regressor_tags=RegressorTags()
)


@displayed
@dataclass(frozen=True, kw_only=True)
class ProbeResult(Generic[Model]):
    """Test scores of a classifier or a regression that was fitted on a representation.

    Attributes
    ----------
    metrics : {name: score}. The first is the one that is compared: accuracy and balanced_accuracy of classes, r2 and
        mean_absolute_error of a quantity, then the scorer that `Protocol.run` was asked for.
    model : the fitted classifier or regressor; has `predict(Z)`.
    n_labels, n_test : rows.
    predicted : the class or the number that was predicted for every test row.
    classes : the classes in the labels, sorted; empty for a quantity.
    recall : {class: share classified correctly}, for the classes of the test rows.
    chosen : {name: value} of what was chosen on the labelled rows: C, k or alpha.
    validation_accuracy : accuracy of the chosen C or k on labelled rows held out; NaN if there was no choice.
    notes : remarks on how the choice was made.
    """

    metrics: dict[str, float]
    model: Model
    n_labels: int
    n_test: int
    predicted: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    classes: np.ndarray = field(default_factory=lambda: np.empty(0))
    recall: dict[Label, float] = field(default_factory=dict)
    chosen: dict[str, float | str] = field(default_factory=dict)
    validation_accuracy: float = float("nan")
    notes: list[str] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """The share of the test rows that are classified correctly."""
        return self.metrics["accuracy"]

    @property
    def balanced_accuracy(self) -> float:
        """The mean over the classes of the test rows of the share classified correctly."""
        return self.metrics["balanced_accuracy"]

    @property
    def r2(self) -> float:
        """1 - sum (y - predicted)^2 / sum (y - mean)^2 over the test rows; NaN if all have the same target."""
        return self.metrics["r2"]

    @property
    def mean_absolute_error(self) -> float:
        """Mean |y - predicted|, in the unit of the target."""
        return self.metrics["mean_absolute_error"]

    @property
    def choice(self) -> str:
        """What was chosen, such as C=0.1."""
        parts = self.chosen.items()
        return ", ".join(value if isinstance(value, str) else f"{name}={value:g}" for name, value in parts)

    def __str__(self) -> str:
        scores = [f"{NAMES.get(name, name)} {value:.4g}" for name, value in self.metrics.items()]
        return f"{', '.join(scores)} on {self.n_test:,} rows ({self.n_labels:,} labels, {self.choice})"


def class_recall(predicted: np.ndarray, truth: np.ndarray) -> dict[int, float]:
    """The share of the rows of every class that are right, by code.

    >>> class_recall(np.array([0, 0, 1]), np.array([0, 0, 0]))
    {0: 0.6666666666666666}
    """
    totals = np.bincount(truth)
    hits = np.bincount(truth[predicted == truth], minlength=len(totals))
    return {int(code): float(hits[code] / totals[code]) for code in np.flatnonzero(totals)}


def basic_scores(predicted: np.ndarray, truth: np.ndarray, quantity: bool) -> dict[str, float]:
    """Accuracy and balanced accuracy of predicted codes; R^2 and mean absolute error of a quantity.

    >>> basic_scores(np.array([1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0]), True)
    {'r2': 0.5, 'mean_absolute_error': 0.3333333333333333}
    """
    if not quantity:
        recall = list(class_recall(predicted, truth).values())
        return {
            "accuracy": float((predicted == truth).mean()),
            "balanced_accuracy": float(np.mean(recall)),
        }
    error, around = truth - predicted, truth - truth.mean()
    spread = float(np.square(around).sum())
    r2 = 1 - float(np.square(error).sum()) / spread if spread > 0 else float("nan")
    return {"r2": r2, "mean_absolute_error": float(np.abs(error).mean())}


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
