"""`krepes train`: learn to predict a column, or what is normal, and save the machine."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.options import MODEL, option
from krepes.cli.parameters import ModelOptions, estimator
from krepes.cli.terminal import line

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
class MachineOptions(ModelOptions):
    """What is trained, and its parameters."""

    not_parameters: ClassVar[tuple[str, ...]] = (*ModelOptions.not_parameters, "task", "machine")

    task: Annotated[str, option("classification, regression, auto, or detect (no labels).")] = "auto"
    machine: Annotated[str, option("ridge, or gaussian_process.")] = "ridge"
    kernel: Annotated[str | None, option("How rows are compared. By default several are tried.")] = None
    lengthscale: Annotated[
        str | None, option("2.5, median, '4 median'. By default it is chosen.", metavar="NUMBER")
    ] = None
    n_landmarks: Annotated[
        str | None,
        option("Rows to compare with. By default 2000; all takes all.", metavar="N", callback=options.count),
    ] = None
    penalty: Annotated[
        str | None, option("Smoothness. By default by errors on rows left out.", metavar="NUMBER")
    ] = None
    class_weight: Annotated[str | None, option("balanced, or a dictionary.", metavar="WEIGHTS")] = None
    false_alarm_rate: Annotated[
        float | None, option("With --task detect: false alarms. By default 0.05.")
    ] = None

    def check(self) -> None:
        """Refuse names that are not known."""
        from krepes.preprocessing.targets import TASKS

        options.one_of("--machine", self.machine.replace("-", "_"), MACHINES)
        options.one_of("--task", self.task, (*TASKS, "detect"))
        if self.task == "detect" and self.machine != "ridge":
            raise typer.BadParameter(
                f"--machine {self.machine} predicts a column: it does not go with --task detect."
            )


@command
def train(
    rows: options.NewRows,
    new: options.NewModel,
    labels: options.SplitLabels,
    chosen: MachineOptions,
    parts: options.PartOptions,
    no_sums: Annotated[
        bool, option("--no-sums", "A smaller file, that is not continued or merged.", panel=MODEL)
    ] = False,
) -> dict[str, Any]:
    """Learn to predict a column, classes or a quantity, with a kernel machine.

    Kernel, scales and penalty are chosen by errors on rows left out, and for large tables whether rows are compared \
