"""`krepes train`: learn to predict a column, or what is normal, and save the machine."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import changed, command
from krepes.cli.options import MODEL, flag, option

if TYPE_CHECKING:
    import numpy as np

    from krepes.machines import NoveltyDetector
    from krepes.machines.labelled_machine import LabelledMachine
    from krepes.preprocessing.targets import TaskGuess
    from krepes.sources import Source

MACHINES = ("ridge", "gaussian_process")
CHOSEN_WITH = (
    "Kernel and metric were chosen with the rows that are held out here, so that the score is a little too good: rows "
    "that were kept apart tell the truth (krepes evaluate)."
)


@dataclass(frozen=True)
class MachineOptions:
    """What is trained, and the parameters that have options; --set has all others."""

    task: Annotated[
        str,
        option(
            "classification, regression, or auto, which looks at the labels; or detect, which learns without labels "
            "what rows usually are, for `krepes detect`.",
            panel=MODEL,
        ),
    ] = "auto"
    machine: Annotated[
        str,
        option(
            "ridge, kernel ridge regression; or gaussian_process, whose predictions know how sure they are.",
            panel=MODEL,
        ),
    ] = "ridge"
    kernel: Annotated[
        str | None, option("How rows are compared. By default several are tried on a sample.", panel=MODEL)
    ] = None
    lengthscale: Annotated[
        str | None,
        option(
            "The distance at which rows are told apart: 2.5, median, '4 median'. By default it is chosen.",
            metavar="NUMBER",
            panel=MODEL,
        ),
    ] = None
    n_landmarks: Annotated[
        str | None,
        option(
            "Rows that all others are compared with. By default at most 2000; all takes every row.",
            metavar="N",
            panel=MODEL,
            callback=options.count,
        ),
    ] = None
    penalty: Annotated[
        str | None,
        option(
            "How smooth the function is. By default by errors on rows left out.",
            metavar="NUMBER",
            panel=MODEL,
        ),
    ] = None
    class_weight: Annotated[
        str | None,
        option(
            "How much rows of each class count: balanced, or a dictionary.", metavar="WEIGHTS", panel=MODEL
        ),
    ] = None
    false_alarm_rate: Annotated[
        float | None,
        option(
            "With --task detect: the share of normal rows that may be alarms. By default 0.05.",
            metavar="SHARE",
            panel=MODEL,
        ),
    ] = None
    preprocess: Annotated[
        str | None, option("How rows are prepared: auto, table, normalize, series, none.", panel=options.DATA)
    ] = None
    override: options.Override = field(default_factory=list)

    def parameters(self) -> dict[str, Any]:
        """What was given, without `preprocess`."""
        from krepes.cli.parameters import given, overrides

        own = given(
            kernel=self.kernel,
            lengthscale=self.lengthscale,
            n_landmarks=self.n_landmarks,
            penalty=self.penalty,
            class_weight=self.class_weight,
            false_alarm_rate=self.false_alarm_rate,
        )
        return own | overrides(self.override)

    def check(self) -> None:
        """Refuse names that are not known."""
        from krepes.preprocessing.targets import TASKS

        if self.machine.replace("-", "_") not in MACHINES:
            raise typer.BadParameter(f"--machine {self.machine}: expected {', '.join(MACHINES)}.")
        if self.task not in (*TASKS, "detect"):
            raise typer.BadParameter(f"--task {self.task}: expected {', '.join(TASKS)}, detect.")
        if self.task == "detect" and self.machine != "ridge":
            raise typer.BadParameter(
                f"--machine {self.machine} predicts a column: it does not go with --task detect."
            )


@command
def train(
    rows: options.NewRows,
    output: options.ModelFile,
    labels: options.SplitLabels,
    chosen: MachineOptions,
    parts: options.Parts,
    no_sums: Annotated[
        bool, flag("--no-sums", "A smaller file that predicts, but cannot be continued or merged.", MODEL)
    ] = False,
    random_state: options.Seed = 0,
    device: options.Device = "auto",
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Learn to predict a column: classes or a quantity, by kernel ridge regression in one pass.

    Kernel, lengthscale, the weights of the columns and the penalty are chosen by errors on rows that are left out. \
Rows without a label are not used.

    [cyan]krepes train people.parquet --label income --exclude id -o income.krepes[/]

    [cyan]krepes train houses.csv --label price --machine gaussian_process --set noise=0.1 -o price.krepes[/]

    [cyan]krepes train good_days.parquet --task detect --false-alarm-rate 0.01 -o pump.krepes[/]
    """
    from krepes.base.files import check_writable

    chosen.check()
    _check_base(rows, chosen, parts, no_sums)
    check_writable(output, overwrite)
    source = rows.open()
    if parts.base is not None:
        return _part(source, rows, labels, parts, output, device, overwrite)
    target = None if chosen.task == "detect" else _target(source, rows, labels, parts, chosen.task)
    if target is None:
        named, weight = (
            ([labels.label] if labels.label is not None else []),
            _used(source, rows, labels, parts),
        )
    else:
        target.say()
        named, weight = labels.columns(), target.weight
    beside = (labels.split, parts.sample_weight, parts.groups)
    prepared = rows.preprocessing(source, named, beside, chosen.preprocess or "auto")
    settings = {"preprocess": prepared, "engine": parts.engine, "device": device}
    machine = _machine(chosen, target, settings | {"random_state": random_state, "verbose": 1})
    _check_room(machine, source, target, output, overwrite, no_sums)
    return _fitted(machine, source, rows.data, output, labels, parts, target, weight, no_sums, overwrite)


