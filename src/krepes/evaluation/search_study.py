"""The study of a search: its finished trials, in a file that a later run continues.

The file is Optuna's journal: lines of JSON, appended to and never unpickled, which Optuna's own tools read too. A trial
is one line, written when it has finished; a run that is stopped at any moment loses at most the trial it was in. What
a trial tries is drawn with a seed of its own, from (seed, number of the trial), so a search that was interrupted and
continued tries the same as one that was not.

The study keeps fingerprints of data, labels, model, space and split. A run with others is refused.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.files import check_writable

from .search_space import Choice, Range, Space, Value

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

NAME = "krepes"
FINGERPRINT = "krepes_fingerprint"
SAMPLERS = ("random", "tpe")
STARTUP_TRIALS = 5  # drawn at random before TPE has anything to go by
DIGITS = 4  # significant, of every number tried: the result can be typed


def import_optuna() -> ModuleType:
    """Optuna, or an error that says how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError('A search needs Optuna: pip install "krepes[tune]".') from error
    return optuna


@dataclass(frozen=True)
class Trial:
    """One set of parameters and what came of it.

    Attributes
    ----------
    number : from 1.
    params : what was tried.
    value : of the metric; None if the trial failed.
    scores : "accuracy", "balanced_accuracy", "deviation" of the metric between draws, and the "n_components" left.
    seconds : taken.
    message : why it failed.
    notes : what was warned of.
    """

    number: int
    params: dict[str, Any]
    value: float | None = None
    scores: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    message: str = ""
    notes: tuple[str, ...] = ()


class Study:
    """Finished trials, in a file or only in memory.

    Parameters
    ----------
    path : of the file; None keeps the trials in memory.
    space : what is varied.
    fingerprint : hashes by the name of what they stand for.
    sampler : "random" or "tpe".
    seed : of all draws.
    overwrite : start anew where the file exists.
    """

    def __init__(
        self,
        path: str | os.PathLike | None,
        space: Space,
        fingerprint: dict[str, str],
        sampler: str = "random",
        seed: int = 0,
        overwrite: bool = False,
    ):
        if sampler not in SAMPLERS:
            raise ValueError(f"sampler={sampler!r}: expected {' or '.join(map(repr, SAMPLERS))}.")
        self.optuna = import_optuna()
        self.path = None if path is None else Path(path)
        self.sampler, self.seed = sampler, seed
        self.distributions = {name: _distribution(self.optuna, spec) for name, spec in space.items()}
        with quiet(self.optuna):
            self._study = self._opened(fingerprint, overwrite)
            self.trials = [_trial(frozen, number) for number, frozen in enumerate(self._finished(), start=1)]

    # The file

    def _opened(self, fingerprint: dict[str, str], overwrite: bool) -> optuna.Study:
        if self.path is None:
            return self.optuna.create_study(direction="maximize", study_name=NAME)
        check_writable(self.path, overwrite=True)  # folders and rights; a study that exists is continued
        if overwrite:
            self.path.unlink(missing_ok=True)
        if self.path.exists() and self.path.stat().st_size > 0:
            _check_journal(self.path)
        try:
            study = self._load()
            found = study.user_attrs.get(FINGERPRINT)
            finished = self._finished(study)
            for frozen in finished:
                _check_trial(frozen, self.distributions, complete=found == fingerprint)
        except Exception as error:  # whatever a damaged file makes Optuna raise
            raise ValueError(
                f"{self.path} is not a study that can be read ({type(error).__name__}: {error}). Name another file, or "
                "start anew (overwrite=True)."
            ) from error
        if found is None and not finished:
            study.set_user_attr(FINGERPRINT, fingerprint)
        else:
            self._check_fingerprint(found, fingerprint)
        return study

    def _load(self) -> optuna.Study:
        journal = self.optuna.storages.journal
        path = str(self.path)
        backend = journal.JournalFileBackend(path, lock_obj=journal.JournalFileOpenLock(path))
        storage = self.optuna.storages.JournalStorage(backend)
        names = self.optuna.get_all_study_names(storage)
        if not names:
            return self.optuna.create_study(storage=storage, study_name=NAME, direction="maximize")
        return self.optuna.load_study(storage=storage, study_name=NAME)

    def _check_fingerprint(self, found: object, expected: dict[str, str]) -> None:
        found = found if isinstance(found, dict) else {}
        different = [part for part in expected if found.get(part) != expected[part]]
        if different:
            raise ValueError(
                f"{self.path} is the study of another search: it differs in {', '.join(different)}. Name another file, "
                "or start anew (overwrite=True)."
            )

    def _finished(self, study: optuna.Study | None = None) -> list[FrozenTrial]:
        states = self.optuna.trial.TrialState
        trials = (self._study if study is None else study).get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state in (states.COMPLETE, states.FAIL)]

    # Trials

    def ask(self) -> dict[str, Any]:
        """The parameters of the next trial."""
        state = np.random.SeedSequence([self.seed, 1, len(self.trials)]).generate_state(1)
        seed, samplers = int(state[0]), self.optuna.samplers
        with quiet(self.optuna):
            if self.sampler == "random":
                sampler = samplers.RandomSampler(seed=seed)
            else:
                sampler = samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
            # A study of its own for every question, because one that is asked remembers an unfinished trial.
            study = self.optuna.create_study(direction="maximize", sampler=sampler)
            if self.sampler == "tpe":
                study.add_trials(self._finished())
            params = study.ask(self.distributions).params
        return {name: self._rounded(name, params[name]) for name in self.distributions}

    def _rounded(self, name: str, value: Value) -> Value:
        distribution = self.distributions[name]
        if not isinstance(distribution, self.optuna.distributions.FloatDistribution):
            return value
        return min(max(float(f"{value:.{DIGITS}g}"), distribution.low), distribution.high)

    def record(
        self,
        params: dict[str, Any],
        value: float | None,
        scores: dict[str, float],
        seconds: float,
        message: str = "",
        notes: tuple[str, ...] = (),
    ) -> Trial:
        """Add a finished trial; without a value it has failed."""
        states = self.optuna.trial.TrialState
        attributes = {"scores": scores, "seconds": seconds, "message": message, "notes": list(notes)}
        frozen = self.optuna.trial.create_trial(
            state=states.FAIL if value is None else states.COMPLETE,
            value=value,
            params=params,
            distributions=self.distributions,
            user_attrs=attributes,
        )
        with quiet(self.optuna):
            self._study.add_trial(frozen)
        trial = Trial(len(self.trials) + 1, params, value, scores, seconds, message, notes)
        self.trials.append(trial)
        return trial


