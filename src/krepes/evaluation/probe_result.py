"""What a probe found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Label = bool | int | float | str | np.generic  # of a row: true or false, a number or text


@dataclass(frozen=True)
class ProbeResult:
    """Test accuracy of a classifier that was fitted on a representation.

    Attributes
    ----------
    accuracy : share of the test rows that are classified correctly.
    balanced_accuracy : mean over the classes of the test rows of the share classified correctly.
    validation_accuracy : accuracy of the chosen C or k on labelled rows held out; NaN if there was no choice.
    recall : {class: share classified correctly}, for the classes of the test rows.
    classes : the classes in the labels, sorted.
    classifier : has `predict(Z)`.
    n_labels, n_test : rows.
    notes : remarks on how the choice was made.
    """

    accuracy: float
    balanced_accuracy: float
    validation_accuracy: float
    recall: dict[Any, float]
    classes: np.ndarray
    classifier: Any
    n_labels: int
    n_test: int
    notes: list[str] = field(default_factory=list)

    @property
    def choice(self) -> str:
        """What was chosen on the validation rows."""
        return ""

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy:.4f}, balanced {self.balanced_accuracy:.4f} on {self.n_test:,} rows "
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
