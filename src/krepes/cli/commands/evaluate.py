"""`krepes evaluate`: how well a simple classifier does on a representation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command, in_options
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    from krepes.evaluation import ProtocolResult
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
    split: Annotated[
        str | None, option("A column (or array) that says train or test in every row.", panel=options.DATA)
    ] = None,
    n_train: Annotated[
        int | None,
        option(
            "Train on the first N rows and test on the others. By default the array n_train of an .npz file, if there "
            "is one.",
            metavar="N",
            panel=options.DATA,
            min=1,
        ),
    ] = None,
    test: Annotated[
        Path | None,
        option(
            "A separate file or folder of test rows; DATA is then used for training.",
            metavar="DATA",
            panel=options.DATA,
        ),
    ] = None,
    array: options.Array = "X",
    label_fraction: Annotated[
        float | None,
        option(
            "Share of the training labels to use, drawn again in every repeat. By default all.",
            metavar="SHARE",
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
    output: Annotated[
        Path | None, option("--output", "-o", "Write the results as JSON too.", metavar="FILE")
    ] = None,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Measure a representation with labels: accuracy of a linear classifier trained on it.

    Rows without a label are left out. Every choice is made on a part of the training labels, never on test \
rows. Without --split, --n-train or --test, a fifth of the labelled rows is drawn for testing in every repeat.

    [cyan]krepes evaluate people.krepes people.parquet --split split --label-fraction 0.1[/]

    [cyan]krepes evaluate digits.krepes digits.npz --n-train 60000 --knn[/]
    """
    from krepes.base.files import check_writable
    from krepes.cli.opening import check_exists, label_in_fit, open_for

    if label_fraction is not None and not 0 < label_fraction <= 1:
        raise typer.BadParameter(
            f"--label-fraction {label_fraction:g}: expected a share above 0 and up to 1."
        )
    if sum(choice is not None for choice in (split, n_train, test)) > 1:
        raise typer.BadParameter("Give only one of --split, --n-train and --test.")
    check_exists(model, data, test)
    if output is not None:
        check_writable(output, overwrite)
    from krepes import load
    from krepes.cli.probing import probe_all
    from krepes.labelled import open_labelled

    embedding = load(model, **place)
    dataset = open_labelled(
        data,
        label=label or (label_in_fit(embedding) if labels is None else None),
        labels=labels,
        test=test,
        split=split,
        n_train=n_train,
        opener=lambda path: open_for(embedding, path, array),
    )
    probes: dict[str, dict[str, Any]] = {"linear": linear} | ({"knn": {}} if knn else {})
    protocol = {"label_fraction": label_fraction, "random_state": random_state} | draws
    results = probe_all(embedding, dataset, probes, not no_raw, protocol)
    _show(results, dataset)
    numbers = {name: _numbers(result) for name, result in results.items()}
    if output is not None:
        _write(numbers, output, overwrite)
    first = next(iter(results.values()))
    return {
        "data": dataset.describe(),
        "labels": dataset.where,
        "classes": first.results[0].classes,
        "drawn": dataset.test is None,
        "notes": _notes(results),
        "results": numbers,
    }


def _show(results: dict[str, ProtocolResult], dataset: LabelledRows) -> None:
    from krepes.cli.describe import console, line, simple_table
    from krepes.evaluation.protocol import mean_and_deviation

    first = next(iter(results.values()))
    line(
        f"{dataset.describe()}. {first.n_labels:,} labels of {len(first.results[0].classes):,} classes "
        f"({dataset.where}) to learn from, {first.n_test:,} rows to test on."
    )
    columns = ("accuracy", "balanced accuracy", "time")
    table = simple_table("", *columns, right=columns)
    for name, result in results.items():
        cells = (mean_and_deviation(values) for values in (result.accuracies, result.balanced_accuracies))
        table.add_row(name, *cells, f"{result.seconds:.1f} s" if result.seconds else "")
    console().print(table)
    if len(first.results) > 1:
        line(f"Mean ± standard deviation over {len(first.results)} draws of the labels.", style="dim")
    for note in _notes(results):
        line(f"Note: {note}.", style="dim")
    for hint in dataset.hints():
        line(in_options(hint), style="dim")


def _notes(results: dict[str, ProtocolResult]) -> list[str]:
    return list(dict.fromkeys(note for result in results.values() for note in result.notes))


def _numbers(result: ProtocolResult) -> dict[str, Any]:
    """All numbers, of every repeat."""
    return {
        "accuracy": result.accuracy,
        "balanced_accuracy": result.balanced_accuracy,
        "accuracies": result.accuracies.tolist(),
        "balanced_accuracies": result.balanced_accuracies.tolist(),
        "choices": [repeat.choice for repeat in result.results],
        "n_labels": result.n_labels,
        "n_test": result.n_test,
        "seconds": result.seconds,
    }


def _write(numbers: dict[str, Any], output: Path, overwrite: bool) -> None:
    from krepes.base.files import atomic_path

    with atomic_path(output, overwrite=overwrite) as temporary:
        temporary.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