@contextmanager
def quiet(optuna: ModuleType) -> Iterator[None]:
    """Optuna without its reports of every step."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)


def _distribution(optuna: ModuleType, spec: Range | Choice) -> BaseDistribution:
    kinds = optuna.distributions
    if isinstance(spec, Choice):
        return kinds.CategoricalDistribution(spec.values)
    whole = isinstance(spec.low, int) and isinstance(spec.high, int)
    kind = kinds.IntDistribution if whole else kinds.FloatDistribution
    return kind(spec.low, spec.high, log=spec.is_log)


def _trial(frozen: FrozenTrial, number: int) -> Trial:
    attributes = frozen.user_attrs
    return Trial(
        number=number,
        params=dict(frozen.params),
        value=frozen.value,
        scores=dict(attributes.get("scores", {})),
        seconds=float(attributes.get("seconds", 0.0)),
        message=str(attributes.get("message", "")),
        notes=tuple(attributes.get("notes", ())),
    )


def _check_trial(frozen: FrozenTrial, distributions: dict[str, BaseDistribution], complete: bool) -> None:
    """Refuse a trial that no run can have written."""
    _trial(frozen, 1)
    if frozen.state.name == "COMPLETE" and not (
        isinstance(frozen.value, float) and math.isfinite(frozen.value)
    ):
        raise ValueError(f"trial {frozen.number + 1} has the value {frozen.value!r}")
    if complete and set(frozen.params) != set(distributions):
        raise ValueError(f"trial {frozen.number + 1} has other parameters")


def _check_journal(path: Path) -> None:
    """Refuse what is no journal before anything is appended to it; drop a last line that was cut short."""
    *lines, rest = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("op_code"), int):
            what = f"line {number:,} is damaged" if number > 1 else "it does not begin as one"
            raise ValueError(
                f"{path} is not a study that can be read: {what}. Name another file, or start anew "
                "(overwrite=True)."
            )
    if not lines:
        raise ValueError(
            f"{path} is not a study of a search. Name another file, or start anew (overwrite=True)."
        )
    if rest:  # a run was killed while it wrote
        os.truncate(path, path.stat().st_size - len(rest))
