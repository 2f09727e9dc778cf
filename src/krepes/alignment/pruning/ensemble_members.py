"""The members of a fitted scikit-learn ensemble, each callable alone.

    bagging, forests    f_k(x) = what member k predicts: a number, or the probabilities of all classes
    gradient boosting   f_k(x) = learning rate x the trees of stage k (for classes: of the logits, centred over classes)
    AdaBoost            f_k(x) = the number, or the vote of member k as a row of zeros and a one
    voting, stacking    f_k(x) = as for bagging; votes if the voting is hard

Members are kept with what calling them needs: their columns of X, and the place of their classes among all classes,
because a member may have been trained on a sample that lacks some. The first prediction of gradient boosting is
constant by default, and the intercept of a pruned ensemble replaces it; an estimator given as `init` is a member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import sklearn.ensemble as ensembles
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

from krepes.base.estimators import FittedEnsemble, ProbabilisticClassifier

FOLDS = 5
_BAGGING = (ensembles.BaggingClassifier, ensembles.BaggingRegressor)
_FORESTS = (
    ensembles.RandomForestClassifier,
    ensembles.RandomForestRegressor,
    ensembles.ExtraTreesClassifier,
    ensembles.ExtraTreesRegressor,
)
_GRADIENT = (ensembles.GradientBoostingClassifier, ensembles.GradientBoostingRegressor)
_HISTOGRAM = (ensembles.HistGradientBoostingClassifier, ensembles.HistGradientBoostingRegressor)
_ADABOOST = (ensembles.AdaBoostClassifier, ensembles.AdaBoostRegressor)
_NAMED = (
    ensembles.VotingClassifier,
    ensembles.VotingRegressor,
    ensembles.StackingClassifier,
    ensembles.StackingRegressor,
)


class Member(Protocol):
    """A part of an ensemble that predicts alone."""

    @property
    def name(self) -> str: ...

    def outputs(self, X: Any) -> np.ndarray:
        """What it predicts: (n, 1) numbers or (n, n_classes)."""


@dataclass(frozen=True)
class EstimatorMember:
    """An estimator of an ensemble.

    Attributes
    ----------
    name : the member's name.
    estimator : the fitted estimator.
    n_classes : number of classes of the ensemble; 0 for regression.
    codes : places of the estimator's classes among the ensemble's, None for regression.
    votes : whether it votes instead of giving probabilities.
    features : the columns of X that it takes, None for all.
    """

    name: str
    estimator: ProbabilisticClassifier
    n_classes: int = 0
    codes: np.ndarray | None = None
    votes: bool = False
    features: np.ndarray | None = None

    def outputs(self, X: Any) -> np.ndarray:
        """What it predicts: (n, 1) numbers or (n, n_classes)."""
        X = X if self.features is None else X[:, self.features]
        if self.codes is None:
            return np.asarray(self.estimator.predict(X), dtype=np.float64).reshape(-1, 1)
        if self.votes:
            own = np.asarray(self.estimator.predict(X))
            chosen = (own[:, None] == np.asarray(self.estimator.classes_)).astype(np.float64)
        else:
            chosen = self.estimator.predict_proba(X)
        found = np.zeros((len(chosen), self.n_classes))
        found[:, self.codes] = chosen
        return found


@dataclass(frozen=True)
class StageMember:
    """A stage of gradient boosting: one tree, or one per class; X is in single precision, as trees take it."""

    name: str
    trees: tuple[DecisionTreeRegressor, ...]
    learning_rate: float
    n_classes: int = 0

    def outputs(self, X: Any) -> np.ndarray:
        """What the stage adds: to the number (n, 1), or to the logits of the classes, centred (n, n_classes)."""
        # The tree itself, because an estimator checks X again, which takes longer than a small tree.
        raw = self.learning_rate * np.hstack([tree.tree_.predict(X) for tree in self.trees])
        if self.n_classes == 2:
            return np.column_stack([-raw, raw]) / 2
        return raw - raw.mean(axis=1, keepdims=True) if self.n_classes else raw


def member_outputs(members: Sequence[Member], X: Any) -> np.ndarray:
    """(n, p, c) predictions of all members."""
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn refuses what overflows float32
        return np.stack([member.outputs(X) for member in members], axis=1)


@dataclass(frozen=True, eq=False)
class MemberOutputs:
    """Predictions of members beside the target: what members are chosen, weighed and judged by.

    Attributes
    ----------
    outputs : (n, p, c)
    target : (n, c)
    usable : (n, p), True where a member was not trained on a row; None is everywhere.
    names : of the members, for messages; their numbers where there are none.
    """

    outputs: np.ndarray
    target: np.ndarray
    usable: np.ndarray | None = None
    names: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, rows: np.ndarray) -> MemberOutputs:
        usable = None if self.usable is None else self.usable[rows]
        return replace(self, outputs=self.outputs[rows], target=self.target[rows], usable=usable)

    @cached_property
    def seen(self) -> np.ndarray:
        """(n, p), 1 where a prediction may be used, 0 elsewhere."""
        return np.ones(self.outputs.shape[:2]) if self.usable is None else self.usable.astype(np.float64)

    @property
    def filled(self) -> np.ndarray:
        """The predictions, with 0 in the place of those that may not be used."""
        return np.where(self.seen[:, :, None] > 0, self.outputs, 0.0)

    def name(self, k: int) -> str:
        return str(k) if self.names is None else self.names[k]

    def folds(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Masks of the rows to learn from and of the others, (n,) each, five times."""
        n_folds = min(FOLDS, len(self))
        fold = np.random.default_rng(0).permutation(len(self)) % n_folds
        for part in range(n_folds):
            yield fold != part, fold == part


