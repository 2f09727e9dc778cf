"""Which of several representations a few labels prefer, by exact leave-one-out errors of ridge regression.

    error = sum_i |y_i - yhat_i(without i)|^2  /  sum_i |y_i - mean(without i)|^2          1 - R^2, left out

Every representation gets its own ridge. Classes are regressed as indicators; squared errors say more than counts of
wrong rows where labels are few. One singular value decomposition per representation, O(n h min(n, h)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.regression.ridge import LeaveOneOutRidge


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
