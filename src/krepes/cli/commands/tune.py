"""`krepes tune`: search for parameters with few labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option
from krepes.cli.session import say

if TYPE_CHECKING:
    from krepes.cli.tune_report import FitCommand
    from krepes.evaluation import Search

_SEARCH = "Search"
# Training of a trial is searched, or set with --set; these are options of `fit` alone.
_NOT_TUNED = (
    *("kernel__network", "kernel__network__weights", "solver__batch_size", "solver__learning_rate"),
    *("solver__replays", "solver__preconditioner", "solver__initialization"),
)
_HELD = {
    "regularization": "Keep the regularisation at this number instead of searching for it.",
    "solver__max_epochs": "The largest number of epochs of a trial. By default 60.",
}


@command
def tune(
    data: options.Data,
    parameters: Annotated[dict[str, Any], Parameters("KernelEmbedding", without=_NOT_TUNED, optional=_HELD)],
    searching: Annotated[dict[str, Any], Parameters("search")],
    label: Annotated[
        str | None,
        option(
            "The column of a table, or the array of an .npz file, that holds the labels. It is never a feature. By "
            "default the array y, or the subfolders of images.",
            panel=options.DATA,
        ),
    ] = None,
    labels: options.Labels = None,
    split: Annotated[
        str | None,
        option(
            "A column (or array) that says train or test in every row. Test rows are not used, and the column is "
            "not a feature.",
            panel=options.DATA,
        ),
    ] = None,
    n_train: Annotated[
        int | None,
        option(
            "Look only at the first N rows. By default the array n_train of an .npz file, if there is one.",
            metavar="N",
            panel=options.DATA,
            min=1,
        ),
    ] = None,
    exclude: options.Exclude = [],  # noqa: B006  (typer copies it)
    column: options.Column = [],  # noqa: B006
    missing: options.Missing = [],  # noqa: B006
    encoding: options.Encoding = None,
    array: options.Array = "X",
    size: options.Size = None,
    override: options.Override = [],  # noqa: B006
    range_: Annotated[
        list[str],
        option(
            "--range",
            "Search a parameter in this range, such as loss__temperature=0.05:5. The scale is logarithmic unless the "
            "range begins at 0 or ends in :linear. Repeat the option for several.",
            metavar="KEY=LOW:HIGH",
            panel=_SEARCH,
        ),
    ] = [],  # noqa: B006
    choice: Annotated[
        list[str],
        option(
            "Search a parameter among these values, such as solver__batch_size=128,256. Repeat the option for several.",
            metavar="KEY=A,B",
            panel=_SEARCH,
        ),
    ] = [],  # noqa: B006
    study: Annotated[
        Path | None,
        option(
            "Keep the trials in this file. If it exists, the search continues from it.",
            metavar="FILE",
            panel=_SEARCH,
        ),
    ] = None,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: Annotated[bool, options.flag("--force", "Start the study again if its file exists.")] = False,
) -> dict[str, Any]:
    """Search for good parameters with few labels, and print the command that fits with them.

    Every trial learns from rows without labels; a linear classifier on a small labelled part then scores it. \
Most losses need a single pass over the data for all trials. Choosing by labels is no longer unsupervised: say so \
beside the numbers.

    [cyan]krepes tune people.parquet --label income --study people.study[/]

    [cyan]krepes tune digits.npz --loss simclr --trials 20 --sampler tpe --range loss__temperature=0.05:5[/]
    """
    from krepes.cli.describe import line, show_encoding
    from krepes.cli.memory_needed import check_fit_memory
    from krepes.cli.model_parameters import check_trains, overrides, preprocessing
    from krepes.cli.opening import check_exists, open_data, parse_size
    from krepes.cli.tune_inputs import explored, model_from
    from krepes.cli.tune_report import FitCommand

    space = explored(range_, choice)
    check_trains(parameters)
    held = {name: parameters.pop(name) for name in [*parameters] if "__" in name or name in _HELD}
    held |= overrides(override)
    for name in held:
        if name in space:
            raise typer.BadParameter(f"{name} is both set and searched: leave one of them out.")
    if label is not None and labels is not None and labels.rpartition(".")[2][:3] in ("npy", "npz"):
        raise typer.BadParameter(f"Give either --label or --labels, not both: {labels} has no columns.")
    if split is not None and n_train is not None:
        raise typer.BadParameter("Give only one of --split and --n-train.")
    pixels = parse_size(size)
    check_exists(data)
    from krepes.evaluation.tuning.study import import_optuna

    import_optuna()
    source = open_data(data, array, pixels, encoding)
    line(f"{data}: {source.describe()}")
    check_fit_memory(min(parameters["n_landmarks"] or source.n_rows, source.n_rows))
    from krepes.evaluation import Search
    from krepes.labelled import labels_of, training_rows

    y, where = labels_of(source, data, label, labels, encoding)
    label = label if labels is None else None  # else it is a column of that table
    excluded = [*exclude, *([split] if split and source.kind == "table" and split not in exclude else [])]
    encoder = preprocessing(
        parameters["preprocess"], source, data, [label] if label else [], excluded, column, missing
    )
    show_encoding(encoder, source)
    model, given = model_from(parameters | {"preprocess": encoder}, held, space, random_state)
    n_trials = searching.pop("n_trials")
    prepared = Search(
        model,
        source,
        y,
        space={**dict.fromkeys(held), **space},
        study=study,
        overwrite=overwrite,
        rows=training_rows(source, data, split, n_train),
        random_state=random_state,
        name=f"The label {where}",
        **searching,
    )
    flags = {"label": label, "exclude": excluded, "array": array, "size": size, "random_state": random_state}
    flags |= {"column": column, "missing": missing, "encoding": encoding}
    return _run(prepared, n_trials, study, FitCommand(data, parameters | flags, given))


def _run(prepared: Search, trials: int, study: Path | None, fit: FitCommand) -> dict[str, Any]:
    """Say what will happen, do it, and show the results, also after Ctrl-C."""
    from krepes.cli.tune_report import Display, introduce, show_result

    introduce(prepared, trials, study)
    try:
        if len(prepared.study.trials) < trials:
            prepared.prepare()
        with Display(prepared.result, trials) as display:
            result = prepared.run(trials, display.update)
    except KeyboardInterrupt:
        result = prepared.result
        if result.ranked:
            show_result(result, fit)
        kept = f"{len(result.trials)} finished trials are kept in {study}; the same command continues from there."
        lost = "No trials are kept: --study FILE keeps them."
        say(f"Stopped. {kept if study is not None else lost}", style="yellow")
        raise typer.Exit(130) from None
    return show_result(result, fit)
