"""Ensemble pruning: the few members of a fitted ensemble that predict as well as all, with new weights.

    f(x) = intercept + sum over kept k of w_k f_k(x),   w_k > 0                                  [tang, Ch. 4]

The members are chosen from their predictions for rows that they were not trained on, if these are known: those left
out of their bootstrap samples. Differs from [tang, Sec. 4.4], which takes predictions for training rows, where full
trees and nearest neighbours repeat the target. The formulas are in `member_selection`.

Cost: two predictions of every member for X, then O(n p^2 c^2 + p^3) for p members and c classes, six times: the
scores are found by leaving rows out of the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard, cast

import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from krepes.alignment.inputs import Numbers
from krepes.alignment.pruning.ensemble_members import (
    Ensemble,
    MemberOutputs,
    member_outputs,
    members_of,
    smaller_forest,
)
from krepes.alignment.pruning.held_out_scores import MANY, accuracies_alone, is_trained_on, judge
from krepes.alignment.pruning.member_selection import METHODS, select_members
from krepes.alignment.pruning.prediction_matrices import (
    TASKS,
    Classes,
    as_predictions,
    as_target,
    check_member_outputs,
    column_names,
    columns_of,
    target_columns,
)
from krepes.alignment.pruning.pruned_ensemble import PrunedEnsemble, Savings
from krepes.alignment.pruning.shrunk_weights import EQUAL
from krepes.base.estimators import FittedEnsemble
from krepes.base.reporting import warn
from krepes.base.validation import check_choice, check_count, check_same_rows

PREDICTIONS = ("auto", "out_of_bag", "given")


def prune_ensemble(
    ensemble: FittedEnsemble | Numbers,
    X: Any = None,
    y: Any = None,
    *,
    n_members: int | None = None,
    method: str = "shrunk",
    predictions: str = "auto",
    task: str = "auto",
    classes: Classes | None = None,
    names: Sequence[str] | None = None,
) -> PrunedEnsemble:
    """Keep the members of an ensemble that together predict the target, and give them new weights.

    Parameters
    ----------
    ensemble : fitted scikit-learn ensemble, or array
        Bagging, RandomForest, ExtraTrees, GradientBoosting, AdaBoost, Voting or Stacking, for regression or classes;
        it is not changed. Or predictions: (n, members) numbers, labels, or probabilities of the second of two
        classes; (n, members, classes) probabilities or scores. X is None then.
    X, y : rows and targets
        The training data of bagging and forests, in the order of `fit`, whose out-of-bag predictions are used. For
        other ensembles rows that they were not trained on: stages of boosting fit their training rows ever better, and
        none would be dropped.
    n_members : int or None, default=None
        How many members to keep at most. None keeps the fewest that cost nothing: from this number
        on, the squared error on rows left out stays within a percent of the least. These can be all.
    method : str, default="shrunk"
        "shrunk" adds members that help the others most, and weighs them between least squares and equally, by the
        error on rows left out. "forward" does so with equal weights; "best" keeps the members that predict best alone,
        "first" the first, with equal weights too. "stacking" is non-negative least squares with all members,
        "alignment" the same after a choice by kernel alignment, and "r2" keeps the one member that explains most.
    predictions : "auto", "out_of_bag" or "given", default="auto"
        "auto" is out of bag if members know their samples, X has as many rows as the training data, and members fit the
        rows of their samples better than others; as many rows that are not fitted so are taken for held-out rows,
        with a warning, because they could be the training rows in another order. Of an array "out_of_bag" says that
        missing values (NaN, None) are rows on which a member was trained.
    task : "auto", "regression" or "classification", default="auto"
        What an array of predictions is, if its numbers leave it open. "auto" takes numbers for labels if all are
        labels of y, and for probabilities if y has two classes and all are between 0 and 1; otherwise numeric y is
        regression, also 0 and 1 with scores beyond them. Not for an ensemble, which says what it is.
    classes : sequence, optional
        The classes of an array (n, members, classes), in the order of its last axis; by default sorted.
    names : sequence of str, optional
        Names of the members, for an array; a frame has its own.

    Returns
    -------
    PrunedEnsemble
        Predicts without the dropped members. `table_` has a row for every member; `score_` and `score_of_all_` say
        what dropping some of them costs. Warns if that is much, if no member is better than noise, and if the members
        seem to have been trained on the rows.

    Notes
    -----
    Stages of gradient boosting correct one another, so that leaving some out seldom pays: few are dropped.

    Examples
    --------
    There are three members; one repeats another, and one is noise:

    >>> y = np.array([1.0, 2.0, 3.0, 4.0])
    >>> noise = np.array([1.0, -1.0, -1.0, 1.0])
    >>> pruned = prune_ensemble(np.column_stack([noise, y / 2, y / 4]), y=y)
    >>> pruned.size_, pruned.predict([[7.0, 1.0, 0.5]]).round(12).tolist()
    (1, [2.0])
    """
    check_choice("method", method, METHODS)
    if n_members is not None:
        check_count("n_members", n_members)
    check_choice("predictions", predictions, PREDICTIONS)
    check_choice("task", task, TASKS)
    if y is None:
        raise ValueError("y is missing: members are chosen by how well they predict it.")
    whole = savings = None
    if _is_estimator(ensemble):
        if task != "auto" or classes is not None or names is not None:
            raise ValueError(
                f"task={task!r}, classes={classes!r}, names={names!r} are for arrays; an ensemble has its own."
            )
        parts, rows, y = _members(ensemble, X, y)
    else:
        parts, rows, y = _columns(cast(Numbers, ensemble), X, y, task, classes, names)
    names = [member.name for member in parts.members]
    target = target_columns(y, parts.classes)
    given = MemberOutputs(member_outputs(parts.members, rows), target, names=names)
    if _is_estimator(ensemble):
        given = _judged_by(given, parts, predictions)
        if given.usable is None:
            whole = _score(np.asarray(ensemble.predict(X)), y, parts.classes is None)
    elif predictions == "out_of_bag":
        given = replace(given, usable=~np.isnan(given.outputs).any(axis=2))
    check_member_outputs(given)
    selection = select_members(given, method, n_members)
    alone = selection.alone if parts.classes is None else accuracies_alone(given)
    scores = judge(given, selection, method, whole, n_members)
    kept = selection.weights > 0
    forest = None
    if _is_estimator(ensemble):
        savings = Savings.of(parts.members, kept)
        forest = smaller_forest(ensemble, kept) if selection.strength in EQUAL else None
    known = "given" if given.usable is None else "out_of_bag"
    pruned = PrunedEnsemble.of_members(parts, kept)
    return pruned.chosen(names, selection, alone, scores, method, known, savings, forest)


def _is_estimator(ensemble: FittedEnsemble | Numbers) -> TypeGuard[FittedEnsemble]:
    return hasattr(ensemble, "predict") or hasattr(ensemble, "fit")


def _score(predicted: np.ndarray, y: np.ndarray, numbers: bool) -> float:
    if not numbers:
        return float(accuracy_score(y, predicted))
    scale = np.abs(y).max()  # because squares of large numbers overflow
    return float(r2_score(y / scale, predicted / scale))


def _columns(
    P: Numbers, X: Any, y: Any, task: str, classes: Classes | None, names: Sequence[str] | None
) -> tuple[Ensemble, np.ndarray, np.ndarray]:
    """For an array of predictions: its columns as members, the predictions, and the targets."""
    if X is not None:
        raise ValueError("An array of predictions needs no X: prune_ensemble(predictions, y=y).")
    columns = column_names(P)
    P, y = as_predictions(P), as_target(y, numbers=False)
    check_same_rows(len(y), len(P), "y", "the array of predictions")
    parts = columns_of(P, y, task, classes, columns if names is None else names, columns)
    return parts, P, as_target(y, numbers=parts.classes is None)


def _members(ensemble: FittedEnsemble, X: Any, y: Any) -> tuple[Ensemble, Any, np.ndarray]:
    """For a fitted ensemble: its members, the rows that they take, and the targets."""
    parts = members_of(ensemble)
    if X is None:
        raise ValueError("X is missing: the members predict its rows.")
    everyone = PrunedEnsemble.of_members(parts, np.ones(len(parts.members), dtype=bool))
    X = everyone.checked(X, reset=parts.n_features is None)
    y = as_target(y, numbers=parts.classes is None)
    check_same_rows(len(y), X.shape[0] if hasattr(X, "shape") else len(X), "y")
    return parts, X, y


def _judged_by(given: MemberOutputs, parts: Ensemble, predictions: str) -> MemberOutputs:
    """The same, with the predictions that may be used; all, if the rows are not those of the training.

    Warns if the rows do not look like what they are taken for.
    """
    unseen = replace(given, usable=parts.unseen(len(given)))
    if unseen.usable is None:
        if predictions == "out_of_bag":
            trained = "unknown rows" if parts.n_rows is None else f"{parts.n_rows:,}"
            raise ValueError(
                f"X has {len(given):,} rows, and members were trained on {trained}: out-of-bag predictions need "
                'training rows that some members have not seen. For other rows use predictions="given".'
            )
        return given
    trained_on = is_trained_on(unseen)
    if predictions == "given":
        if trained_on and len(given) >= MANY:
            warn(
                'X seems to be the training data: predictions="out_of_bag" judges members by rows they have not seen.'
            )
        return given
    if trained_on:
        return unseen
    found = "X has as many rows as the training data, but members fit their own samples no better than others"
    if predictions == "out_of_bag":
        warn(f"{found}: is X the training data, in the order of fit?")
        return unseen
    warn(
        f'{found}: taken for held-out rows. Training data belong to predictions="out_of_bag", in their order.'
    )
    return given
