"""Results of all repeats of a protocol: means, deviations over draws, errors due to the choice of test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from krepes.base.display import displayed
from krepes.evaluation.probe_result import NAMES, ProbeResult
from krepes.evaluation.scoring import jackknife_error

PERCENT = ("accuracy", "balanced_accuracy")


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
