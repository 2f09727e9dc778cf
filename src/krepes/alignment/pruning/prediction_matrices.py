"""Targets of pruning, and predictions of an ensemble as an array, without the members themselves.

numbers (n, members)                          regression
numbers between 0 and 1 (n, members)          probabilities of the second of two classes, in sorted order
labels (n, members)                           votes
numbers (n, members, classes)                 probabilities, or scores, of every class
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.alignment.inputs import Numbers
from krepes.alignment.pruning.ensemble_members import Ensemble, MemberOutputs
from krepes.base.validation import LARGEST, SQUARES, as_array, check_finite
from krepes.preprocessing.labels import missing_values, plain_values, present_labels

Classes = Sequence[str] | Sequence[float] | np.ndarray  # labels, in the order of columns
REFUSED = "MmcV"  # dates, durations, complex numbers and structures are neither numbers nor labels
TASKS = ("auto", "regression", "classification")


@dataclass(frozen=True)
class ColumnMember:
    """A column of an array of predictions.

    Attributes
    ----------
    name : the member's name.
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
            raise ValueError(
                f"Predictions have shape {X.shape}; expected the shape of the choice's predictions."
            )
        if self.classes is None or self.probabilities or own.ndim == 2:
            columns = own.astype(np.float64).reshape(len(own), -1)
            return np.hstack([1 - columns, columns]) if self.probabilities else columns
        missing = is_missing(own)
        found = (own[:, None] == self.classes).astype(np.float64)
        unknown = own[~missing & ~found.any(axis=1)]
        if len(unknown):
            raise ValueError(
                f"Member {self.name} predicts {unknown.tolist()[0]!r}, which is not one of {self.classes.tolist()}."
            )
        found[missing] = np.nan
        return found


def as_predictions(P: Numbers) -> np.ndarray:
    """An array (n, members) or (n, members, classes) from anything array-like."""
    P = as_array(P, "The array of predictions")
    P = _plain(P) if P.dtype == object else P
    if P.ndim not in (2, 3) or 0 in P.shape:
        raise ValueError(
            f"Predictions have shape {P.shape}; expected (n, members), or (n, members, classes) of probabilities."
        )
    if P.dtype.kind in REFUSED or (P.ndim == 3 and P.dtype.kind not in "fiub"):
        raise TypeError(
            f"Predictions of shape {P.shape} hold {P.dtype}; expected numbers, or labels (n, members)."
        )
    if P.ndim == 3 and P.shape[2] < 2:
        raise ValueError(f"Predictions have shape {P.shape}: one class. Give (n, members) for regression.")
    return P


def _plain(P: np.ndarray) -> np.ndarray:
    """An object array of numbers, missing ones among them, as float64; labels of one type as they are."""
    missing = is_missing(P)
    plain = plain_values(P[~missing], "The array of predictions")
    if plain.dtype.kind not in "fiu":
        return P
    found = np.full(P.shape, np.nan)
    found[~missing] = plain
    return found


def as_target(y: Any, numbers: bool) -> np.ndarray:
    """Targets as an array (n,), none missing: labels or numbers, or numbers only."""
    y, missing = present_labels(y, "y")
    if missing.any() or (y.dtype.kind == "f" and not np.isfinite(y).all()):
        raise ValueError("y is missing or infinite in some rows. Leave these rows out.")
    if y.dtype.kind in REFUSED or (numbers and y.dtype.kind not in "fiub"):
        raise TypeError(f"y holds {y.dtype}; a regressor predicts numbers, and a classifier labels.")
    return y.astype(np.float64) if numbers else y


def target_columns(y: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """The target as columns (n, c): numbers, or zeros and a one for the class."""
    if classes is None:
        return y[:, None]
    target = (y[:, None] == classes).astype(np.float64)
    unknown = y[~target.any(axis=1)]
    if len(unknown):
        raise ValueError(
            f"y has the label {unknown.tolist()[0]!r}, which is not a class of the ensemble: {classes[:20].tolist()}."
        )
    if (y == y[0]).all():
        raise ValueError(f"All {len(y):,} labels are {y.tolist()[0]!r}; at least two classes are needed.")
    return target


def check_member_outputs(given: MemberOutputs) -> None:
    """Refuse predictions that are missing, and members so far from the target's scale that no weight fits."""
    outputs, target, seen = given.outputs, given.target, given.seen > 0
    missing = ~np.isfinite(outputs).all(axis=2) & seen
    if missing.any():
        row, k = np.argwhere(missing)[0]
        gap = given.usable is None and np.isnan(outputs[row, k]).any()
        trained = 'If these are rows on which members were trained, say predictions="out_of_bag".'
        raise ValueError(
            f"{missing.sum():,} of {missing.size:,} predictions are missing or infinite (the first is of member "
            f"{given.name(k)}, row {row:,}). {trained if gap else 'Leave these rows or members out.'}"
        )
    check_finite(target, "y")
    size = np.abs(target).max()
    sizes = np.abs(given.filled).max(axis=(0, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(np.log10(sizes) - np.log10(size))
    far = (sizes > LARGEST) | (np.isfinite(apart) & (apart > np.log10(SQUARES[1])))
    if far.any():
        raise ValueError(
            f"Member {given.name(int(far.argmax()))} predicts numbers of up to {sizes[far.argmax()]:.3g} for targets "
            f"of up to {size:.3g}: their squares are out of the range of float64. Bring predictions to the scale of y."
        )


def column_names(P: Numbers) -> list[str] | None:
    """The names of a frame's columns (pandas, polars); None of other arrays."""
    columns = getattr(P, "columns", None)
    if columns is None:
        return None
    names = [str(name) for name in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"The frame has several columns named {', '.join(map(repr, twice))}: a name is of one member."
        )
    return names


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
    """NaN, and None and pandas' NA among labels."""
    return missing_values(values.ravel()).reshape(values.shape)


def _of_votes(P: np.ndarray, y: np.ndarray, classes: np.ndarray, task: str) -> tuple[np.ndarray | None, bool]:
    """The classes, None for regression, and whether the numbers are probabilities of the second of two."""
    numbers, numeric_classes = P.dtype.kind in "fiub", classes.dtype.kind in "fiub"
    votes = np.unique(P[~is_missing(P)])
    are_labels = numbers == numeric_classes and bool(np.isin(votes, classes).all())
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
    if numbers and (not numeric_classes or (votes != np.round(votes)).any()):
        raise ValueError(
            f"Predictions lie between {votes.min():g} and {votes.max():g}; y has the classes {classes[:10].tolist()}. "
            "Give labels of y, probabilities of the second of two classes (of scores, 1 / (1 + exp(-s))), or an array "
            '(n, members, classes); or predict numbers, with task="regression".'
        )
    if numbers != numeric_classes:
        raise TypeError(
            f"The predictions hold {P.dtype} and y {y.dtype}: give both as numbers, or both as words."
        )
    return np.union1d(classes, votes), False


def _of_scores(n_classes: int, classes: np.ndarray, given: bool) -> np.ndarray:
    """The classes that belong to the last axis."""
    if len(classes) == n_classes:
        return classes
    if not given and classes.dtype.kind in "iu" and classes.min() >= 0 and classes.max() < n_classes:
        return np.arange(n_classes)
    raise ValueError(
        f"Predictions are of {n_classes} classes, and y has {classes[:10].tolist()}: give classes=[...], in order."
    )
