"""Ensemble pruning: the few members of a fitted ensemble that predict as well as all, with new weights.

    f(x) = intercept + sum over kept k of w_k f_k(x),   w_k > 0                                  [tang, Ch. 4]

The members are chosen from their predictions for rows that they were not trained on, where such are known: those left
out of their bootstrap samples. Differs from [tang, Sec. 4.4], which takes predictions for training rows; those of full
trees or nearest neighbours repeat the target. The formulas are in `member_selection`.

Cost: one prediction of every member for X, then O(n p^2 c^2 + p^3) for p members and c classes.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.alignment.ensemble_members import Ensemble, members_of
from krepes.alignment.inputs import check_same_rows
from krepes.alignment.member_selection import METHODS, Selection, select_members
from krepes.alignment.prediction_matrices import TASKS, as_predictions, columns_of
from krepes.alignment.pruned_ensemble import PrunedEnsemble
from krepes.alignment.pruning_targets import labels_or_numbers, target_columns, target_numbers

PREDICTIONS = ("auto", "out_of_bag", "given")


@dataclass(frozen=True)
class MemberRow:
    """What became of a member.

    Attributes
    ----------
    index : place in the ensemble.
    name : as the ensemble has it: a number, "stage 3", or the name given in voting and stacking.
    kept : bool
    weight : of its predictions in the pruned ensemble.
    score : R^2, or accuracy, of the pruned ensemble that would keep it alone, on the rows of the choice.
    alignment : centred alignment with the target, alone; NaN if it is constant. For regression this is `score`.
    reason : why it was kept or dropped.
    """

    index: int
    name: str
    kept: bool
    weight: float
    score: float
    alignment: float
    reason: str


@dataclass(frozen=True)
class Savings:
    """What the ensemble cost before and after: bytes as pickled, seconds to predict the rows of the choice."""

    bytes_before: int
    bytes_after: int
    seconds_before: float
    seconds_after: float

    def __str__(self) -> str:
        memory = 1 - self.bytes_after / max(self.bytes_before, 1)
        seconds = 1 - self.seconds_after / max(self.seconds_before, 1e-9)
        return f"{memory:.0%} of the memory and {seconds:.0%} of the time of prediction saved"


def prune_ensemble(
    ensemble: Any,
    X: Any = None,
    y: Any = None,
    *,
    method: str = "alignment",
    predictions: str = "auto",
    task: str = "auto",
    classes: Any = None,
    names: Any = None,
) -> PrunedEnsemble:
    """Keep the members of an ensemble that predict the target together, and weigh them anew.

    Parameters
    ----------
    ensemble : fitted scikit-learn ensemble, or array
        Bagging, RandomForest, ExtraTrees, GradientBoosting, AdaBoost, Voting or Stacking, for regression or classes;
        it is not changed. Or predictions: (n, members) numbers, labels, or probabilities of the second of two
        classes; (n, members, classes) probabilities. X is None then.
    X, y : rows and targets
        The training data of bagging and forests, whose out-of-bag predictions are used. For other ensembles rows that
        they were not trained on: stages of boosting fit their training rows ever better, and none would be dropped.
    method : "alignment", "stacking" or "r2", default="alignment"
        "alignment" chooses members by kernel alignment and weighs them by non-negative least squares, "stacking" does
        the second step with all members, "r2" keeps the one member that explains most.
    predictions : "auto", "out_of_bag" or "given", default="auto"
        "auto" is out of bag if members know their samples and X has as many rows as the training data. Of an array
        "out_of_bag" says that missing values (NaN, None) are rows on which a member was trained.
    task : "auto", "regression" or "classification", default="auto"
        What an array of predictions is, if its numbers leave it open.
    classes : sequence, optional
        Of an array (n, members, classes), in the order of its columns; the sorted labels of y by default.
    names : sequence of str, optional
        Of the columns of an array.

    Returns
    -------
    PrunedEnsemble
        Predicts without the dropped members, and tells about all of them in `table_`.

    Examples
    --------
    Of three members one repeats another and one is noise:

    >>> y = np.array([1.0, 2.0, 3.0, 4.0])
    >>> noise = np.array([1.0, -1.0, -1.0, 1.0])
    >>> pruned = prune_ensemble(np.column_stack([noise, y / 2, y / 4]), y=y)
    >>> pruned.size_, pruned.predict([[7.0, 1.0, 0.5]]).round(12).tolist()
    (1, [2.0])
    """
    options = ((method, "method", METHODS), (predictions, "predictions", PREDICTIONS), (task, "task", TASKS))
    for value, name, known in options:
        if value not in known:
            raise ValueError(f"{name}={value!r}: expected {', '.join(map(repr, known))}.")
    if y is None:
        raise ValueError("y is missing: members are chosen by how well they predict it.")
    if _is_array(ensemble):
        parts, X, y = _columns(ensemble, X, y, task, classes, names)
        outputs, seconds = member_outputs(parts, X)
        usable = np.isfinite(outputs).all(axis=2) if predictions == "out_of_bag" else None
    else:
        parts, X, y = _members(ensemble, X, y)
        usable = out_of_bag_rows(parts, len(y), predictions)
        outputs, seconds = member_outputs(parts, X)
    _check_finite(outputs, usable, parts)
    target = target_columns(y, parts.classes)
    selection = select_members(outputs, target, usable, method, [member.name for member in parts.members])
    kept = selection.weights > 0
    pruned = predictor_of(parts, kept).with_weights(selection.weights[kept], selection.intercept)
    scores = selection.alone if parts.classes is None else _accuracies(outputs, target, usable)
    pruned.table_ = _table(parts, selection, scores)
    pruned.n_members_, pruned.method_, pruned.optimality_ = len(kept), method, selection.optimality
    pruned.predictions_ = "given" if usable is None else "out_of_bag"
    pruned.savings_ = None if _is_array(ensemble) else _savings(parts, kept, seconds)
    return pruned


def _is_array(ensemble: Any) -> bool:
    return not hasattr(ensemble, "predict") and not hasattr(ensemble, "fit")


def _columns(
    P: Any, X: Any, y: Any, task: str, classes: Any, names: Any
) -> tuple[Ensemble, np.ndarray, np.ndarray]:
    """Members that are columns of predictions, these, and the targets."""
    if X is not None:
        raise ValueError("With an array of predictions X has no part: prune_ensemble(predictions, y=y).")
    P, y = as_predictions(P), labels_or_numbers(y)
    check_same_rows(len(y), len(P), "y", "the predictions")
    parts = columns_of(P, y, task, classes, names)
    return parts, P, y if parts.classes is not None else target_numbers(y)


def _members(ensemble: Any, X: Any, y: Any) -> tuple[Ensemble, Any, np.ndarray]:
    """Members of a fitted ensemble, the rows that they take, and the targets."""
    parts = members_of(ensemble)
    if X is None:
        raise ValueError("X is missing: the members predict its rows.")
    X = predictor_of(parts, np.ones(len(parts.members), dtype=bool)).checked(
        X, reset=parts.n_features is None
    )
    y = labels_or_numbers(y) if parts.classes is not None else target_numbers(y)
    check_same_rows(len(y), X.shape[0] if hasattr(X, "shape") else len(X), "y")
    return parts, X, y


def predictor_of(parts: Ensemble, kept: np.ndarray) -> PrunedEnsemble:
    """Some of the members, that take what the ensemble took."""
    found = PrunedEnsemble([m for m, keep in zip(parts.members, kept) if keep], parts.classes, parts.whole)
    if parts.n_features is not None:
        found.n_features_in_ = parts.n_features
    if parts.feature_names is not None:
        found.feature_names_in_ = parts.feature_names
    return found


def out_of_bag_rows(parts: Ensemble, n: int, predictions: str) -> np.ndarray | None:
    """(n, p), True where a member was not trained on a row; None where given predictions are to be used."""
    same = parts.samples is not None and n == parts.n_rows
    if predictions == "given" or (predictions == "auto" and not same):
        return None
    if parts.samples is None:
        raise ValueError(
            "The ensemble does not know which rows each member was trained on: give rows that none has seen, with "
            'predictions="given".'
        )
    if not same:
        raise ValueError(
            f"X has {n:,} rows and the ensemble was trained on {parts.n_rows:,}: out-of-bag predictions are of the "
            'training rows, in their order. For other rows use predictions="given".'
        )
    usable = np.ones((n, len(parts.samples)), dtype=bool)
    for k, rows in enumerate(parts.samples):
        usable[rows, k] = False
    if predictions == "auto" and not usable.any():
        return None
    return usable


def member_outputs(parts: Ensemble, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n, p, c) predictions of all members, and the seconds that each took."""
    found, seconds = [], []
    for member in parts.members:
        start = time.perf_counter()
        found.append(member.outputs(X))
        seconds.append(time.perf_counter() - start)
    return np.stack(found, axis=1), np.array(seconds)


