"""Predictions of an ensemble as an array, where the members themselves are elsewhere.

numbers (n, members)                          regression
numbers between 0 and 1 (n, members)          probabilities of the second of two classes, in sorted order
labels (n, members)                           votes
numbers (n, members, classes)                 probabilities, or scores, of every class
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from krepes.alignment.ensemble_members import Ensemble
from krepes.alignment.inputs import Numbers

Classes = Sequence[str] | Sequence[float] | np.ndarray  # labels, in the order of columns
TASKS = ("auto", "regression", "classification")


@dataclass(frozen=True)
class ColumnMember:
    """A column of an array of predictions.

    Attributes
    ----------
    name : of the member.
    column : int
    classes : None for regression.
    probabilities : whether the numbers are probabilities of the second class, not labels.
    """

    name: str
    column: int
    classes: np.ndarray | None = None
    probabilities: bool = False

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """The column as (n, 1) numbers or (n, classes); rows that are missing are NaN."""
        own = X[:, self.column]
        width = 1 if self.classes is None else len(self.classes)
        if own.ndim == 2 and own.shape[1] != width:
            raise ValueError(f"Predictions have shape {X.shape}; expected the shape of those of the choice.")
        if self.classes is None:
            return own.astype(np.float64).reshape(-1, 1)
        if own.ndim == 2:
            return own.astype(np.float64)
        if self.probabilities:
            own = own.astype(np.float64)
            return np.column_stack([1 - own, own])
        missing = is_missing(own)
        found = (own[:, None] == self.classes).astype(np.float64)
        unknown = own[~missing & ~found.any(axis=1)]
        if len(unknown):
            raise ValueError(
                f"Member {self.name} predicts {unknown.tolist()[0]!r}, which is none of {self.classes.tolist()}."
            )
        found[missing] = np.nan
        return found


def as_predictions(P: Numbers) -> np.ndarray:
    """An array (n, members) or (n, members, classes) from anything array-like."""
    P = np.asarray(P.detach().cpu() if isinstance(P, Tensor) else P)
    if P.ndim not in (2, 3) or 0 in P.shape:
        raise ValueError(
            f"Predictions have shape {P.shape}; expected (n, members), or (n, members, classes) of probabilities."
        )
    if P.ndim == 3 and P.dtype.kind not in "fiub":
        raise TypeError(
            f"Predictions of shape {P.shape} hold {P.dtype}; expected probabilities of the classes."
        )
    if P.ndim == 3 and P.shape[2] < 2:
        raise ValueError(f"Predictions have shape {P.shape}: one class. Give (n, members) for regression.")
    return P


def column_names(P: Numbers) -> list[str] | None:
    """The names of a frame's columns (pandas, polars); None of other arrays."""
    columns = getattr(P, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def columns_of(
    P: np.ndarray,
    y: np.ndarray,
    task: str,
    classes: Classes | None,
    names: Sequence[str] | None,
    columns: list[str] | None = None,
) -> Ensemble:
    """Every column as a member, after deciding what the numbers are."""
    names = [str(k) for k in range(P.shape[1])] if names is None else [str(name) for name in names]
    if len(names) != P.shape[1]:
        raise ValueError(f"names has {len(names)} names for {P.shape[1]} members.")
    known = np.unique(y) if classes is None else np.asarray(classes)
    if P.ndim == 3:
        if task == "regression":
            raise ValueError(f"Predictions of shape {P.shape} are of classes; regression takes (n, members).")
        found: np.ndarray | None = _of_scores(P.shape[2], known, classes is not None)
        probabilities = False
    else:
        found, probabilities = _of_votes(P, y, known, task)
    members = [ColumnMember(name, k, found, probabilities) for k, name in enumerate(names)]
    of_frame = None if columns is None else np.array(columns, dtype=object)
    return Ensemble(members, found, n_features=P.shape[1], feature_names=of_frame)


def is_missing(values: np.ndarray) -> np.ndarray:
    """NaN, and None among labels."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype == object:
        return np.array([value is None or value != value for value in values.ravel()]).reshape(values.shape)
    return np.zeros(values.shape, dtype=bool)


def _of_votes(P: np.ndarray, y: np.ndarray, classes: np.ndarray, task: str) -> tuple[np.ndarray | None, bool]:
    """The classes, None for regression, and whether the numbers are probabilities of the second of two."""
    numbers = P.dtype.kind in "fiub"
    votes = np.unique(P[~is_missing(P)])
    are_labels = numbers == (classes.dtype.kind in "fiub") and bool(np.isin(votes, classes).all())
    between = numbers and len(classes) == 2 and not are_labels and bool(((votes >= 0) & (votes <= 1)).all())
    if y.dtype.kind in "fiu" and numbers and task != "classification":
        # A neighbour's number is among the numbers of y, and yet no label.
        fractions = y.dtype.kind == "f" and bool((y != np.round(y)).any())
        if task == "regression" or fractions or not (are_labels or between):
            return None, False
    if task == "regression":
        raise ValueError(f"Regression takes numbers; y holds {y.dtype} and the predictions {P.dtype}.")
    if are_labels or between:
        return classes, between
    if numbers and (classes.dtype.kind not in "fiub" or (votes != np.round(votes)).any()):
        raise ValueError(
            f"Predictions lie between {votes.min():g} and {votes.max():g}, and y has {len(classes)} classes, "
            f"{classes[:10].tolist()}. For classification expected: labels of y; probabilities of the second of two "
            "classes, between 0 and 1 (turn scores s into 1 / (1 + exp(-s))); or an array (n, members, classes) of "
            "probabilities or scores. "
            + ('To predict y as a number use task="regression".' if classes.dtype.kind in "fiu" else "")
        )
    return np.union1d(classes, votes), False


def _of_scores(n_classes: int, classes: np.ndarray, given: bool) -> np.ndarray:
    """The classes that the last axis is of."""
    if len(classes) == n_classes:
        return classes
    if not given and classes.dtype.kind in "iu" and classes.min() >= 0 and classes.max() < n_classes:
        return np.arange(n_classes)
    raise ValueError(
        f"Predictions are of {n_classes} classes and there are {len(classes)}, {classes[:10].tolist()}: give "
        "classes=[...], in the order of the columns."
    )
