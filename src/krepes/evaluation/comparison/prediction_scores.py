"""Scores of predictions, of their probabilities, and of what else could be trained on the same rows.

    accuracy, balanced accuracy, log loss = -mean log p(y), calibration error (ECE)          of classes
    R^2, root of the mean squared error, mean absolute error                                 of a quantity

A machine that is tested on new rows stands beside other methods that are trained on the rows kept with it. Tested on
the rows that it was trained on, it stands there with the predictions of the fits without each fold, and the others are
fitted without the same folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor

from krepes.base.estimators import Predictor, ProbabilisticClassifier
from krepes.evaluation.comparison.baselines import baseline_estimators
from krepes.evaluation.comparison.verdict import LEAST, Difference
from krepes.evaluation.linear import LinearClassifier, linear_probe
from krepes.evaluation.probe_result import probe_scores, regression_scores
from krepes.evaluation.scoring import jackknife_error, rows_without_groups
from krepes.regression.calibration import expected_calibration_error
from krepes.regression.ridge import LeaveOneOutRidge

LEAST_PROBABILITY = 1e-15
MACHINE = "this machine"
FLOORS = {"classification": "always the most frequent class", "regression": "always the mean"}


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a method predicts of n rows: codes of classes, or numbers.

    Attributes
    ----------
    values : ndarray of shape (n,)
    probabilities : ndarray of shape (n, c) or None
    """

    values: np.ndarray
    probabilities: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Predicted:
        return Predicted(self.values[rows], None if self.probabilities is None else self.probabilities[rows])

    def scores(self, y: np.ndarray, n_classes: int | None) -> dict[str, float]:
        """All scores by name; the first is the one that is compared. y holds codes of classes, or numbers.

        >>> Predicted(np.array([0, 1]), np.array([[0.5, 0.5], [0.5, 0.5]])).scores(np.array([0, 1]), 2)["log_loss"]
        0.6931471805599453
        """
        if n_classes is None:
            found = regression_scores(self.values, y)
            rmse = float(np.sqrt(np.square(self.values - y).mean()))
            return {
                "r2": found["r2"],
                "root_mean_squared_error": rmse,
                "mean_absolute_error": found["mean_absolute_error"],
            }
        found = probe_scores(self.values, y, np.arange(n_classes))
        scores = {name: found[name] for name in ("accuracy", "balanced_accuracy")}
        P = self.probabilities
        if P is None:
            return scores
        likely = P[np.arange(len(y)), y].clip(min=LEAST_PROBABILITY)
        return scores | {
            "log_loss": float(-np.log(likely).mean()),
            "calibration_error": expected_calibration_error(P.clip(0, 1), y),
        }


@dataclass(frozen=True, eq=False)
class ScoredPredictions:
    """Predictions of several methods for the same rows, the machine's first.

    Attributes
    ----------
    predicted : {name: Predicted}
    y : ndarray of shape (n,)
    n_classes : int or None
    """

    predicted: Mapping[str, Predicted]
    y: np.ndarray
    n_classes: int | None

    @property
    def metric(self) -> str:
        return "r2" if self.n_classes is None else "accuracy"

    def scores(self) -> dict[str, dict[str, float]]:
        return {name: each.scores(self.y, self.n_classes) for name, each in self.predicted.items()}

    def without_groups(self, name: str) -> np.ndarray:
        """The score that is compared, without each of ten groups of the rows."""
        each, parts = self.predicted[name], rows_without_groups(len(self.y))
        return np.array([each.take(rows).scores(self.y[rows], self.n_classes)[self.metric] for rows in parts])

    def error(self, name: str) -> float:
        """The standard error of a method's score by the choice of rows."""
        return jackknife_error(self.without_groups(name))

    def differences(self) -> list[Difference]:
        """The machine minus each of the others, on the same rows."""
        scores, ours = self.scores(), self.without_groups(MACHINE)
        return [
            Difference(
                name,
                self.metric,
                scores[MACHINE][self.metric] - found[self.metric],
                jackknife_error(ours - self.without_groups(name)),
                LEAST,
            )
            for name, found in scores.items()
            if name != MACHINE
        ]

    def verdict(self) -> str:
        """The machine beside the best of the others, in a sentence.

        >>> y = np.arange(100) % 2
        >>> told = {MACHINE: Predicted(y), "gradient boosting": Predicted(np.zeros(100, dtype=int))}
        >>> ScoredPredictions(told, y, 2).verdict()
        'This machine is better than gradient boosting, the best of the others, by 50.0 points.'
        """
        best = min(self.differences(), key=lambda other: other.mean, default=None)
        if best is None:
            return "There is nothing to compare the machine with."
        other = f"{best.name}, the best of the others,"
        if best.sign > 0:
            return f"This machine is better than {other} by {best.words()}."
        if best.sign < 0:
            name = best.name[:1].upper() + best.name[1:]
            return f"{name} is better than this machine by {best.words()}."
        return f"This machine and {other} are level ({best.words(signed=True)}): chance can explain the difference."