def _check_finite(outputs: np.ndarray, usable: np.ndarray | None, parts: Ensemble) -> None:
    missing = (
        ~np.isfinite(outputs).all(axis=2) if usable is None else ~np.isfinite(outputs).all(axis=2) & usable
    )
    if missing.any():
        row, k = np.argwhere(missing)[0]
        raise ValueError(
            f"{missing.sum():,} of {missing.size:,} predictions are missing or infinite (the first is of member "
            f"{parts.members[k].name}, row {row:,}). If an array has gaps where members were trained on a row, say "
            'predictions="out_of_bag".'
        )


def _accuracies(outputs: np.ndarray, target: np.ndarray, usable: np.ndarray | None) -> np.ndarray:
    """Of the pruned ensemble that would keep one member alone, in the rows that this member may be judged by."""
    found = np.empty(outputs.shape[1])
    for k in range(len(found)):
        rows = slice(None) if usable is None else usable[:, k]
        F, Y = outputs[rows, k], target[rows]
        centred, mean = F - F.mean(axis=0), Y.mean(axis=0)
        slope = max(float((centred * (Y - mean)).sum()), 0.0) / max(float(np.square(centred).sum()), 1e-300)
        found[k] = (np.argmax(mean + slope * centred, axis=1) == np.argmax(Y, axis=1)).mean()
    return found


def _table(parts: Ensemble, selection: Selection, scores: np.ndarray) -> list[MemberRow]:
    return [
        MemberRow(k, member.name, bool(weight > 0), float(weight), float(score), float(alignment), reason)
        for k, (member, weight, score, alignment, reason) in enumerate(
            zip(parts.members, selection.weights, scores, selection.alignment, selection.reasons)
        )
    ]


class _Counter:
    """Counts the bytes that are written to it."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.count += size
        return size


def _savings(parts: Ensemble, kept: np.ndarray, seconds: np.ndarray) -> Savings | None:
    """None where the members cannot be pickled."""
    sizes = []
    for member in parts.members:
        counter = _Counter()
        try:
            pickle.Pickler(counter, protocol=5).dump(member)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None
        sizes.append(counter.count)
    total = np.array(sizes)
    return Savings(int(total.sum()), int(total[kept].sum()), float(seconds.sum()), float(seconds[kept].sum()))