@dataclass(frozen=True)
class Ensemble:
    """Members, and what is known about the data that they were trained on.

    Attributes
    ----------
    members : list
    classes : the classes, in the order of the columns of outputs; None for regression.
    samples : rows of the training data that each member saw, None if it is not known.
    n_rows : number of training rows; None if it is not known.
    n_features, feature_names : of X.
    whole : whether members take X as it is given (a frame, for instance), not as an array.
    """

    members: Sequence[Member]
    classes: np.ndarray | None
    samples: list[np.ndarray] | None = None
    n_rows: int | None = None
    n_features: int | None = None
    feature_names: np.ndarray | None = None
    whole: bool = False

    def unseen(self, n: int) -> np.ndarray | None:
        """(n, p), True where a member was not trained on a row; None if that is unknown, or true nowhere."""
        if self.samples is None or n != self.n_rows:
            return None
        usable = np.ones((n, len(self.samples)), dtype=bool)
        for k, rows in enumerate(self.samples):
            usable[rows, k] = False
        return usable if usable.any() else None


def members_of(ensemble: FittedEnsemble) -> Ensemble:
    """Take a fitted ensemble apart."""
    _check_kind(ensemble)
    check_is_fitted(ensemble)
    classes = ensemble.classes_ if is_classifier(ensemble) else None
    if isinstance(classes, list) or getattr(ensemble, "n_outputs_", 1) > 1:
        raise ValueError(
            f"{type(ensemble).__name__} predicts several targets: prune one ensemble per target."
        )
    if classes is not None and len(classes) < 2:
        raise ValueError(
            f"The ensemble knows one class only, {classes.tolist()[0]!r}; at least two are needed."
        )
    if isinstance(ensemble, _GRADIENT):
        members = _gradient_stages(ensemble, classes)
    else:
        members = _estimators(ensemble, classes)
    samples = _samples(ensemble)
    n_rows = None if samples is None else 1 + max(rows.max() for rows in samples)
    return Ensemble(
        members,
        classes,
        samples,
        getattr(ensemble, "_n_samples", n_rows),
        getattr(ensemble, "n_features_in_", None),
        getattr(ensemble, "feature_names_in_", None),
        isinstance(ensemble, _NAMED),
    )


