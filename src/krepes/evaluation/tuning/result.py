"""What a search found."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from krepes.base.display import displayed

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

SHOWN_REASONS = 3
_NUMBER = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?")


@displayed
@dataclass(frozen=True)
class SearchResult:
    """All trials of a study, and the best of them.

    Attributes
    ----------
    trials : list of optuna.trial.FrozenTrial, in the order in which they were made. `params` and `value` are those of
        Optuna, with None for a trial that failed; `user_attrs` has "scores" ("accuracy", "balanced_accuracy",
        "deviation" of the metric between draws, "n_components" left), "seconds", "message" (why it failed) and "notes"
        (warnings).
    metric : "accuracy" or "balanced_accuracy", on the rows held out from the probe.
    fixed : the other parameters, which were the same in all trials.
    """

    trials: list[FrozenTrial]
    metric: str
    fixed: dict[str, Any]

    @property
    def ranked(self) -> list[FrozenTrial]:
        """The trials that did not fail, best first; among equals the earlier one."""
        done = [trial for trial in self.trials if trial.value is not None]
        return sorted(done, key=lambda trial: -float(trial.value or 0))

    @property
    def failed(self) -> list[FrozenTrial]:
        return [trial for trial in self.trials if trial.value is None]

    @property
    def best_trial(self) -> FrozenTrial:
        if not self.ranked:
            raise ValueError(f"No trial has succeeded. {self.failures()}".strip())
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
                "trial": number,
                "value": trial.value,
                **trial.params,
                "seconds": trial.user_attrs["seconds"],
                "message": trial.user_attrs["message"],
            }
            for number, trial in enumerate(self.trials, start=1)
        ]

    def failures(self) -> str:
        """Why trials failed, the most frequent reason first; messages that differ in numbers only count as one."""
        messages = [trial.user_attrs["message"] for trial in self.failed]
        reasons = [_NUMBER.sub("#", message) for message in messages]
        counts = Counter(reasons).most_common(SHOWN_REASONS)
        return " ".join(f"{count} × {messages[reasons.index(reason)]}" for reason, count in counts)

    def __str__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.best_params.items())
        failed = f", {len(self.failed)} failed" if self.failed else ""
        words = f"{self.metric.replace('_', ' ')} {self.best_value:.4f} with {params}"
        return f"{words} ({len(self.trials)} trials{failed})"
