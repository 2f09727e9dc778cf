"""The study of a search: Optuna's, whose finished trials are kept in a file that a later run continues; its result.

The file is Optuna's journal: lines of JSON, appended to and never unpickled, which Optuna's own tools read too. A trial
is one line, written when it has finished; a run that is stopped at any moment loses at most the trial it was in. Optuna
does not keep the state of a sampler, so every trial is drawn by a new sampler with its own seed, from (seed, number of
the trial): a search that was interrupted and continued tries the same as one that was not.

The study keeps fingerprints of data, labels, model, space and split. A run with others is refused.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.display import displayed
from krepes.base.storage.files import FULL, check_writable, full_disk_named
from krepes.evaluation.tuning.ranges import import_optuna

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    Space = dict[str, BaseDistribution]

NAME, FINGERPRINT = "krepes", "krepes_fingerprint"
SAMPLERS = ("random", "tpe")
STARTING_TRIALS = 5  # drawn at random before TPE has anything to go by
DIGITS = 4  # significant, of every number tried: the result can be typed
REMEDY = "Name another file, or start over (overwrite=True)."
SHOWN_REASONS = 3
_NUMBER = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?")


def open_study(
    path: str | os.PathLike | None, space: Space, fingerprint: dict[str, str], overwrite: bool = False
) -> optuna.Study:
    """The study of a file, new or continued; without a file, one in memory."""
    optuna = import_optuna()
    with quiet():
        if path is None:
            return optuna.create_study(direction="maximize")
        path = Path(path)
        check_writable(path, overwrite=True)  # folders and rights; a study that exists is continued
        if overwrite:
            path.unlink(missing_ok=True)
        with full_disk_named(path, "no study was begun"):
            try:
                study = _loaded(path)
                found = study.user_attrs.get(FINGERPRINT)
                _check_trials(finished(study), space if found == fingerprint else None)
            except Exception as error:  # whatever a damaged file makes Optuna raise
                if isinstance(error, OSError) and error.errno in FULL:
                    raise
                raise ValueError(
                    f"{path} is not a study that can be read ({type(error).__name__}: {error}). {REMEDY}"
                ) from error
            if found is None and not finished(study):
                study.set_user_attr(FINGERPRINT, fingerprint)
                return study
    known = found if isinstance(found, dict) else {}
    different = [part for part in fingerprint if known.get(part) != fingerprint[part]]
    if different:
        raise ValueError(
            f"{path} is the study of another search: it differs in {', '.join(different)}. {REMEDY}"
        )
    return study


def _loaded(path: Path) -> optuna.Study:
    """The study of a file; a new one if the file is new or empty."""
    optuna = import_optuna()
    content = path.read_bytes() if path.exists() else b""
    journal = optuna.storages.journal
    backend = journal.JournalFileBackend(str(path), lock_obj=journal.JournalFileOpenLock(str(path)))
    storage = optuna.storages.JournalStorage(backend)
    if not content:
        return optuna.create_study(storage=storage, study_name=NAME, direction="maximize")
    study = optuna.load_study(storage=storage, study_name=NAME)
    *_, last, rest = content.split(b"\n")
    json.loads(last)  # because Optuna passes over a last line that it cannot read
    if rest:  # a run was killed while it wrote; Optuna would go on in the middle of the line
        os.truncate(path, len(content) - len(rest))
    return study


def finished(study: optuna.Study) -> list[FrozenTrial]:
    """The finished trials, in the order in which they were made."""
    states = import_optuna().trial.TrialState
    return study.get_trials(deepcopy=False, states=(states.COMPLETE, states.FAIL))


def _check_trials(trials: list[FrozenTrial], space: Space | None) -> None:
    """Refuse trials that no run can have written."""
    for trial in trials:
        if trial.state.name == "COMPLETE" and not math.isfinite(trial.value):  # type: ignore[arg-type]
            raise ValueError(f"trial {trial.number + 1} has the value {trial.value!r}")
        if space is not None and set(trial.params) != set(space):
            raise ValueError(f"trial {trial.number + 1} has other parameters")


def next_params(study: optuna.Study, space: Space, sampler: str, seed: int) -> dict[str, Any]:
    """The parameters of the next trial, as a new sampler draws them from the trials so far."""
    optuna = import_optuna()
    trials = finished(study)
    own_seed = int(np.random.SeedSequence([seed, 1, len(trials)]).generate_state(1)[0])
    drawn_by = optuna.samplers.RandomSampler(seed=own_seed)
    if sampler == "tpe":
        drawn_by = optuna.samplers.TPESampler(seed=own_seed, n_startup_trials=STARTING_TRIALS)
    with quiet():
        # In memory, because a study that is asked remembers an unfinished trial.
        asked = optuna.create_study(direction="maximize", sampler=drawn_by)
        asked.add_trials(trials)
        params = asked.ask(space).params
    return {name: _rounded(params[name], space[name]) for name in space}


def _rounded(value: Any, of: BaseDistribution) -> Any:
    if not isinstance(of, import_optuna().distributions.FloatDistribution):
        return value
    return min(max(float(f"{value:.{DIGITS}g}"), of.low), of.high)


def record(
    study: optuna.Study, space: Space, params: dict[str, Any], value: float | None, **attributes: Any
) -> None:
    """Add a finished trial; without a value it has failed."""
    trials = import_optuna().trial
    state = trials.TrialState.FAIL if value is None else trials.TrialState.COMPLETE
    study.add_trial(
        trials.create_trial(
            state=state, value=value, params=params, distributions=space, user_attrs=attributes
        )
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna without its reports of every step."""
    logging = import_optuna().logging
    level = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(level)


@displayed
@dataclass(frozen=True)
class SearchResult:
    """All trials of a study, and the best of them.

    Attributes
    ----------
    trials : list of optuna.trial.FrozenTrial, in the order in which they were made. `params` and `value` are
        Optuna's, with None for a trial that failed; `user_attrs` has "scores" ("accuracy", "balanced_accuracy",
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
        done = (trial for trial in self.trials if trial.value is not None)
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
            {"trial": number, "value": trial.value, **trial.params}
            | {name: trial.user_attrs[name] for name in ("seconds", "message")}
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
