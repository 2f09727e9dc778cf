"""Scores of the test rows by scikit-learn's names, and how much of a score is owed to which rows were tested.

The error of a score by the choice of test rows is that of a jackknife over groups of them: the score is computed
without each of G groups, and

    error^2 = (G - 1) / G  sum_g (s_g - mean s)^2

which holds for any smooth score. For accuracies it is the binomial error, up to the chance in G groups; of a difference
of two scores on the same rows it is the paired error.

Results of all repeats of a protocol: means, deviations over draws, errors due to the choice of test rows.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from krepes.base.display import displayed
from krepes.evaluation.probe_result import CLASSIFIER, NAMES, REGRESSOR, ProbeResult, basic_scores

Scores = Callable[[np.ndarray], dict[str, float]]  # of a part of the test rows, given by their numbers

GROUPS = 10
PERCENT = ("accuracy", "balanced_accuracy")


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


@displayed
@dataclass(frozen=True)
class ProtocolResult:
    """The results of all repeats. `str(result)` is one line.

    Attributes
    ----------
    results : of every repeat.
    probe : what was fitted.
    seconds : that the probes took.
    scoring : the name of the score that is compared, if one was asked for.
    without : {name of a score: its values without each group of test rows, shape (repeats, groups)}.
    """

    results: Sequence[ProbeResult[Any]]
    probe: str
    seconds: float
    scoring: str | None = None
    without: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def metric(self) -> str:
        """The name of the score that is compared: `scoring`, or else accuracy or r2."""
        return self.scoring or next(iter(self.results[0].metrics))

    def values(self, metric: str | None = None) -> np.ndarray:
        """A score of every repeat, by its name: "accuracy", "balanced_accuracy", "r2", "mean_absolute_error" ..."""
        return np.array([result.metrics[metric or self.metric] for result in self.results])

    def mean(self, metric: str | None = None) -> float:
        """The mean of a score over the repeats."""
        return float(self.values(metric).mean())

    def spread(self, metric: str | None = None) -> float:
        """The deviation of a score over the repeats; of a single one, its error by the choice of test rows."""
        if len(self.results) > 1:
            return float(self.values(metric).std(ddof=1))
        return jackknife_error(self.without.get(metric or self.metric, np.empty((1, 0)))[0])

    @property
    def accuracy(self) -> float:
        return self.mean("accuracy")

    @property
    def balanced_accuracy(self) -> float:
        return self.mean("balanced_accuracy")

    @property
    def n_labels(self) -> int:
        return self.results[0].n_labels

    @property
    def n_test(self) -> int:
        return self.results[0].n_test

    @property
    def notes(self) -> list[str]:
        """Remarks of all repeats, each once."""
        return list(dict.fromkeys(note for result in self.results for note in result.notes))

    def __str__(self) -> str:
        names = list(dict.fromkeys([self.metric, *self.results[0].metrics]))[:2]
        scores = ", ".join(f"{NAMES.get(name, name)} {self.words(name)}" for name in names)
        return (
            f"{self.probe} probe: {scores} ({len(self.results)} repeats, {self.n_labels:,} labels, "
            f"{self.n_test:,} test rows)"
        )

    def words(self, metric: str | None = None) -> str:
        """Mean and spread of a score, such as 60.0 ± 14.1 %."""
        return score_words(metric or self.metric, self.mean(metric), self.spread(metric))


def score_words(metric: str, mean: float, spread: float = float("nan")) -> str:
    """A score with its spread, if known: percent for accuracies, the target's unit for errors.

    >>> score_words("accuracy", 0.6, 0.1), score_words("r2", 0.48), score_words("mean_absolute_error", 43.21, 0.6)
    ('60.0 ± 10.0 %', '0.480', '43.2 ± 0.6')
    """
    if not np.isfinite(mean):
        return "-"
    percent = metric in PERCENT
    digits, factor = (1, 100) if percent else (digits_of(metric, mean), 1)
    deviation = f" ± {factor * spread:.{digits}f}" if np.isfinite(spread) else ""
    return f"{factor * mean:z.{digits}f}{deviation}{' %' if percent else ''}"


def digits_of(metric: str, value: float) -> int:
    """Digits behind the point: three, or as many as three figures need where a score has a unit of its own."""
    if not metric.endswith(("absolute_error", "squared_error")) and not metric.startswith("neg_"):
        return 3
    return int(np.clip(2 - np.floor(np.log10(abs(value) or 1.0)), 0, 12))
