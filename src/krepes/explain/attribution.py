"""Exact signed terms: what every landmark's own term adds to a representation along a direction.

    z . v = gamma . v + sum_l k(x, x_l) (a_l . v)                                      to round-off

Nothing is approximated: the model is this sum. Terms of similar landmarks are large and cancel, so that no single one
says much: `krepes.explain.examples` names rows in parts that do not. v is a component, the weights of a class in a
linear probe, a concept, or any vector.

Directions in the space of representations: components, classes of a linear probe, concepts; outputs of a machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from torch import Tensor

from krepes.base.validation import as_array, as_matrix, as_numbers
from krepes.evaluation.linear import LinearClassifier
from krepes.evaluation.probe_result import Label
from krepes.explain.concept import Concept
from krepes.explain.expansion import (
    Explained,
    Values,
    all_values,
    checked,
    coefficient_tensor,
    in_range,
    over_views,
)
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor


def attribution(model: Explained, X: Any, direction: ArrayLike | Concept) -> np.ndarray:
    """Contributions (n, m) whose row sums, plus `intercept_ @ direction`, are `transform(X) @ direction`.

    Of a kernel ridge machine, they add up to its scores along a direction; see `class_direction` for the classes of
    a classifier and `target_direction` for the unit of a regression.

    Parameters
    ----------
    model : KernelEmbedding, KernelRidgeClassifier or KernelRidgeRegressor
    X : rows, in any form that the model takes
    direction : array of shape (h,), int (a component, or an output) or fitted Concept

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = KernelEmbedding(2, n_landmarks=10, random_state=0, dtype="float64").fit(X)
    >>> parts = attribution(model, X[:4], direction=1)
    >>> bool(np.allclose(parts.sum(1) + model.intercept_[1], model.transform(X[:4])[:, 1]))
    True
    """
    return all_values(model, X, contributions(model, direction))


def contributions(model: Explained, direction: ArrayLike | Concept) -> Values:
    """k_x -> the contributions of the landmarks."""
    A = coefficient_tensor(model, torch.float64)
    along = A @ as_direction(model, direction).to(A)
    kept = in_range(along, model, "Coefficients along the direction")
    return lambda K: over_views(K * kept.to(K), model.views_per_landmark_)


def as_direction(model: Explained, direction: ArrayLike | Concept) -> Tensor:
    """A vector (h,) from the number of a component (of an output, of a machine), a fitted Concept or a vector."""
    h = len(checked(model).intercept_)
    if hasattr(direction, "direction_"):
        direction = direction.direction_
    elif hasattr(direction, "fit") and hasattr(direction, "positives"):
        raise ValueError("This Concept has no direction yet: call concept.fit(model) first.")
    if isinstance(direction, int | np.integer) and not isinstance(direction, bool):
        if not -h <= direction < h:
            raise ValueError(f"direction={direction}: the representation has components 0 to {h - 1}.")
        return torch.eye(h, dtype=torch.float64)[int(direction)]
    if np.shape(as_array(direction, "direction")) != (h,):
        raise ValueError(
            f"direction has the shape {np.shape(direction)}; expected ({h},), one number per component, or an integer."
        )
    return torch.as_tensor(as_numbers(direction, "direction").astype(np.float64))


def class_direction(
    classifier: LinearClassifier | ClassifierMixin, label: Label, against: Label | None = None
) -> np.ndarray:
    """What a linear probe looks at to tell a class from another, or from the mean of all others, (h,).

    Parameters
    ----------
    classifier : LinearClassifier or KernelRidgeClassifier
        `linear_probe(...).model`; anything with `coef`, `classes` (or scikit-learn's `coef_`, `classes_`). Of a
        machine, whose outputs are the scores of its classes, the direction is in the space of these scores.
    label : a class
    against : another class, default=None
        None: the mean of all other classes.

    Examples
    --------
    >>> from krepes.evaluation.linear import LinearClassifier
    >>> probe = LinearClassifier(np.array([[2.0, 1.0]]), np.zeros(1), np.array(["cat", "dog"]))
    >>> class_direction(probe, "dog").tolist(), class_direction(probe, "cat").tolist()
    ([2.0, 1.0], [-2.0, -1.0])
    """
    given = getattr(classifier, "coef", getattr(classifier, "coef_", None))
    if isinstance(classifier, KernelRidgeClassifier):
        scores = np.eye(len(classifier.classes_))
        given = scores if len(scores) > 2 else scores[1:] - scores[:1]
    classes: list[Label] = list(getattr(classifier, "classes", getattr(classifier, "classes_", ())))
    if given is None or not classes:
        raise TypeError(
            f"A {type(classifier).__name__} is not a fitted linear probe: expected coef and classes, as "
            "linear_probe(...).model has."
        )
    coef = as_matrix(given, "coef").astype(np.float64)
    if len(coef) != (1 if len(classes) == 2 else len(classes)):
        raise ValueError(
            f"coef has shape {coef.shape} for {len(classes)} classes: expected one row per class."
        )
    mine = class_place(label, classes)
    other = None if against is None else class_place(against, classes)
    if len(coef) == 1:  # two classes: the second is the positive side
        return coef[0] if mine == 1 else -coef[0]
    if other is not None:
        return coef[mine] - coef[other]
    return coef[mine] - np.delete(coef, mine, axis=0).mean(0)


def target_direction(machine: KernelRidgeRegressor, output: int = 0) -> np.ndarray:
    """The direction along which contributions are in the unit of the target, (c,).

    `attribution(machine, X, v).sum(1) + machine.intercept_ @ v + machine.targets_.shift[output]` is the prediction.
    """
    if not isinstance(machine, KernelRidgeRegressor):
        raise TypeError(f"machine is a {type(machine).__name__}; expected a fitted KernelRidgeRegressor.")
    machine._fit()
    shift = machine.targets_.shift
    if not (isinstance(output, int | np.integer) and 0 <= output < len(shift)):
        raise ValueError(f"output={output!r}: the machine predicts the columns 0 to {len(shift) - 1} of y.")
    return machine.targets_.scale * (np.arange(len(shift)) == output)


def class_place(label: Label, classes: list[Label]) -> int:
    """Which of the classes a label is."""
    try:
        return classes.index(label)
    except (ValueError, RuntimeError) as error:  # arrays cannot be compared with a class
        raise ValueError(
            f"{label!r:.80} is not a class of this probe; classes: {', '.join(map(str, classes))}."
        ) from error
