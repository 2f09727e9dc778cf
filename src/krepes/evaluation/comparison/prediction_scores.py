"""Scores of predictions, of their probabilities, and of what else could be trained on the same rows.

    accuracy, balanced accuracy, log loss = -mean log p(y), calibration error (ECE)          of classes
    R^2, root of the mean squared error, mean absolute error                                 of a quantity

A machine that is tested on new rows stands beside other methods that are trained on the rows kept with it. Tested on
the rows that it was trained on, it stands there with the predictions of the fits without each fold, and the others are
fitted without the same folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier, DummyRegressor

from krepes.base.estimators import Predictor
from krepes.evaluation.budget import Budget
from krepes.evaluation.comparison.baselines import baseline_estimators
from krepes.evaluation.comparison.verdict import LEAST, Difference
from krepes.evaluation.linear import C_GRID, LinearClassifier, linear_probe
from krepes.evaluation.probe_result import basic_scores
from krepes.evaluation.scoring import jackknife_error, rows_without_groups
from krepes.regression.calibration import expected_calibration_error
from krepes.regression.ridge import LeaveOneOutRidge

Fit = Callable[[np.ndarray, np.ndarray], Any]  # rows and targets -> what predicts

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
        scores = basic_scores(self.values, y, quantity=n_classes is None)
        if n_classes is None:
            return scores | {"root_mean_squared_error": float(np.sqrt(np.square(self.values - y).mean()))}
        if self.probabilities is None:
            return scores
        likely = self.probabilities[np.arange(len(y)), y].clip(min=LEAST_PROBABILITY)
        return scores | {
            "log_loss": float(-np.log(likely).mean()),
            "calibration_error": expected_calibration_error(self.probabilities.clip(0, 1), y),
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


@dataclass(frozen=True, eq=False)
class Rivals:
    """Other methods for the rows that a machine was trained on.

    Attributes
    ----------
    fits : {name: function that fits}
    budget : Budget
    n_fits : int
        How often each is fitted.
    notes : list of str
        What was left out, or cut short.
    C_grid : list of float
        For the linear method.
    """

    fits: dict[str, Fit]
    budget: Budget
    n_fits: int
    notes: list[str]
    C_grid: list[Any] = field(default_factory=lambda: list(C_GRID))

    @classmethod
    def of(
        cls,
        task: str,
        n_labels: int,
        *,
        raw: bool = True,
        baselines: bool = False,
        budget: Budget | None = None,
        n_fits: int = 1,
    ) -> Rivals:
        """A linear method, with `baselines` trees and more, and a constant."""
        classes = task == "classification"
        found = cls({}, budget or Budget(), n_fits, [])
        if raw:
            name = "logistic regression" if classes else "ridge regression"
            found.fits[f"raw features, {name}"] = found._linear if classes else LeaveOneOutRidge().fit
        if baselines:
            found.fits.update({name: each.fit for name, each in baseline_estimators(task, n_labels).items()})
        floor = DummyClassifier(strategy="prior") if classes else DummyRegressor()
        found.fits[FLOORS[task]] = floor.fit
        return found

    def words(self) -> str:
        return "Fitting others" + (f", {self.budget.seconds:g} s at most" if self.budget.limited else "")

    def _linear(self, X: np.ndarray, y: np.ndarray) -> LinearClassifier:
        """C is chosen in the first fit and kept for the others."""
        found = linear_probe(X, y, X[:1], y[:1], C_grid=self.C_grid, budget=self.budget.part(1 + self.n_fits))
        self.notes.extend(found.notes)
        self.C_grid[:] = [found.chosen["C"]]
        return found.model

    def affordable(self, X: np.ndarray, y: np.ndarray) -> dict[str, Fit]:
        """The methods for which there is time, the constant always; a note on each of the others."""
        *others, floor = self.fits
        kept, some = {}, np.random.default_rng(0).permutation(len(y))
        for name in others:
            fit = self.fits[name]
            trial = None if fit == self._linear else partial(_on_some, fit, X, y, some)
            if why := self.budget.refusal(len(y), self.n_fits, trial):
                self.notes.append(f"{name} was left out: {why}")
            else:
                kept[name] = fit
        return kept | {floor: self.fits[floor]}


def _on_some(fit: Fit, X: np.ndarray, y: np.ndarray, order: np.ndarray, n: int) -> None:
    fit(X[order[:n]], y[order[:n]])


def fitted_elsewhere(
    rivals: Rivals, X: np.ndarray, y: np.ndarray, classes: int | None
) -> Callable[[np.ndarray], dict[str, Predicted]]:
    """Fit all on some rows; a function that predicts others."""
    fitted = {name: fit(X, y) for name, fit in rivals.affordable(X, y).items()}
    return lambda rows: {name: predicted_by(each, rows, classes) for name, each in fitted.items()}


def out_of_fold(
    rivals: Rivals,
    X: np.ndarray,
    y: np.ndarray,
    folds: np.ndarray,
    classes: int | None,
    progress: Callable[[int], None],
) -> dict[str, Predicted]:
    """Predictions of every row by fits without its fold."""
    keys, order, budget = np.unique(folds), np.argsort(np.argsort(folds, kind="stable")), rivals.budget
    found = {}
    for name, fit in rivals.affordable(X, y).items():
        parts, longest = [], 0.0
        for i, fold in enumerate(keys):
            if longest and (why := budget.lack((len(keys) - i) * longest)):
                rivals.notes.append(f"{name} was left out: {why}")
                break
            start = budget.clock()
            parts.append(predicted_by(fit(X[folds != fold], y[folds != fold]), X[folds == fold], classes))
            if name not in FLOORS.values() and (i or fit != rivals._linear):  # whose first fit chooses C
                longest = max(longest, budget.clock() - start)
            progress(1)
        else:
            found[name] = all_predicted(parts).take(order)
    return found


def predicted_by(estimator: Predictor, X: np.ndarray, n_classes: int | None) -> Predicted:
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