def rivals(task: str, n_labels: int, *, raw: bool = True, baselines: bool = False) -> dict[str, Predictor]:
    """Unfitted estimators by name: a linear method, with `baselines` trees and more, and a constant."""
    classes = task == "classification"
    found: dict[str, Predictor] = {}
    if raw:
        name = "logistic regression" if classes else "ridge regression"
        found[f"raw features, {name}"] = LinearProbe() if classes else LeaveOneOutRidge()
    if baselines:
        found |= baseline_estimators(task, n_labels)
    floor = DummyClassifier(strategy="prior") if classes else DummyRegressor()
    return found | {FLOORS[task]: floor}


def fitted_elsewhere(
    estimators: Mapping[str, Predictor], X: np.ndarray, y: np.ndarray, classes: int | None
) -> Callable[[np.ndarray], dict[str, Predicted]]:
    """Fit all on some rows; a function that predicts others."""
    fitted = {name: clone(each).fit(X, y) for name, each in estimators.items()}
    return lambda rows: {name: predicted_by(each, rows, classes) for name, each in fitted.items()}


def out_of_fold(
    estimators: Mapping[str, Predictor],
    X: np.ndarray,
    y: np.ndarray,
    folds: np.ndarray,
    classes: int | None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Predicted]:
    """Predictions of every row by fits without its fold."""
    parts: dict[str, list[Predicted]] = {name: [] for name in estimators}
    places = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    for rows in places:
        others = np.setdiff1d(np.arange(len(y)), rows)
        predict = fitted_elsewhere(estimators, X[others], y[others], classes)
        for name, found in predict(X[rows]).items():
            parts[name].append(found)
        if progress is not None:
            progress(len(estimators))
    order = np.argsort(np.concatenate(places))
    return {name: all_predicted(found).take(order) for name, found in parts.items()}


def predicted_by(
    estimator: Predictor | ProbabilisticClassifier, X: np.ndarray, n_classes: int | None
) -> Predicted:
    """What a fitted estimator says of rows; classes that it has not seen have probability 0."""
    values = np.asarray(estimator.predict(X))
    if n_classes is None or not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
        return Predicted(values)
    P = np.zeros((len(X), n_classes))
    P[:, np.asarray(estimator.classes_, dtype=np.int64)] = estimator.predict_proba(X)
    return Predicted(values, P)


def all_predicted(parts: Iterable[Predicted]) -> Predicted:
    """Predictions one after the other."""
    found = list(parts)
    P = [each.probabilities for each in found if each.probabilities is not None]
    return Predicted(
        np.concatenate([each.values for each in found]), np.concatenate(P) if len(P) == len(found) else None
    )


class LinearProbe(ClassifierMixin, BaseEstimator):
    """`linear_probe` as an estimator: logistic regression whose strength is chosen on a part of the rows."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> LinearProbe:
        self.classifier_: LinearClassifier = linear_probe(X, y, X[:1], y[:1]).classifier
        self.classes_ = self.classifier_.classes
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classifier_.predict(X)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.classifier_.predict_proba(X)