def smaller_forest(ensemble: FittedEnsemble, kept: np.ndarray) -> FittedEnsemble | None:
    """A copy of a forest with some of its trees; None for other ensembles."""
    if not isinstance(ensemble, _FORESTS):
        return None
    forest = copy(ensemble)
    forest.estimators_ = [tree for tree, keep in zip(ensemble.estimators_, kept) if keep]
    forest.n_estimators = len(forest.estimators_)
    return forest


def _check_kind(ensemble: FittedEnsemble) -> None:
    name = type(ensemble).__name__
    if isinstance(ensemble, _HISTOGRAM):
        raise TypeError(
            f"{name} does not give its trees one by one: use GradientBoosting, or fewer iterations."
        )
    if not isinstance(ensemble, (*_BAGGING, *_FORESTS, *_GRADIENT, *_ADABOOST, *_NAMED)):
        raise TypeError(
            f"{name} cannot be pruned. Give a fitted ensemble (the one inside of a pipeline): Bagging, RandomForest, "
            "ExtraTrees, GradientBoosting, AdaBoost, Voting, Stacking; or predictions, (n, members)."
        )
    if getattr(ensemble, "loss", None) == "quantile":
        raise ValueError(
            "A pruned ensemble is fitted by least squares, which predicts means: quantiles cannot be pruned."
        )


def _samples(ensemble: FittedEnsemble) -> list[np.ndarray] | None:
    """The rows that each member was trained on, where members have seen different rows."""
    if not isinstance(ensemble, (*_BAGGING, *_FORESTS)):
        return None
    if isinstance(ensemble, _FORESTS) and not ensemble.bootstrap:
        return None
    samples = list(ensemble.estimators_samples_)
    # With warm_start scikit-learn knows the samples of the last members only.
    return samples if len(samples) == len(ensemble.estimators_) else None


def _estimators(ensemble: FittedEnsemble, classes: np.ndarray | None) -> list[Member]:
    estimators = list(ensemble.estimators_)
    names = [str(k) for k in range(len(estimators))]
    if isinstance(ensemble, _NAMED):
        names = [name for name, estimator in ensemble.estimators if not isinstance(estimator, str)]
    columns: list[np.ndarray | None] = [None] * len(estimators)
    if isinstance(ensemble, _BAGGING):
        everything = np.arange(ensemble.n_features_in_)
        if not all(np.array_equal(features, everything) for features in ensemble.estimators_features_):
            columns = list(ensemble.estimators_features_)
    if classes is None:
        return [EstimatorMember(n, e, features=f) for n, e, f in zip(names, estimators, columns)]
    boosted = isinstance(ensemble, ensembles.AdaBoostClassifier)
    hard = boosted or getattr(ensemble, "voting", "") == "hard"
    encoded = not boosted and getattr(ensemble, "cv", None) != "prefit"
    found: list[Member] = []
    for name, estimator, features in zip(names, estimators, columns):
        codes = _places(estimator.classes_, classes, encoded)
        votes = hard or not hasattr(estimator, "predict_proba")
        found.append(EstimatorMember(name, estimator, len(classes), codes, votes, features))
    return found


def _places(own: ArrayLike, classes: np.ndarray, encoded: bool) -> np.ndarray:
    """Where a member's classes stand among all: it was trained on their codes, or on the labels themselves."""
    return np.asarray(own).astype(np.int64) if encoded else np.searchsorted(classes, own)


def _gradient_stages(
    ensemble: ensembles.GradientBoostingClassifier | ensembles.GradientBoostingRegressor,
    classes: np.ndarray | None,
) -> list[Member]:
    n_classes = 0 if classes is None else len(classes)
    stages: list[Member] = [
        StageMember(f"stage {k}", tuple(trees), ensemble.learning_rate, n_classes)
        for k, trees in enumerate(ensemble.estimators_)
    ]
    first = ensemble.init_
    if isinstance(first, DummyClassifier | DummyRegressor | str):
        return stages
    codes = None if classes is None else _places(first.classes_, classes, encoded=True)
    return [EstimatorMember("init", first, n_classes, codes), *stages]
