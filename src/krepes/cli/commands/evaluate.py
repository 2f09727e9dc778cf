"""`krepes evaluate`: how well a simple classifier does on a representation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.base.caller_warning import warn
from krepes.cli import options
from krepes.cli.command import command, in_options, json_text
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    from krepes.embedding import KernelEmbedding
    from krepes.labelled import LabelledRows

_PROTOCOL = "Protocol"


@command
def evaluate(
    model: options.Model,
    data: options.Data,
    draws: Annotated[dict[str, Any], Parameters("probe_protocol")],
    linear: Annotated[dict[str, Any], Parameters("linear_probe")],
    place: Annotated[dict[str, Any], Parameters("KernelEmbedding", only=("device",))],
    label: options.Label = None,
    labels: options.Labels = None,
    split: options.Split = None,
    n_train: options.NTrain = None,
    test: Annotated[
        Path | None,
        option(
            "A separate file or folder of test rows; DATA is then used for training.",
            metavar="DATA",
            panel=options.DATA,
        ),
    ] = None,
    encoding: options.Encoding = None,
    array: options.Array = "X",
    task: Annotated[
        str,
        option(
            "What the labels are: classification, regression, or auto, which looks at them and says what it took.",
            panel=_PROTOCOL,
            show_default=True,
        ),
    ] = "auto",
    label_fraction: Annotated[
        float | None,
        option(
            "Share of the training labels to use, drawn again in every repeat. By default all.",
            metavar="SHARE",
            panel=_PROTOCOL,
        ),
    ] = None,
    label_counts: Annotated[
        str | None,
        option(
            "Also show the score with these numbers of labels, such as 50,100,300,1000.",
            metavar="N,N,...",
            panel=_PROTOCOL,
        ),
    ] = None,
    scoring: Annotated[
        str | None,
        option(
            "Compare by another score: a name that scikit-learn knows, such as roc_auc, f1_macro or "
            "neg_root_mean_squared_error.",
            panel=_PROTOCOL,
        ),
    ] = None,
    knn: Annotated[bool, options.flag("--knn", "Also classify by nearest neighbours.", _PROTOCOL)] = False,
    no_raw: Annotated[
        bool,
        options.flag(
            "--no-raw",
            "Do not compare with the raw features, that is, the rows as they enter the kernel.",
            _PROTOCOL,
        ),
    ] = False,
    no_pca: Annotated[
        bool,
        options.flag(
            "--no-pca",
            "Do not compare with kernel PCA on the same landmarks, which takes a pass over the training rows.",
            _PROTOCOL,
        ),
    ] = False,
    baselines: Annotated[
        bool,
        options.flag(
            "--baselines",
            "Also train gradient boosting, a random forest and a tuned RBF SVM on the raw features. Slow for images.",
            _PROTOCOL,
        ),
    ] = False,
    figure: Annotated[
        Path | None, option("Draw the scores of --label-counts (.png, .pdf, .svg).", metavar="FILE")
    ] = None,
    output: Annotated[
        Path | None, option("--output", "-o", "Write the results as JSON too.", metavar="FILE")
    ] = None,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Measure a model with labels: a representation by a linear classifier trained on it, a machine by its predictions.

    The raw features and kernel PCA are measured on the same rows, and the verdict says whether the representation is \
better than they are. Labels that are quantities are predicted by ridge regression. Rows without a label are left \
out. Every choice is made on a part of the training labels, never on test rows. Without --split, --n-train or --test, \
a fifth of the labelled rows is drawn for testing in every repeat.

    Probes keep the scale of the components, which carries what was learned. In a pipeline of your own, a \
StandardScaler behind the model would undo it.

    A machine, from `krepes train`, is measured as it is, beside others that are trained on the rows kept in its file. \
On the rows that it was trained on, all of them are measured by leaving out folds.

    [cyan]krepes evaluate people.krepes people.parquet --split split --label-fraction 0.1[/]

    [cyan]krepes evaluate income.krepes test_people.parquet --baselines[/]

    [cyan]krepes evaluate digits.krepes digits.npz --label-counts 50,100,300,1000 --figure curve.png[/]
    """
    from krepes.cli.opening import check_exists, is_machine, label_in_fit, load_embedding, open_for
    from krepes.cli.outputs import check_outputs

    if label_fraction is not None and not 0 < label_fraction <= 1:
        raise typer.BadParameter(
            f"--label-fraction {label_fraction:g}: expected a share above 0 and up to 1."
        )
    if sum(choice is not None for choice in (split, n_train, test)) > 1:
        raise typer.BadParameter("Give only one of --split, --n-train and --test.")
    counts = _counts(label_counts)
    if figure is not None and not counts:
        raise typer.BadParameter("--figure draws the scores of --label-counts: give both.")
    check_exists(model, data, test)
    check_outputs(output, figure, overwrite)
    _check_names(task, scoring)
    if is_machine(model):
        unused = {
            "--test": test,
            "--task": None if task == "auto" else task,
            "--label-fraction": label_fraction,
            "--label-counts": label_counts,
            "--scoring": scoring,
            "--knn": knn or None,
            "--no-pca": no_pca or None,
        }
        given = [name for name, value in unused.items() if value is not None]
        if given:
            hint = " Give the test rows as DATA." if test is not None else ""
            raise typer.BadParameter(f"{given[0]} is for representations; {model} is a machine.{hint}")
        from krepes.cli.machine_evaluation import evaluate_machine

        scored = evaluate_machine(
            model, data, label, labels, split, n_train, array, encoding, not no_raw, baselines, **place
        )
        if output is not None:
            _write(scored["results"], output, overwrite)
        return scored
    from krepes.cli import evaluate_report as report
    from krepes.cli.probing import Wanted, probe_all
    from krepes.evaluation import guess_task, plan_protocol
    from krepes.labelled import open_labelled

    embedding = load_embedding(model, **place)
    dataset = open_labelled(
        data,
        label=label or (label_in_fit(embedding) if labels is None else None),
        labels=labels,
        test=test,
        split=split,
        n_train=n_train,
        opener=lambda path: open_for(embedding, path, array, encoding),
        encoding=encoding,
    )
    _warn_of_feature(embedding, dataset)
    name = f"The label {dataset.where}"
    guess = guess_task(dataset.y, name) if task == "auto" else None
    plan = plan_protocol(
        dataset.y,
        dataset.train,
        dataset.test,
        label_fraction=label_fraction,
        random_state=random_state,
        name=name,
        task=task if guess is None else guess.name,
        **draws,
    )
    if plan.task == "regression" and knn:
        raise ValueError(
            "--knn is for classes; the target is a quantity. Leave it out, or say --task classification."
        )
    probes: dict[str, dict[str, Any]] = {"ridge": {}} if plan.task == "regression" else {"linear": linear}
    probes |= {"knn": {}} if knn else {}
    report.show_data(dataset, plan, guess)
    wanted = Wanted(probes, not no_raw, not no_pca, baselines, scoring, counts, random_state)
    found = probe_all(embedding, dataset, plan, wanted)
    report.show_findings(found, dataset, embedding)
    numbers = report.numbers_of(found)
    if output is not None:
        _write(numbers, output, overwrite)
    if figure is not None and found.curve is not None:
        from krepes.cli.outputs import save_figure
        from krepes.evaluation import plot_label_curve

        save_figure(plot_label_curve(found.curve), figure, overwrite)
    return {
        "data": dataset.describe(),
        "labels": dataset.where,
        "task": plan.task,
        "classes": plan.labels.classes if plan.task == "classification" else None,
        "drawn": dataset.test is None,
        "notes": found.notes,
        "verdict": report.verdict_numbers(found.verdict),
        "results": numbers,
    }


