"""What a probe found: of classes, or of a quantity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from krepes.base.display import displayed

Label = bool | int | float | str | np.generic  # of a row: true or false, a number or text


@dataclass(frozen=True, kw_only=True)
class ProbeOutcome:
    """What results of all probes have.

    Attributes
    ----------
    n_labels, n_test : rows.
    notes : remarks on how the choice was made.
    predicted : the class or the number that was predicted for every test row.
    scores : {name of a scorer: value}, if `Protocol.run` was asked for one.
    """

    n_labels: int
    n_test: int
    notes: list[str] = field(default_factory=list)
    predicted: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def choice(self) -> str:
        """What was chosen on the labelled rows."""
        return ""


@displayed
@dataclass(frozen=True, kw_only=True)
class ProbeResult(ProbeOutcome):
    """Test accuracy of a classifier that was fitted on a representation.

    Attributes
    ----------
    accuracy : share of the test rows that are classified correctly.
    balanced_accuracy : mean over the classes of the test rows of the share classified correctly.
    validation_accuracy : accuracy of the chosen C or k on labelled rows held out; NaN if there was no choice.
    recall : {class: share classified correctly}, for the classes of the test rows.
    classes : the classes in the labels, sorted.
    classifier : has `predict(Z)`.
    n_labels, n_test, notes, predicted, scores : as in `ProbeOutcome`.
    """

    accuracy: float
    balanced_accuracy: float
    validation_accuracy: float
    recall: dict[Any, float]
    classes: np.ndarray
    classifier: Any

    @property
    def metrics(self) -> dict[str, float]:
        """All scores by name, the first of them the one that is compared."""
        return {"accuracy": self.accuracy, "balanced_accuracy": self.balanced_accuracy} | self.scores

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy:.4f}, balanced {self.balanced_accuracy:.4f} on {self.n_test:,} rows "
            f"({self.n_labels:,} labels, {self.choice})"
        )


@displayed
@dataclass(frozen=True, kw_only=True)
class RegressionResult(ProbeOutcome):
    """Test scores of a regression that was fitted on a representation.

    Attributes
    ----------
    r2 : 1 - sum (y - predicted)^2 / sum (y - mean)^2 over the test rows; 0 is what their mean would have. NaN if all
        test rows have the same target.
    mean_absolute_error : mean |y - predicted|, in the unit of the target.
    regressor : has `predict(Z)`.
    n_labels, n_test, notes, predicted, scores : as in `ProbeOutcome`.
    """

    r2: float
    mean_absolute_error: float
    regressor: Any

    @property
    def metrics(self) -> dict[str, float]:
        """All scores by name, the first of them the one that is compared."""
        return {"r2": self.r2, "mean_absolute_error": self.mean_absolute_error} | self.scores

    def __str__(self) -> str:
        return (
            f"R² {self.r2:.4f}, mean absolute error {self.mean_absolute_error:.4g} on {self.n_test:,} rows "
            f"({self.n_labels:,} labels, {self.choice})"
        )


def probe_scores(predicted: np.ndarray, truth: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """Accuracy, balanced accuracy and recalls of predicted codes.

    >>> probe_scores(np.array([0, 0, 1]), np.array([0, 0, 0]), np.array(["a", "b"]))["recall"]
    {'a': 0.6666666666666666}
    """
    right = predicted == truth
    totals = np.bincount(truth, minlength=len(classes))
    hits = np.bincount(truth[right], minlength=len(classes))
    recall = {classes[k].item(): float(hits[k] / totals[k]) for k in np.flatnonzero(totals)}
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean(list(recall.values()))),
        "recall": recall,
    }


def regression_scores(predicted: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """R^2 and mean absolute error.

    >>> regression_scores(np.array([1.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    {'r2': 0.5, 'mean_absolute_error': 0.3333333333333333}
    """
    error, around = truth - predicted, truth - truth.mean()
    spread = float(np.square(around).sum())
    r2 = 1 - float(np.square(error).sum()) / spread if spread > 0 else float("nan")
    return {"r2": r2, "mean_absolute_error": float(np.abs(error).mean())}
