"""`krepes train`: learn to predict a column and save the machine."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_defaults import TABLE
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    import numpy as np

    from krepes.machines.labelled_machine import LabelledMachine
    from krepes.preprocessing.targets import TaskGuess
    from krepes.sources import Source


ROWS = [*TABLE["KernelRidgeClassifier"], *TABLE["GaussianProcessRegressor"]]
DEFAULTS = {row.name: row.default for row in TABLE["KernelRidgeClassifier"]}
MACHINES = ("ridge", "gaussian_process")
VARIANCES = {
    "amplitude": "The variance of the function before any data, in units of that of the target. By default it is "
    "chosen by the evidence. Of --machine gaussian_process.",
    "noise": "The variance of the noise in the target, in units of its variance. By default it is chosen by the "
    "evidence. Of --machine gaussian_process.",
}
# Options that only --task detect has.
DETECTING = {
    "false_alarm_rate": "With --task detect: the share of normal rows that may be alarms. By default 0.05.",
    "measure": "With --task detect: how novelty is measured. By default variance.",
    "calibration_share": "With --task detect: the share of rows held out for p-values. By default 0.4.",
}


@command
def train(
    data: options.Data,
    output: Annotated[Path, option("--output", "-o", "The model file to write.", metavar="MODEL")],
    parameters: Annotated[dict[str, Any], Parameters("KernelRidgeClassifier")],
    detecting: Annotated[
        dict[str, Any], Parameters("NoveltyDetector", only=tuple(DETECTING), optional=DETECTING)
    ],
    variances: Annotated[dict[str, Any], Parameters("GaussianProcessRegressor", optional=VARIANCES)],
    kind: Annotated[
        str,
        option(
            "--machine",
            "What is trained: ridge, kernel ridge regression; or gaussian_process, whose predictions know how sure "
            "they are.",
            metavar="NAME",
            panel=options.MODEL,
            show_default=True,
        ),
    ] = "ridge",
    label: Annotated[
        str | None,
        option(
            "The column of a table, or the array of an .npz file, to predict. It is never a feature. By default the "
            "array y, or the subfolders of images.",
            metavar="COLUMN",
            panel=options.DATA,
        ),
    ] = None,
    labels: options.Labels = None,
    task: Annotated[
        str,
        option(
            "What is predicted: classification, regression, or auto, which looks at the labels and says what it took. "
            "detect predicts nothing: it learns what rows usually are, for `krepes detect`, and needs no label.",
            panel=options.DATA,
            show_default=True,
        ),
    ] = "auto",
    exclude: options.Exclude = [],  # noqa: B006  (typer copies it)
    column: options.Column = [],  # noqa: B006
    missing: options.Missing = [],  # noqa: B006
    encoding: options.Encoding = None,
    sample_weight: options.SampleWeight = None,
    split: options.Split = None,
    n_train: options.NTrain = None,
    array: options.Array = "X",
    size: options.Size = None,
    override: Annotated[
        list[str],
        option(
            "--set",
            'Any other parameter, such as kernel=\'["gaussian","matern"]\' or class_weight=\'{"yes":5}\'. Repeat the '
            "option for several.",
            metavar="KEY=VALUE",
            panel=options.MODEL,
        ),
    ] = [],  # noqa: B006
    no_sums: Annotated[
        bool,
        options.flag(
            "--no-sums",
            "Write a smaller file, with landmarks but without other rows. It predicts, but has no importances of "
            "columns and cannot be continued or merged.",
            options.MODEL,
        ),
    ] = False,
    groups: options.Groups = None,
    base: options.Base = None,
    first_row: options.FirstRow = None,
    checkpoint: options.Checkpoint = None,
    engine: options.Engine = None,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Learn to predict a column: classes or a quantity, by kernel ridge regression in one pass.

    Kernel, lengthscale, the weights of the columns and the penalty are chosen by errors on rows that are left out. \
Rows without a label are not used.

    [cyan]krepes train people.parquet --label income --exclude id -o income.krepes[/]

    [cyan]krepes train people.parquet --label income --split split --class-weight balanced -o income.krepes[/]

    [cyan]krepes train houses.csv --label price --task regression -o price.krepes[/]

    [cyan]krepes train houses.csv --label price --machine gaussian_process -o price.krepes[/]
    [cyan]krepes train part.parquet --base income.krepes --first-row 100000 -o part.krepes[/]

    [cyan]krepes train good_days.parquet --task detect --false-alarm-rate 0.01 -o pump.krepes[/]
    """
    from krepes.base.files import check_writable
    from krepes.cli.describe import line, show_columns
    from krepes.cli.describe_machine import machine_summary
    from krepes.cli.fit_part import fit_part, refuse_options
    from krepes.cli.model_parameters import overrides, preprocessing
    from krepes.cli.opening import check_exists, open_data, parse_size
    from krepes.cli.train_detector import DetectorFit, detector_from
    from krepes.labelled import weights_of
    from krepes.preprocessing.targets import TASKS

    kind = kind.replace("-", "_").lower()
    if kind not in MACHINES:
        raise typer.BadParameter(f"--machine {kind}: expected {', '.join(MACHINES)}.")
    if task not in (*TASKS, "detect"):
        raise typer.BadParameter(f"--task {task}: expected {', '.join(TASKS)}, detect.")
    if task != "detect" and detecting:
        raise typer.BadParameter(f"--{next(iter(detecting)).replace('_', '-')} is for --task detect.")
    if task == "detect" and kind != "ridge":
        raise typer.BadParameter(f"--machine {kind} predicts a column: it does not go with --task detect.")
    if first_row is not None and base is None:
        raise typer.BadParameter("--first-row is for a part of the data: give --base.")
    if base is not None:
        others: dict[str, object]
        others = {"--set": override, "--no-sums": no_sums, "--checkpoint": checkpoint, "--exclude": exclude}
        others |= {
            "--column": column,
            "--missing": missing,
            "--machine": kind != "ridge",
            "--task": task != "auto",
        }
        others |= {f"--{name.replace('_', '-')}": True for name in (*detecting, *variances)}
        refuse_options("KernelRidgeClassifier", parameters, others, f"--base {base} brings its own.")
    changes, pixels = overrides(override), parse_size(size)
    check_exists(data, labels, base)
    check_writable(output, overwrite)
    source = open_data(data, array, pixels, encoding)
    line(f"{data}: {source.describe()}")
    if base is not None:
        machine, task = _continued(base, parameters["device"])
        given: dict[str, Any] = {"first_row": first_row, "groups": groups}
        if task != "detect":
            label = label if label is not None or labels is not None else machine.label_
            part = _target(source, data, label, labels, encoding, split, n_train, sample_weight, task)
            given |= {"y": part.y, "sample_weight": part.weight}
        elif sample_weight is not None:
            given |= {"sample_weight": weights_of(source, data, sample_weight)}
        return fit_part(machine, source, output, overwrite, **given)
    if task == "detect":
        columns = [
            name for name in (split, sample_weight, groups) if name is not None and source.kind == "table"
        ]
        named = [label] if label is not None else []
        parameters["preprocess"] = preprocessing(
            parameters["preprocess"], source, data, named, [*exclude, *columns], column, missing
        )
        wanted = split, n_train, sample_weight, groups, checkpoint, no_sums, overwrite
        detector = detector_from(parameters, detecting, changes, random_state).set_params(engine=engine)
        return DetectorFit(source, data, output, *wanted).run(detector)
    target = _target(source, data, label, labels, encoding, split, n_train, sample_weight, task)
    _say_target(target)
    columns = [name for name in (split, sample_weight, groups) if name is not None and source.kind == "table"]
    own_label = [label] if label is not None and labels is None else []
    parameters["preprocess"] = preprocessing(
        parameters["preprocess"], source, data, own_label, [*exclude, *columns], column, missing
    )
    machine = _machine(kind, target.task, parameters | variances, changes, random_state)
    machine.engine = engine
    _check_memory(machine, source, target, output, overwrite, no_sums)
    start = time.perf_counter()
    space = machine.prepare(source, target.y, sample_weight=target.weight)
    show_columns(space.inputs)
    _check_groups(machine, groups)
    by_group = {} if groups is None else {"groups": groups}
    machine.fit(source, target.y, sample_weight=target.weight, checkpoint=checkpoint, space=space, **by_group)
    machine.verbose, machine.label_ = 0, label
    machine.save(output, sums=not no_sums, overwrite=overwrite)
    seconds = time.perf_counter() - start
    following = f"krepes {'evaluate' if target.test_rows else 'explain'} {output} {data}"
    if kind != "ridge":
        more = " --std" if target.task == "regression" else " --proba"
        following = f"krepes predict {output} {data} -o predictions.csv{more}"
    _show(machine, output, following, seconds, no_sums)
    facts = {
        "data": source.describe(),
        "model": str(output),
        "bytes": output.stat().st_size,
        "seconds": seconds,
        "task": target.task,
        "task_because": target.why,
    }
    return facts | machine_summary(machine) | {"next": following}


