"""What a search found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from krepes.base.display import displayed
from krepes.evaluation.tuning.study import Trial

SHOWN_REASONS = 3
_NUMBER = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?")


@displayed
@dataclass(frozen=True)
class SearchResult:
    """All trials of a study, and the best of them.

    Attributes
    ----------
    trials : list of Trial, in the order in which they were made.
    metric : "accuracy" or "balanced_accuracy", on the rows held out from the probe.
    fixed : the other parameters, which were the same in all trials.
    """

    trials: list[Trial]
    metric: str
    fixed: dict[str, Any]

    @property
    def ranked(self) -> list[Trial]:
        """The trials that did not fail, best first; among equals the earlier one."""
        return sorted(self._finished(), key=lambda trial: (-float(trial.value or 0), trial.number))

    @property
    def failed(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.value is None]

    @property
    def best_trial(self) -> Trial:
        if not self._finished():
            raise ValueError(f"No trial has succeeded. {failures(self.trials)}".strip())
        return self.ranked[0]

    @property
    def best_value(self) -> float:
        return float(self.best_trial.value or 0)

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters of the best trial, for `model.set_params(**best_params)`."""
        return {**self.fixed, **self.best_trial.params}

    def table(self) -> list[dict[str, Any]]:
        """One row per trial, for `pandas.DataFrame`."""
        return [
            {
                "trial": trial.number,
                "value": trial.value,
                **trial.params,
                "seconds": trial.seconds,
                "message": trial.message,
            }
            for trial in self.trials
        ]

    def _finished(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.value is not None]

    def __str__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.best_params.items())
        failed = f", {len(self.failed)} failed" if self.failed else ""
        words = f"{self.metric.replace('_', ' ')} {self.best_value:.4f} with {params}"
        return f"{words} ({len(self.trials)} trials{failed})"


def failures(trials: list[Trial]) -> str:
    """Why trials failed, the most frequent reason first; messages that differ in numbers only count as one.

    >>> failures([Trial(1, {}, message="lam=2 is too large."), Trial(2, {}, message="lam=3.5 is too large.")])
    '2 × lam=2 is too large.'
    """
    messages = [trial.message for trial in trials if trial.value is None]
    reasons = [_NUMBER.sub("#", message) for message in messages]
    counts = Counter(reasons).most_common(SHOWN_REASONS)
    return " ".join(f"{count} × {messages[reasons.index(reason)]}" for reason, count in counts)