def _check_base(rows: options.NewRows, chosen: MachineOptions, parts: options.Parts, no_sums: bool) -> None:
    """Refuse options that --base brings itself."""
    from krepes.cli.parts import refuse

    if parts.base is None:
        if parts.first_row is not None:
            raise typer.BadParameter("--first-row is for a part of the data: give --base.")
        return
    own = [*changed(chosen), *changed(rows, ("data", "array", "size", "encoding"))]
    kept = {"--no-sums": no_sums, "--checkpoint": parts.checkpoint}
    refuse([*own, *(name for name, value in kept.items() if value)], f"--base {parts.base} brings its own.")


def _part(
    source: Source,
    rows: options.NewRows,
    labels: options.SplitLabels,
    parts: options.Parts,
    output: Path,
    device: str,
    overwrite: bool,
) -> dict[str, Any]:
    """The sums of one part of the data, for the machine of --base."""
    from dataclasses import replace

    from krepes.cli.parts import continued, fit_part
    from krepes.machines import NoveltyDetector
    from krepes.machines.labelled_machine import LabelledMachine
    from krepes.machines.targets import Quantities

    assert parts.base is not None
    machine = continued(parts.base, device)
    given: dict[str, Any] = {"first_row": parts.first_row, "groups": parts.groups}
    if isinstance(machine, NoveltyDetector):
        return fit_part(
            machine, source, output, overwrite, sample_weight=parts.weights(source, rows.data), **given
        )
    if not isinstance(machine, LabelledMachine):
        raise ValueError(
            f"--base {parts.base} holds a {type(machine).__name__}, which predicts nothing: use `krepes fit --base`."
        )
    if labels.labels is None:
        labels = replace(labels, label=labels.label or machine.label_)
    task = "regression" if isinstance(machine.targets_, Quantities) else "classification"
    target = _target(source, rows, labels, parts, task)
    return fit_part(machine, source, output, overwrite, y=target.y, sample_weight=target.weight, **given)


@dataclass(frozen=True)
class Target:
    """What is to be predicted, of every row."""

    y: np.ndarray  # missing ones replaced by another, with weight 0
    weight: np.ndarray | None  # 0 for rows that are not trained on
    task: str
    guess: TaskGuess | None
    where: str  # the labels were found
    n_rows: int  # with a label, to train on
    test_rows: int

    @property
    def why(self) -> str:
        return "--task says so" if self.guess is None else self.guess.why

    def say(self) -> None:
        """Say what there is to learn from, and what it was taken for."""
        from krepes.cli.terminal import line

        classes = self.task == "classification"
        taken, other = ("classes", "regression") if classes else ("a quantity", "classification")
        rest = f" {self.test_rows:,} rows are kept for testing." if self.test_rows else ""
        line(f"{self.n_rows:,} labels ({self.where}) to learn from.{rest}")
        doubt = "" if self.guess is None or self.guess.plain else f" Otherwise say --task {other}."
        line(f"They are taken for {taken}: {self.why}.{doubt}", style="dim")


def _target(
    source: Source, rows: options.NewRows, labels: options.SplitLabels, parts: options.Parts, task: str
) -> Target:
    """Labels, weights and the task."""
    import numpy as np

    from krepes.labelled import training_rows
    from krepes.preprocessing.labels import missing_values
    from krepes.preprocessing.targets import as_targets, guess_task

    y, where = labels.of(source, rows)
    chosen = training_rows(source, rows.data, labels.split, labels.n_train)
    chosen = np.ones(len(y), dtype=bool) if chosen is None else chosen
    known = ~missing_values(y)
    used = chosen & known
    if not used.any():
        raise ValueError(f"No row to train on has a label ({where}).")
    name = f"The label {where}"
    guess = guess_task(y[used], name) if task == "auto" else None
    found = task if guess is None else guess.name
    filled = y.copy()
    filled[~known] = y[used][0]
    filled = as_targets(filled, name) if found == "regression" else filled
    weight = _only(used, parts.weights(source, rows.data))
    return Target(filled, weight, found, guess, where, int(used.sum()), int((known & ~chosen).sum()))


