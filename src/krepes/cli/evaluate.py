"""`krepes evaluate`: how well a simple classifier does on a representation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    from rich.console import Console

    from krepes.cli.labelled import LabelledData
    from krepes.evaluation import ProtocolResult

_DATA, _PROTOCOL = "Data", "Protocol"
CLASSIFIERS = ("logistic", "svm")


@command
def evaluate(
    model: options.Model,
    data: options.Data,
    label: options.Label = None,
    labels: options.Labels = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A column (or array) that says train or test in every row.",
            rich_help_panel=_DATA,
            show_default=False,
        ),
    ] = None,
    n_train: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The first so many rows are for training, the others for testing. By default the array n_train of "
            "an .npz file, if there is one.",
            rich_help_panel=_DATA,
            show_default=False,
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="Test rows in a file or folder of their own; DATA is then for training.",
            rich_help_panel=_DATA,
            show_default=False,
        ),
    ] = None,
    array: options.RowArray = "X",
    label_fraction: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the training labels to use, drawn anew in every repeat. By default all.",
            rich_help_panel=_PROTOCOL,
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Draws to take mean and deviation over.", rich_help_panel=_PROTOCOL
        ),
    ] = 5,
    classifier: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The linear probe: logistic regression (logistic) or the support vector machine of the paper (svm).",
            rich_help_panel=_PROTOCOL,
        ),
    ] = "logistic",
    knn: Annotated[
        bool,
        typer.Option(
            "--knn", metavar="", help="Also classify by nearest neighbours.", rich_help_panel=_PROTOCOL
        ),
    ] = False,
    no_raw: Annotated[
        bool,
        typer.Option(
            "--no-raw",
            metavar="",
            help="Do not probe the features as they enter the kernel, which are shown for comparison.",
            rich_help_panel=_PROTOCOL,
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the results as JSON too.", show_default=False
        ),
    ] = None,
    device: options.Device = "auto",
    seed: options.Seed = 0,
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure a representation with labels: accuracy of a linear classifier trained on it.

    Rows without a label are left out. Every choice is made on a part of the training labels, never on test \
rows. Without --split, --n-train or --test, a fifth of the labelled rows is drawn for testing in every repeat.

    [cyan]krepes evaluate people.krepes people.parquet --split split --label-fraction 0.1[/]

    [cyan]krepes evaluate digits.krepes digits.npz --n-train 60000 --knn[/]
    """
    from krepes.base.files import check_writable
    from krepes.cli.data import check_exists
    from krepes.cli.describe import console

    if label_fraction is not None and not 0 < label_fraction <= 1:
        raise typer.BadParameter(
            f"--label-fraction {label_fraction:g}: expected a share above 0 and up to 1."
        )
    if classifier not in CLASSIFIERS:
        raise typer.BadParameter(f"--classifier {classifier}: expected {' or '.join(CLASSIFIERS)}.")
    if sum(choice is not None for choice in (split, n_train, test)) > 1:
        raise typer.BadParameter("Give only one of --split, --n-train and --test.")
    for path in (model, data, *([test] if test else [])):
        check_exists(path)
    if output is not None:
        check_writable(output, force)
    from krepes import load
    from krepes.cli.labelled import open_labelled
    from krepes.cli.probing import probe_all

    embedding = load(model, device=device)
    dataset = open_labelled(embedding, data, test, label, labels, array, split, n_train)
    out = console()
    probes: dict[str, dict[str, Any]] = {"linear": {"classifier": classifier}} | ({"knn": {}} if knn else {})
    results = probe_all(embedding, dataset, label_fraction, repeats, probes, not no_raw, seed)
    _show(results, dataset, out)
    if output is not None:
        _write(results, output, force)


def _show(results: dict[str, ProtocolResult], dataset: LabelledData, out: Console) -> None:
    from krepes.cli.describe import simple_table
    from krepes.evaluation.protocol import mean_and_deviation

    first = next(iter(results.values()))
    classes = first.results[0].classes
    out.print(
        f"{dataset.describe()}. {first.n_labels:,} labels of {len(classes):,} classes ({dataset.where}) to learn from, "
        f"{first.n_test:,} rows to test on.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    table = simple_table(
        "", "accuracy", "balanced accuracy", "time", right=("accuracy", "balanced accuracy", "time")
    )
    for name, result in results.items():
        cells = (mean_and_deviation(values) for values in (result.accuracies, result.balanced_accuracies))
        table.add_row(name, *cells, f"{result.seconds:.1f} s" if result.seconds else "")
    out.print(table)
    if len(first.results) > 1:
        out.print(f"Mean ± standard deviation over {len(first.results)} draws of the labels.", style="dim")
    for note in dict.fromkeys(note for result in results.values() for note in result.notes):
        out.print(f"Note: {note}.", markup=False, highlight=False, style="dim")
    for hint in dataset.hints:
        out.print(hint, markup=False, highlight=False, style="dim", soft_wrap=True)


def _write(results: dict[str, ProtocolResult], output: Path, force: bool) -> None:
    """All numbers, of every repeat."""
    from krepes.base.files import atomic_path

    content = {
        name: {
            "accuracy": result.accuracy,
            "balanced_accuracy": result.balanced_accuracy,
            "accuracies": result.accuracies.tolist(),
            "balanced_accuracies": result.balanced_accuracies.tolist(),
            "choices": [repeat.choice for repeat in result.results],
            "n_labels": result.n_labels,
            "n_test": result.n_test,
            "seconds": result.seconds,
        }
        for name, result in results.items()
    }
    with atomic_path(output, overwrite=force) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
