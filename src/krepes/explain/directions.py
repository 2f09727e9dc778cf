"""Directions in the space of representations: components, classes of a linear probe, concepts."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from krepes.embedding import KernelEmbedding
from krepes.evaluation.linear import LinearClassifier
from krepes.evaluation.result import Label
from krepes.explain.concept import Concept


def as_direction(model: KernelEmbedding, direction: ArrayLike | Concept) -> Tensor:
    """A vector (h,) from a component's number, a fitted Concept or a vector."""
    check_is_fitted(model, "landmarks_")
    h = len(model.intercept_)
    if hasattr(direction, "direction_"):
        direction = direction.direction_
    elif hasattr(direction, "fit") and hasattr(direction, "positives"):
        raise ValueError("This Concept has no direction yet: call concept.fit(model) first.")
    if isinstance(direction, int | np.integer) and not isinstance(direction, bool):
        if not -h <= direction < h:
            raise ValueError(f"direction={direction}: the representation has components 0 to {h - 1}.")
        v = torch.zeros(h, dtype=torch.float64)
        v[int(direction)] = 1.0
        return v
    v = torch.as_tensor(np.asarray(direction, dtype=np.float64))
    if v.shape != (h,):
        raise ValueError(
            f"direction has the shape {tuple(v.shape)}; expected ({h},), one number per component, or an integer."
        )
    if not torch.isfinite(v).all():
        raise ValueError("direction holds NaN or infinite numbers.")
    return v


def class_direction(
    classifier: LinearClassifier | ClassifierMixin, label: Label, against: Label | None = None
) -> np.ndarray:
    """What a linear probe looks at to tell a class from another, or from the mean of all others, (h,).

    Parameters
    ----------
    classifier : LinearClassifier
        `linear_probe(...).classifier`; anything with `coef`, `classes` (or scikit-learn's `coef_`, `classes_`).
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
    coef = np.asarray(getattr(classifier, "coef", getattr(classifier, "coef_", None)), dtype=np.float64)
    classes = list(getattr(classifier, "classes", getattr(classifier, "classes_", ())))
    for wanted in (label, against):
        if wanted is not None and wanted not in classes:
            raise ValueError(
                f"{wanted!r} is not a class of this probe; classes: {', '.join(map(str, classes))}."
            )
    if len(coef) == 1:  # two classes: the second is the positive side
        return coef[0] if classes.index(label) == 1 else -coef[0]
    mine = classes.index(label)
    if against is not None:
        return coef[mine] - coef[classes.index(against)]
    return coef[mine] - np.delete(coef, mine, axis=0).mean(0)
