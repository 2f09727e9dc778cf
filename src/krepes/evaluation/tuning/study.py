"""The study of a search: its finished trials, in a file that a later run continues.

Optuna draws what is tried and keeps it. The file is Optuna's journal: lines of JSON, appended to and never unpickled,
which Optuna's own tools read too. A trial is one line, written when it has finished; a run that is stopped at any
moment loses at most the trial it was in. Optuna does not keep the state of a sampler, so every trial is drawn by a new
sampler with its own seed, from (seed, number of the trial): a search that was interrupted and continued tries the
same as one that was not.

The study keeps fingerprints of data, labels, model, space and split. A run with others is refused.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.files import check_writable
from krepes.evaluation.tuning.search_space import Choice, Range, Space, Value

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

NAME = "krepes"
FINGERPRINT = "krepes_fingerprint"
SAMPLERS = {"random": "RandomSampler", "tpe": "TPESampler"}  # classes of Optuna
SETTINGS = {"tpe": {"n_startup_trials": 5}}  # drawn at random before TPE has anything to go by
DIGITS = 4  # significant, of every number tried: the result can be typed
REMEDY = "Name another file, or start over (overwrite=True)."


def import_optuna() -> ModuleType:
    """Optuna, or an error that says how to get it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError('A search needs Optuna: pip install "krepes[tune]".') from error
    return optuna


@dataclass(frozen=True)
class Trial:
    """One set of parameters and its result.

    Attributes
    ----------
    number : counted from 1.
    params : the parameters that were tried.
    value : the value of the metric; None if the trial failed.
    scores : "accuracy", "balanced_accuracy", "deviation" of the metric between draws, and the "n_components" left.
    seconds : how long it took.
    message : why it failed.
    notes : the warnings that were given.
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
    path : the file; None keeps the trials in memory.
    space : what is varied.
    fingerprint : hashes of what the study depends on, by name.
    sampler : "random" or "tpe".
    seed : the seed of all draws.
    overwrite : start over where the file exists.
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
            self._study = (
                self._in_memory() if self.path is None else self._opened(self.path, fingerprint, overwrite)
            )

    @property
    def trials(self) -> list[Trial]:
        """The finished trials, in the order in which they were made."""
        return [_trial(frozen, number) for number, frozen in enumerate(self._finished(self._study), start=1)]

    def _finished(self, study: optuna.Study) -> list[FrozenTrial]:
        states = self.optuna.trial.TrialState
        return study.get_trials(deepcopy=False, states=(states.COMPLETE, states.FAIL))

    def _in_memory(self, sampler: optuna.samplers.BaseSampler | None = None) -> optuna.Study:
        return self.optuna.create_study(direction="maximize", sampler=sampler)

    # The file

    def _opened(self, path: Path, fingerprint: dict[str, str], overwrite: bool) -> optuna.Study:
        check_writable(path, overwrite=True)  # folders and rights; a study that exists is continued
        if overwrite:
            path.unlink(missing_ok=True)
        try:
            study = self._loaded(path)
            found = study.user_attrs.get(FINGERPRINT)
            finished = self._finished(study)
            for frozen in finished:
                _check_trial(frozen, self.distributions, complete=found == fingerprint)
        except Exception as error:  # whatever a damaged file makes Optuna raise
            raise ValueError(
                f"{path} is not a study that can be read ({type(error).__name__}: {error}). {REMEDY}"
            ) from error
        if found is None and not finished:
            found = fingerprint
            study.set_user_attr(FINGERPRINT, fingerprint)
        found = found if isinstance(found, dict) else {}
        different = [part for part in fingerprint if found.get(part) != fingerprint[part]]
        if different:
            raise ValueError(
                f"{path} is the study of another search: it differs in {', '.join(different)}. {REMEDY}"
            )
        return study

    def _loaded(self, path: Path) -> optuna.Study:
        """The study of a file; a new one if the file is new or empty."""
        content = path.read_bytes() if path.exists() else b""
        journal = self.optuna.storages.journal
        backend = journal.JournalFileBackend(str(path), lock_obj=journal.JournalFileOpenLock(str(path)))
        storage = self.optuna.storages.JournalStorage(backend)
        if not content:
            return self.optuna.create_study(storage=storage, study_name=NAME, direction="maximize")
        study = self.optuna.load_study(storage=storage, study_name=NAME)
        *_, last, rest = content.split(b"\n")
        json.loads(last)  # because Optuna passes over a last line that it cannot read
        if rest:  # a run was killed while it wrote; Optuna would go on in the middle of the line
            os.truncate(path, len(content) - len(rest))
        return study

    # Trials

    def ask(self) -> dict[str, Any]:
        """The parameters of the next trial."""
        finished = self._finished(self._study)
        seed = np.random.SeedSequence([self.seed, 1, len(finished)]).generate_state(1)
        sampler = getattr(self.optuna.samplers, SAMPLERS[self.sampler])
        with quiet(self.optuna):
            # A study of its own for every question, because one that is asked remembers an unfinished trial.
            study = self._in_memory(sampler(seed=int(seed[0]), **SETTINGS.get(self.sampler, {})))
            study.add_trials(finished)
            params = study.ask(self.distributions).params
        return {name: self._rounded(name, params[name]) for name in self.distributions}

    def _rounded(self, name: str, value: Value) -> Value:
        distribution = self.distributions[name]
        if not isinstance(distribution, self.optuna.distributions.FloatDistribution):
            return value
        return min(max(float(f"{value:.{DIGITS}g}"), distribution.low), distribution.high)

    def record(self, trial: Trial) -> None:
        """Add a finished trial; without a value it has failed."""
        states = self.optuna.trial.TrialState
        frozen = self.optuna.trial.create_trial(
            state=states.FAIL if trial.value is None else states.COMPLETE,
            value=trial.value,
            params=trial.params,
            distributions=self.distributions,
            user_attrs={name: getattr(trial, name) for name in ("scores", "seconds", "message", "notes")},
        )
        self._study.add_trial(frozen)


@contextmanager
def quiet(optuna: ModuleType) -> Iterator[None]:
    """Optuna without its reports of every step."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
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
    trial = _trial(frozen, frozen.number + 1)
    if frozen.state.name == "COMPLETE" and not math.isfinite(frozen.value):  # type: ignore[arg-type]
        raise ValueError(f"trial {trial.number} has the value {trial.value!r}")
    if complete and set(trial.params) != set(distributions):
        raise ValueError(f"trial {trial.number} has other parameters")