with landmarks or with neighbours. Rows without a label are not used.

    \b[cyan]krepes train people.parquet --label income --exclude id -o income.krepes[/]
    [cyan]krepes train houses.csv --label price --machine gaussian_process --set noise=0.1 -o price.krepes[/]
    [cyan]krepes train good_days.parquet --task detect --false-alarm-rate 0.01 -o pump.krepes[/]
    """
    from krepes.cli.memory_needed import check_room, machine_cost
    from krepes.cli.work.fitting import learn, show_saved
    from krepes.machines.kernel_ridge.machine import RidgeMachine
    from krepes.machines.labelled_machine import LabelledMachine

    chosen.check()
    _check_base(rows, chosen, parts, no_sums)
    new.check()
    source = rows.open()
    if parts.base is not None:
        return _part(source, rows, new, labels, parts)
    target = _target(source, rows, labels, parts, chosen.task)
    target.say()
    beside = (labels.split, parts.sample_weight, parts.groups)
    named = labels.columns() if target.y is not None else [name for name in [labels.label] if name]
    prepared = rows.preprocessing(source, named, beside, chosen.preprocess or "auto")
    settings = {"preprocess": prepared, "engine": parts.engine} | new.settings()
    machine = _machine(chosen, target, settings)
    if new.dry_run:
        if target.y is None or not isinstance(machine, LabelledMachine):
            raise typer.BadParameter("--dry-run is for machines that predict a column.")
        return machine_cost(machine, source, target.y, target.n_classes)
    n_outputs = target.n_classes
    check_room(machine, source, new.output, new.overwrite, n_outputs=n_outputs, sums=not no_sums)
    start = time.perf_counter()
    learn(machine, source, target.y, target.weight, parts)
    if isinstance(machine, LabelledMachine):
        machine.label_ = labels.label
    machine.save(new.output, sums=not no_sums, overwrite=new.overwrite)
    following = _next_command(machine, target, str(new.output), str(rows.data))
    flattered = isinstance(machine, RidgeMachine) and machine.held_out_score_.by != "nested folds"
    note = CHOSEN_WITH if flattered else ""
    found = show_saved(machine, source, new.output, start, following, note)
    return found | {"task": target.task, "task_because": target.why}


def _check_base(
    rows: options.NewRows, chosen: MachineOptions, parts: options.PartOptions, no_sums: bool
) -> None:
    """Refuse options that --base brings itself."""
    from krepes.cli.work.fitting import brought, refuse

    if parts.base is not None:
        own = [*brought(rows, chosen, parts), *(["--no-sums"] if no_sums else [])]
        refuse(own, f"--base {parts.base} brings its own.")
    elif parts.first_row is not None:
        raise typer.BadParameter("--first-row is for a part of the data: give --base.")


def _part(
    source: Source,
    rows: options.NewRows,
    new: options.NewModel,
    labels: options.SplitLabels,
    parts: options.PartOptions,
) -> dict[str, Any]:
    """The sums of one part of the data, for the machine of --base."""
    from krepes.cli.work.fitting import continued, fit_part
    from krepes.machines import NoveltyDetector
    from krepes.machines.labelled_machine import LabelledMachine
    from krepes.machines.targets import Quantities

    assert parts.base is not None
    machine = continued(parts.base, new.device, "fit", LabelledMachine, NoveltyDetector)
    task = "detect"
    if isinstance(machine, LabelledMachine):
        task = "regression" if isinstance(machine.targets_, Quantities) else "classification"
        if labels.labels is None:
            labels = replace(labels, label=labels.label or machine.label_)
    target = _target(source, rows, labels, parts, task)
    given = {} if target.y is None else {"y": target.y}
    return fit_part(machine, source, new, parts, sample_weight=target.weight, **given)


@dataclass(frozen=True)
class Target:
    """What is to be predicted, of every row; nothing where novelty is detected."""

    task: str
    weight: np.ndarray | None  # 0 for rows that are not trained on
    y: np.ndarray | None = None  # missing ones replaced by another, with weight 0
    guess: TaskGuess | None = None
    where: str = ""  # the labels were found
    n_rows: int = 0  # with a label, to train on
    test_rows: int = 0

    @property
    def why(self) -> str:
        return "--task says so" if self.guess is None else self.guess.why

    @property
    def n_classes(self) -> int:
        return 1 if self.y is None or self.task != "classification" else len(set(self.y.tolist()))

    def say(self) -> None:
        """Say what there is to learn from, and what it was taken for."""
        if self.y is None:
            return
        rest = f" {self.test_rows:,} rows are kept for testing." if self.test_rows else ""
        line(f"{self.n_rows:,} labels ({self.where}) to learn from.{rest}")
        line(options.taken_words(self.task, self.why, self.guess), style="dim")


def _target(
    source: Source, rows: options.NewRows, labels: options.SplitLabels, parts: options.PartOptions, task: str
) -> Target:
    """Labels, weights and the task."""
    import numpy as np

    from krepes.labelled import training_rows
    from krepes.preprocessing.labels import missing_values
    from krepes.preprocessing.targets import as_targets, guess_task

    chosen = training_rows(source, rows.data, labels.split, labels.n_train)
    chosen = np.ones(source.n_rows, dtype=bool) if chosen is None else chosen
    weight = parts.weights(source, rows.data)
    if task == "detect":
        return Target(task, _only(chosen, weight))
    y, where = labels.of(source, rows)
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
    n_rows, test_rows = int(used.sum()), int((known & ~chosen).sum())
    return Target(found, _only(used, weight), filled, guess, where, n_rows, test_rows)


def _only(used: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
    """Weights that are 0 for rows that are not used."""
    import numpy as np

    return weight if used.all() else np.where(used, 1.0 if weight is None else weight, 0.0)


def _machine(
    chosen: MachineOptions, target: Target, settings: dict[str, Any]
) -> LabelledMachine[Any, Any] | NoveltyDetector:
    """The machine that the options make."""
    from krepes import machines

    if target.y is None:
        return estimator(machines.NoveltyDetector, chosen.parameters(), **settings)
    family = "KernelRidge" if chosen.machine == "ridge" else "GaussianProcess"
    kind = "Regressor" if target.task == "regression" else "Classifier"
    return estimator(getattr(machines, family + kind), chosen.parameters(), **settings)


def _next_command(machine: object, target: Target, output: str, data: str) -> list[str]:
    if target.y is None:
        return ["detect", output, "ROWS", "-o", "FILE"]
    if not hasattr(machine, "n_kept"):
        more = "--std" if target.task == "regression" else "--proba"
        return ["predict", output, data, "-o", "predictions.csv", more]
    return ["evaluate" if target.test_rows else "explain", output, data]