def _continued(base: Path, device: str) -> tuple[Any, str]:
    """The machine of --base without its rows, and its task."""
    from krepes.cli.fit_part import continued
    from krepes.machines import NoveltyDetector
    from krepes.machines.labelled_machine import LabelledMachine
    from krepes.machines.targets import Quantities
    from krepes.one_pass import OnePassEstimator

    machine: OnePassEstimator = continued(base, OnePassEstimator, device)
    if isinstance(machine, NoveltyDetector):
        return machine, "detect"
    if not isinstance(machine, LabelledMachine):
        raise ValueError(
            f"--base {base} holds a {type(machine).__name__}, which predicts nothing: use `krepes fit --base`."
        )
    return machine, "regression" if isinstance(machine.targets_, Quantities) else "classification"


def _check_groups(machine: LabelledMachine[Any, Any], groups: str | None) -> None:
    """Refuse groups where there are no sums to keep by group."""
    if groups is not None and "groups" not in inspect.signature(machine.fit).parameters:
        raise typer.BadParameter(
            f"--groups: a {type(machine).__name__} keeps no sums that could be kept by group."
        )


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


def _target(
    source: Source,
    data: Path,
    label: str | None,
    labels: str | None,
    encoding: str | None,
    split: str | None,
    n_train: int | None,
    sample_weight: str | None,
    task: str,
) -> Target:
    """Labels, weights and the task."""
    import numpy as np

    from krepes.labelled import labels_of, training_rows, weights_of
    from krepes.preprocessing.labels import missing_values
    from krepes.preprocessing.targets import as_targets, guess_task

    y, where = labels_of(source, data, label, labels, encoding)
    chosen = training_rows(source, data, split, n_train)
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
    weight = None if sample_weight is None else weights_of(source, data, sample_weight)
    if not used.all():
        weight = np.where(used, 1.0 if weight is None else weight, 0.0)
    filled = as_targets(filled, name) if found == "regression" else filled
    return Target(filled, weight, found, guess, where, int(used.sum()), int((known & ~chosen).sum()))


