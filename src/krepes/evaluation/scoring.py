"""Scores of the test rows by scikit-learn's names, and how much of a score is owed to which rows were tested.

The error of a score by the choice of test rows is that of a jackknife over groups of them: the score is computed
without each of G groups, and

    error^2 = (G - 1) / G  sum_g (s_g - mean s)^2

which holds for any smooth score. For accuracies it is the binomial error, up to the chance in G groups; of a difference
of two scores on the same rows it is the paired error.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from krepes.evaluation.probe_result import ProbeResult, basic_scores
from krepes.evaluation.scorer_tags import CLASSIFIER, REGRESSOR

Scores = Callable[[np.ndarray], dict[str, float]]  # of a part of the test rows, given by their numbers

GROUPS = 10


def check_scoring(name: str) -> str:
    """The name of a scorer, or an error with the names that are near.

    >>> check_scoring("roc_acu")
    Traceback (most recent call last):
    ...
    ValueError: scoring='roc_acu': scikit-learn has no scorer of that name. Did you mean roc_auc, ...?
    """
    known = get_scorer_names()
    if name in known:
        return name
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    hint = f"Did you mean {', '.join(near)}?" if near else f"There are {', '.join(known)}."
    raise ValueError(f"scoring={name!r}: scikit-learn has no scorer of that name. {hint}")


def measured(
    result: ProbeResult[Any], Z_test: np.ndarray, y_test: np.ndarray, scoring: str | None
) -> tuple[ProbeResult[Any], dict[str, np.ndarray]]:
    """The result with the score of that name; and all its scores without each group of test rows."""
    quantity = len(result.classes) == 0
    truth, told = y_test, result.predicted
    if not quantity:
        truth, told = np.searchsorted(result.classes, truth), np.searchsorted(result.classes, told)
    scorer = None if scoring is None or scoring in result.metrics else get_scorer(scoring)
    answers = Answers(result, Z_test)

    def score(rows: np.ndarray) -> dict[str, float]:
        found = basic_scores(told[rows], truth[rows], quantity)
        if scorer is not None and scoring is not None:
            found[scoring] = float(scorer(answers, rows, y_test[rows]))
        return found

    try:
        whole = score(np.arange(len(y_test)))
    except (ValueError, AttributeError) as error:
        raise ValueError(_why_not(error, str(scoring), result.model)) from error
    parts = [_of_part(score, rows, whole) for rows in rows_without_groups(len(y_test))]
    without = {name: np.array([part[name] for part in parts]) for name in whole}
    return replace(result, metrics=result.metrics | whole), without


def rows_without_groups(n: int) -> list[np.ndarray]:
    """Numbers of the rows outside each of ten random groups of n rows; none of a single row."""
    groups = np.random.default_rng(n).permutation(n) % min(GROUPS, n)
    return [np.flatnonzero(groups != g) for g in range(min(GROUPS, n) if n > 1 else 0)]


def _of_part(score: Scores, rows: np.ndarray, names: Iterable[str]) -> dict[str, float]:
    """The scores of a part of the test rows; NaN if it has none, because a class is missing in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return score(rows)
    except ValueError:
        return dict.fromkeys(names, float("nan"))


def jackknife_error(without: np.ndarray) -> float:
    """The standard error of a score from its values without each group; NaN for too few groups.

    >>> round(jackknife_error(np.array([2, 2, 2, 3]) / 3), 4)      # three of four rows are right
    0.25
    """
    s = without[np.isfinite(without)]
    if len(s) < 2:
        return float("nan")
    return float(np.sqrt((len(s) - 1) / len(s) * np.square(s - s.mean()).sum()))


class Answers:
    """What a fitted model says of the test rows, as an estimator whose samples are the numbers of rows."""

    def __init__(self, result: ProbeResult[Any], Z: np.ndarray):
        self.model, self.Z, self.predicted, self.classes_ = result.model, Z, result.predicted, result.classes
        self._kept: dict[str, np.ndarray] = {}

    def predict(self, rows: np.ndarray) -> np.ndarray:
        return self.predicted[rows]

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self._asked("predict_proba")[rows]

    @available_if(lambda self: hasattr(self.model, "decision_function"))
    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        found = self._asked("decision_function")[rows]
        return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found

    def _asked(self, what: str) -> np.ndarray:
        if what not in self._kept:
            self._kept[what] = self._placed(np.asarray(getattr(self.model, what)(self.Z)))
        return self._kept[what]

    def _placed(self, found: np.ndarray) -> np.ndarray:
        """A column for every class: those that had no label to learn from are given the least."""
        if found.ndim == 1 or found.shape[1] in (1, len(self.classes_)):
            return found
        whole = np.full((len(found), len(self.classes_)), min(0.0, found.min()))
        whole[:, np.searchsorted(self.classes_, self.model.classes_)] = found
        return whole

    def __sklearn_tags__(self) -> Tags:
        return CLASSIFIER if len(self.classes_) else REGRESSOR

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _why_not(error: Exception, scoring: str, model: object) -> str:
    """Why a scorer did not work, in words, with the names that may."""
    if isinstance(error, AttributeError):
        has = "no probabilities" if "predict_proba" in str(error) else "not what it asks for"
        hint = " Use classifier='logistic'." if hasattr(model, "logistic") else ""
        return f"scoring={scoring!r} cannot be computed: {type(model).__name__} has {has}.{hint}"
    near = [name for name in get_scorer_names() if name.startswith(f"{scoring}_")]
    others = [name for name in near if not name.endswith("_samples")]
    hint = f" Perhaps you want {', '.join(others)}." if others else ""
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return f"scoring={scoring!r} does not fit these labels: {reason}.{hint}"