def _used(
    source: Source, rows: options.NewRows, labels: options.SplitLabels, parts: options.Parts
) -> np.ndarray | None:
    """How often each row counts that a detector learns from."""
    from krepes.labelled import training_rows

    weight = parts.weights(source, rows.data)
    chosen = training_rows(source, rows.data, labels.split, labels.n_train)
    return weight if chosen is None else _only(chosen, weight)


def _only(used: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """Weights that are 0 for rows that are not used."""
    import numpy as np

    return weight if used.all() else np.where(used, 1.0 if weight is None else weight, 0.0)


def _machine(
    chosen: MachineOptions, target: Target | None, settings: dict[str, Any]
) -> LabelledMachine[Any, Any] | NoveltyDetector:
    """The machine that the options make."""
    from krepes import machines
    from krepes.cli.parameters import estimator

    given = chosen.parameters()
    if target is None:
        return estimator(machines.NoveltyDetector, given, **settings)
    family = "KernelRidge" if chosen.machine == "ridge" else "GaussianProcess"
    kind = "Regressor" if target.task == "regression" else "Classifier"
    return estimator(getattr(machines, family + kind), given, **settings)


def _check_room(
    machine: LabelledMachine[Any, Any] | NoveltyDetector,
    source: Source,
    target: Target | None,
    output: Path,
    overwrite: bool,
    no_sums: bool,
) -> None:
    """Refuse what memory or disk cannot hold.

    A ridge machine has n_folds matrices of m x m, times the classes where they are balanced; a Gaussian process has one
    or, for several classes, one for each; a detector two.
    """
    import numpy as np

    from krepes.cli.memory_needed import check_fit_memory, check_model_file
    from krepes.features.landmark_choice import landmark_count

    m = landmark_count(machine.n_landmarks, source.n_rows)
    c = len(np.unique(target.y)) if target is not None and target.task == "classification" else 1
    folds = getattr(machine, "n_folds", 1)
    by_class = getattr(machine, "class_weight", None) == "balanced" or not hasattr(machine, "n_folds")
    sums = folds * (c if by_class else 1) + (target is None)
    check_fit_memory(m, sums)
    kept = 0 if no_sums else getattr(machine, "n_kept", 0)
    check_model_file(output, overwrite, source, m, c * folds, 0 if no_sums else 1 + sums, kept)


def _fitted(
    machine: LabelledMachine[Any, Any] | NoveltyDetector,
    source: Source,
    data: Path,
    output: Path,
    labels: options.SplitLabels,
    parts: options.Parts,
    target: Target | None,
    weight: np.ndarray | None,
    no_sums: bool,
    overwrite: bool,
) -> dict[str, Any]:
    """Fit, save, and say what was learned."""
    from krepes.cli.describe import show_columns, summary_of
    from krepes.cli.saved import saved_numbers, show_saved
    from krepes.machines import NoveltyDetector

    y = () if target is None else (target.y,)
    how: dict[str, Any] = {"sample_weight": weight, "checkpoint": parts.checkpoint}
    if parts.groups is not None:
        if "groups" not in inspect.signature(machine.fit).parameters:
            raise typer.BadParameter(f"--groups: a {type(machine).__name__} keeps no sums.")
        how["groups"] = parts.groups
    start = time.perf_counter()
    how["space"] = space = machine.prepare(source, *y, sample_weight=weight)
    show_columns(space.inputs)
    machine.fit(source, *y, **how)
    machine.set_params(verbose=0)
    if not isinstance(machine, NoveltyDetector):
        machine.label_ = labels.label
    machine.save(output, sums=not no_sums, overwrite=overwrite)
    seconds = time.perf_counter() - start
    following = _next_command(machine, target, output, data)
    ridge = target is not None and hasattr(machine, "n_kept")
    show_saved(machine, output, seconds, following, CHOSEN_WITH if ridge else "")
    task = {"task": "detect"} if target is None else {"task": target.task, "task_because": target.why}
    return saved_numbers(source, output, seconds) | task | summary_of(machine) | {"next": following}


def _next_command(machine: object, target: Target | None, output: Path, data: Path) -> str:
    if target is None:
        return f"krepes detect {output} ROWS -o FILE"
    if not hasattr(machine, "n_kept"):
        more = "--std" if target.task == "regression" else "--proba"
        return f"krepes predict {output} {data} -o predictions.csv {more}"
    return f"krepes {'evaluate' if target.test_rows else 'explain'} {output} {data}"