def _warn_of_feature(model: KernelEmbedding, dataset: LabelledRows) -> None:
    """A label that the model has as a feature is easy to predict, and proves nothing."""
    encoder = model.input_space_.encoder
    used = [] if encoder is None else encoder.used_columns_
    column = next((name for name in used if dataset.where == f"column {name!r}"), None)
    if column is not None:
        warn(f"The column {column!r} is a feature of the model: fit without it (--label {column}).")


def _counts(text: str | None) -> list[int]:
    """Numbers of labels as they are written, 50,100,300."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) >= 2 for part in parts) or (text is not None and not parts):
        raise typer.BadParameter(
            f"--label-counts {text}: expected numbers of at least 2, such as 50,100,300."
        )
    return sorted({int(part) for part in parts})


def _check_names(task: str, scoring: str | None) -> None:
    """Refuse a task or a scorer that is not known, before the data are opened."""
    from krepes.preprocessing.targets import TASKS

    if task not in TASKS:
        raise typer.BadParameter(f"--task {task}: expected {', '.join(TASKS)}.")
    if scoring is not None:
        from krepes.evaluation.scoring import check_scoring

        try:
            check_scoring(scoring)
        except ValueError as error:
            raise typer.BadParameter(in_options(str(error))) from None


def _write(numbers: dict[str, Any], output: Path, overwrite: bool) -> None:
    from krepes.base.files import atomic_path

    with atomic_path(output, overwrite=overwrite) as temporary:
        temporary.write_text(json_text(numbers), encoding="utf-8")
