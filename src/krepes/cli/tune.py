"""`krepes tune`: search for parameters with few labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import model_options, options
from krepes.cli.names import estimator_defaults
from krepes.cli.session import command, say

if TYPE_CHECKING:
    from rich.console import Console
    from typer.models import OptionInfo

    from krepes.cli.tune_report import Command
    from krepes.evaluation import Search

_DEFAULTS = estimator_defaults()
_SEARCH = "Search"


def _search_option(metavar: str, text: str, **settings: Any) -> OptionInfo:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=_SEARCH, **settings)


def _data_option(metavar: str, text: str, **settings: Any) -> OptionInfo:
    return typer.Option(
        metavar=metavar, help=text, rich_help_panel=model_options.DATA, show_default=False, **settings
    )


@command
def tune(
    data: options.Data,
    label: Annotated[
        str | None,
        _data_option(
            "NAME",
            "The column of a table, or the array of an .npz file, that holds the labels; never a feature. By default "
            "the array y, or the subfolders of images.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        _data_option("FILE", "Labels in a file of their own: y.npy, or y.npz:ARRAY; one per row of DATA."),
    ] = None,
    split: Annotated[
        str | None,
        _data_option(
            "NAME", "A column (or array) that says train or test in every row: test rows are not looked at."
        ),
    ] = None,
    n_train: Annotated[
        int | None,
        _data_option(
            "N",
            "Only the first so many rows are looked at. By default the array n_train of an .npz file, if there is one.",
            min=1,
        ),
    ] = None,
    exclude: model_options.Exclude = [],  # noqa: B006  (typer copies it)
    array: model_options.Array = "X",
    size: model_options.Size = None,
    preprocess: model_options.Preprocess = _DEFAULTS["preprocess"],
    n_components: model_options.Components = _DEFAULTS["n_components"],
    n_landmarks: model_options.Landmarks = _DEFAULTS["n_landmarks"],
    loss: model_options.LossName = _DEFAULTS["loss"],
    kernel: model_options.KernelName = _DEFAULTS["kernel"],
    lengthscale: model_options.Lengthscale = None,
    views: model_options.ViewsName = _DEFAULTS["views"],
    landmarks: model_options.LandmarkRule = _DEFAULTS["landmarks"],
    regularization: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            min=0,
            help="Keep it at this number instead of searching for it.",
            rich_help_panel=model_options.MODEL,
            show_default=False,
        ),
    ] = None,
    solver: model_options.SolverName = _DEFAULTS["solver"],
    override: model_options.Override = [],  # noqa: B006
    epochs: Annotated[
        int | None, model_options.training_option("N", "Most epochs of a trial; by default 60.", min=1)
    ] = None,
    trials: Annotated[int, _search_option("N", "Trials in all, those of earlier runs included.", min=1)] = 20,
    sampler: Annotated[
        str, _search_option("NAME", "random, or tpe, which draws near what did well before.")
    ] = "random",
    range_: Annotated[
        list[str],
        typer.Option(
            "--range",
            metavar="KEY=LOW:HIGH",
            help="Search a parameter in this range, such as loss__temperature=0.05:5; logarithmic unless it begins at "
            "0 or ends in :linear. Repeat for several.",
            rich_help_panel=_SEARCH,
        ),
    ] = [],  # noqa: B006
    choice: Annotated[
        list[str],
        _search_option(
            "KEY=A,B",
            "Search a parameter among these values, such as solver__batch_size=128,256. Repeatable.",
        ),
    ] = [],  # noqa: B006
    metric: Annotated[
        str,
        _search_option(
            "NAME", "accuracy, balanced_accuracy, or auto: balanced where classes differ in size."
        ),
    ] = "auto",
    validation_fraction: Annotated[
        float | None,
        _search_option(
            "SHARE",
            "Share of the rows to keep from the model and use the labels of. By default 2 % of images and 10 % of "
            "other rows, and at least 20 rows per class.",
            show_default=False,
        ),
    ] = None,
    label_fraction: Annotated[
        float, _search_option("SHARE", "Share of these that the probe learns from; the others score it.")
    ] = 0.5,
    study: Annotated[
        Path | None,
        _search_option(
            "FILE",
            "Keep the trials here. If the file exists the search goes on from it.",
            show_default=False,
        ),
    ] = None,
    dtype: model_options.DType = _DEFAULTS["dtype"],
    device: options.Device = _DEFAULTS["device"],
    seed: options.Seed = 0,
    threads: options.Threads = None,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Start a study anew where its file exists.")
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Search for good parameters with few labels, and print the command that fits with them.

    Every trial learns from rows without labels; a linear classifier on a small labelled part then scores it. \
Most losses need a single pass over the data for all trials. Choosing by labels is no longer unsupervised: say so \
beside the numbers.

    [cyan]krepes tune people.parquet --label income --study people.study[/]

    [cyan]krepes tune digits.npz --loss simclr --trials 20 --sampler tpe --range loss__temperature=0.05:5[/]
    """
    from krepes.cli.data import check_exists, open_data, parse_size
    from krepes.cli.describe import console
    from krepes.cli.needs import check_fit_memory
    from krepes.cli.tune_inputs import explored, model_from, tuned_labels, used_rows
    from krepes.cli.tune_report import Command

    space = explored(range_, choice)
    overrides = dict(map(model_options.override, override))
    if epochs is not None:
        model_options.check_trains(loss, solver)
        overrides = {"solver__max_epochs": epochs} | overrides
    if lengthscale is not None:
        overrides = {"kernel__lengthscale": model_options.lengthscale_value(lengthscale)} | overrides
    if regularization is not None:
        overrides = {"regularization": regularization} | overrides
    for name in overrides:
        if name in space:
            raise typer.BadParameter(f"{name} is both set and searched: leave one of them out.")
    check_exists(data)
    pixels = parse_size(size)
    from krepes.evaluation.tuning.study import import_optuna

    import_optuna()
    source = open_data(data, array, pixels)
    out = console()
    out.print(f"{data}: {source.describe()}", markup=False, highlight=False)
    check_fit_memory(min(n_landmarks, source.n_rows))
    y, where = tuned_labels(source, data, label, labels)
    rows = used_rows(source, data, split, n_train)
    excluded = [*exclude, *([split] if split and source.kind == "table" and split not in exclude else [])]
    settings = {
        "n_components": n_components,
        "kernel": kernel,
        "loss": loss,
        "views": views,
        "landmarks": landmarks,
        "n_landmarks": n_landmarks,
        "solver": solver,
        "preprocess": preprocess,
        "device": device,
        "dtype": dtype,
    }
    model, given = model_from(settings, overrides, space, source, data, label, excluded, seed)
    from krepes.evaluation import Search

    prepared = Search(
        model,
        source,
        y,
        sampler=sampler,
        space={**dict.fromkeys(overrides), **space},
        validation_fraction=validation_fraction,
        label_fraction=label_fraction,
        metric=metric,
        study=study,
        overwrite=force,
        rows=rows,
        random_state=seed,
        name=f"The label {where}",
    )
    flags = {"label": label, "exclude": excluded, "array": array, "size": size, "seed": seed}
    _run(prepared, trials, study, Command(data, settings | flags, given), out)


def _run(prepared: Search, trials: int, study: Path | None, fit: Command, out: Console) -> None:
    """Say what is to happen, do it, and show what came of it, also after Ctrl-C."""
    from krepes.cli.tune_report import Display, introduce, show_result

    introduce(prepared, trials, study, out)
    try:
        if len(prepared.study.trials) < trials:
            prepared.prepare()
        with Display(prepared.result, trials) as display:
            result = prepared.run(trials, display.update)
    except KeyboardInterrupt:
        result = prepared.result
        if result.ranked:
            show_result(result, fit, out)
        kept = (
            f"{len(result.trials)} finished trials are kept in {study}; the same command goes on from there."
        )
        lost = "No trials are kept: --study FILE keeps them."
        say(f"Stopped. {kept if study is not None else lost}", style="yellow")
        raise typer.Exit(130) from None
    show_result(result, fit, out)