def _say_target(target: Target) -> None:
    from krepes.cli.describe import line

    taken, other = (
        ("classes", "regression") if target.task == "classification" else ("a quantity", "classification")
    )
    rest = f" {target.test_rows:,} rows are kept for testing." if target.test_rows else ""
    line(f"{target.n_rows:,} labels ({target.where}) to learn from.{rest}")
    doubt = "" if target.guess is None or target.guess.plain else f" Otherwise say --task {other}."
    line(f"They are taken for {taken}: {target.why}.{doubt}", style="dim")


def _machine(
    kind: str, task: str, parameters: dict[str, Any], changes: dict[str, Any], seed: int
) -> LabelledMachine[Any, Any]:
    from krepes import machines

    name = {"ridge": "KernelRidge", "gaussian_process": "GaussianProcess"}[kind]
    cls = getattr(machines, name + ("Regressor" if task == "regression" else "Classifier"))
    known = inspect.signature(cls).parameters
    for name in [name for name in parameters if name not in known]:
        if parameters.pop(name) != DEFAULTS.get(name):
            option = next(row.option for row in ROWS if row.name == name)
            of_classes = kind == "ridge" and name in ("class_weight", "loss")
            why = (
                "is for classes; the target is a quantity."
                if of_classes
                else f"is not an option of --machine {kind}"
            )
            rest = "." if kind == "ridge" or task == "regression" else " for classes."
            raise typer.BadParameter(f"{option} {why}{'' if of_classes else rest}")
    machine = cls(**parameters, random_state=seed, verbose=1)
    return machine.set_params(**changes) if changes else machine


def _check_memory(
    machine: LabelledMachine[Any, Any],
    source: Source,
    target: Target,
    output: Path,
    overwrite: bool,
    no_sums: bool,
) -> None:
    """Refuse what memory or disk cannot hold.

    A ridge machine has n_folds matrices of m x m, times the classes where they are balanced; a Gaussian process has one
    or, for several classes, one for each.
    """
    import numpy as np

    from krepes.base.files import check_writable
    from krepes.cli.memory_needed import check_fit_memory, model_bytes, row_width
    from krepes.machines.labelled_machine import AUTO_LANDMARKS

    n = source.n_rows
    asked = machine.n_landmarks
    m = min(n, AUTO_LANDMARKS if asked == "auto" else n if asked is None else int(asked))
    c = len(np.unique(target.y)) if target.task == "classification" else 1
    folds, d = getattr(machine, "n_folds", 1), row_width(source)
    by_class = getattr(machine, "class_weight", None) == "balanced" or not hasattr(machine, "n_folds")
    sums = folds * (c if by_class else 1)
    check_fit_memory(m, sums)
    needed = model_bytes(m, d, c * folds, 0 if no_sums else 1 + sums)
    kept = 0 if no_sums else 8 * min(n, getattr(machine, "n_kept", 0)) * d
    check_writable(output, overwrite, needed + kept)


def _show(
    machine: LabelledMachine[Any, Any], output: Path, following: str, seconds: float, no_sums: bool
) -> None:
    """What was learned, how well it does, where it is, and what to do next."""
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import console, facts, line
    from krepes.report.machine_card import machine_facts

    size = readable_bytes(output.stat().st_size)
    console().print(
        facts(machine_facts(machine) | {"time": f"{seconds:.1f} s", "saved": f"{output}, {size}"})
    )
    keeps_rows = hasattr(machine, "n_kept")
    if keeps_rows:
        line(
            "Kernel and metric were chosen with the rows that are held out here, so that the score is a little too "
            "good: rows that were kept apart tell the truth (krepes evaluate).",
            style="dim",
        )
    held = "landmarks and kept rows" if keeps_rows and not no_sums else "landmarks"
    line(f"The file holds {held}, which are rows of the data: share it as you would the data.")
    line(f"Next: {following}")
