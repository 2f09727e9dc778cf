"""`krepes fit`: learn a representation and save it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.sources import Source


@command
def fit(
    data: options.Data,
    output: Annotated[Path, option("--output", "-o", "The model file to write.", metavar="MODEL")],
    parameters: Annotated[dict[str, Any], Parameters("KernelEmbedding")],
    label: Annotated[
        list[str],
        option(
            "A column that holds labels. It is never a feature, and `evaluate` finds it by itself. Repeat the option "
            "for several.",
            metavar="COLUMN",
            panel=options.DATA,
        ),
    ] = [],  # noqa: B006  (typer copies it)
    exclude: options.Exclude = [],  # noqa: B006
    column: options.Column = [],  # noqa: B006
    missing: options.Missing = [],  # noqa: B006
    encoding: options.Encoding = None,
    sample_weight: options.SampleWeight = None,
    array: options.Array = "X",
    size: options.Size = None,
    override: options.Override = [],  # noqa: B006
    select: Annotated[
        bool,
        options.flag(
            "--select",
            "Let the labels of --label (or the array y) choose among refits of the model: other feature noise, kernel "
            "PCA, fewer components. Rows without a label are left out of the choice.",
            options.MODEL,
        ),
    ] = False,
    no_moments: Annotated[
        bool,
        options.flag(
            "--no-moments",
            "Write a smaller file, without the sums that refit, partial_fit and merge need.",
            options.MODEL,
        ),
    ] = False,
    groups: options.Groups = None,
    base: options.Base = None,
    first_row: options.FirstRow = None,
    follow: Annotated[
        bool,
        options.flag(
            "--follow",
            "DATA is a folder that files arrive in: absorb each of them once, in the order of their names, until "
            "stopped by Ctrl-C or SIGTERM. MODEL is written as they are absorbed; the same command continues from it.",
            options.STREAM,
        ),
    ] = False,
    once: Annotated[
        bool,
        options.flag("--once", "With --follow: absorb the files that are there, and end.", options.STREAM),
    ] = False,
    poll: Annotated[
        float,
        option(
            "With --follow: seconds between two looks at the folder.",
            metavar="SECONDS",
            panel=options.STREAM,
            show_default=True,
        ),
    ] = 2.0,
    half_life: Annotated[
        float | None,
        option(
            "With --follow or --base: a row counts half as much when so many rows have come after it.",
            metavar="ROWS",
            panel=options.STREAM,
        ),
    ] = None,
    checkpoint: options.Checkpoint = None,
    engine: options.Engine = None,
    dry_run: options.DryRun = False,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Learn a representation from unlabelled rows and save it as one file.

    [cyan]krepes fit people.parquet --label income --exclude id -o people.krepes[/]

    [cyan]krepes fit people.parquet --label income --select -o people.krepes[/]

    [cyan]krepes fit digits.npz -o digits.krepes --n-landmarks 2000[/]

    [cyan]krepes fit /shared/people/ -o people.krepes --engine tcp://host:8786 --dry-run[/]

    [cyan]krepes fit digits.npz -o digits.krepes --loss simclr --epochs 20[/]

    [cyan]krepes fit photos/ --size 32 -o photos.krepes[/]

    [cyan]krepes fit part.parquet --base people.krepes --first-row 100000 -o part.krepes[/]

    [cyan]krepes fit --follow arriving/ --half-life 100000 -o stream.krepes[/]

    [cyan]krepes fit photos.npz -o photos.krepes --kernel empirical-ntk --network efficientnet-lite0 --weights FILE[/]
    """
    from krepes.base.files import check_writable
    from krepes.cli.describe import line, model_summary, show_columns
    from krepes.cli.fit_part import continued, fit_part, refuse_given, refuse_options
    from krepes.cli.fit_part import follow as follow_folder
    from krepes.cli.memory_needed import check_fit_memory, model_bytes, row_width
    from krepes.cli.model_parameters import check_trains, overrides, preprocessing, split_by_component
    from krepes.cli.opening import check_exists, open_data, parse_size

    check_trains(parameters)
    _check_parts(follow, once, base, first_row, half_life)
    others: dict[str, object]
    given: dict[str, Any]
    if follow:
        others = {"--select": select, "--no-moments": no_moments, "--checkpoint": checkpoint, "--size": size}
        others |= {"--sample-weight": sample_weight, "--encoding": encoding, "--array": array != "X"}
        refuse_given(others, "it does not go with --follow.")
    if base is not None:
        others = {
            "--set": override,
            "--select": select,
            "--no-moments": no_moments,
            "--checkpoint": checkpoint,
        }
        others |= {"--label": label, "--exclude": exclude, "--column": column, "--missing": missing}
        refuse_options("KernelEmbedding", parameters, others, f"--base {base} brings its own.")
    changes = overrides(override)
    pixels = parse_size(size)
    check_exists(data, base)
    if follow:
        given = {"half_life": half_life, "groups": groups}
        model = _followed(
            data, base, parameters, changes, label, exclude, groups, random_state, column, missing
        )
        return follow_folder(data, model, output, once, poll, given)
    if not dry_run:
        check_writable(output, overwrite)
    source = open_data(data, array, pixels, encoding)
    line(f"{data}: {source.describe()}")
    from krepes import KernelEmbedding
    from krepes.labelled import weights_of

    counts = None if sample_weight is None else weights_of(source, data, sample_weight)
    if base is not None:
        part = continued(base, KernelEmbedding, parameters["device"])
        given = {"sample_weight": counts, "first_row": first_row, "groups": groups, "half_life": half_life}
        return fit_part(part, source, output, overwrite, **given)
    labels = _training_labels(source, data, label) if select else None
    if sample_weight is not None and source.kind == "table":
        exclude = [*exclude, sample_weight]
    if groups is not None and source.kind == "table":
        exclude = [*exclude, groups]
    m = min(parameters["n_landmarks"] or source.n_rows, source.n_rows)
    own, of_parts = split_by_component(parameters)
    own["preprocess"] = preprocessing(own["preprocess"], source, data, label, exclude, column, missing)
    start = time.perf_counter()
    model = KernelEmbedding(**own, engine=engine, random_state=random_state, verbose=1)
    folds, h = model.folds_kept or 1, model.n_components
    check_fit_memory(m, 3 * (folds - 1))
    matrices = 0 if no_moments else 1 + 3 * folds
    needed = model_bytes(m, row_width(source), m if isinstance(h, str) else h, matrices)
    if not dry_run:
        check_writable(output, overwrite, needed)
    if of_parts | changes:
        model.set_params(**of_parts, **changes)
    if dry_run:
        from krepes.cli.folder_results import fit_cost, say_cost

        return say_cost(fit_cost(model, source), "Landmarks and columns were those of the first rows.")
    space = model.prepare(source, sample_weight=counts)
    show_columns(space.inputs)
    model.fit(source, groups=groups, sample_weight=counts, checkpoint=checkpoint, space=space)
    model.verbose = 0
    if labels is not None:
        model = model.select(source, labels)
        line(str(model.selection_))
    model.save(output, moments=not no_moments, overwrite=overwrite)
    seconds = time.perf_counter() - start
    following = _next_command(model, output, data)
    _show(model, output, following, seconds)
    facts = {
        "data": source.describe(),
        "model": str(output),
        "bytes": output.stat().st_size,
        "seconds": seconds,
    }
    chosen = {"selection": [asdict(each) for each in model.selection_.candidates]} if select else {}
    return facts | model_summary(model) | chosen | {"next": following}


def _check_parts(
    follow: bool, once: bool, base: Path | None, first_row: int | None, half_life: float | None
) -> None:
    """Refuse options of parts and streams where there are none."""
    if once and not follow:
        raise typer.BadParameter("--once is for --follow.")
    if first_row is not None and (base is None or follow):
        raise typer.BadParameter("--first-row is for a part of the data: give --base, and not --follow.")
    if half_life is not None and not follow and base is None:
        raise typer.BadParameter("--half-life is for streams: give --follow, or --base.")


def _followed(
    folder: Path,
    base: Path | None,
    parameters: dict[str, Any],
    changes: dict[str, Any],
    label: list[str],
    exclude: list[str],
    groups: str | None,
    seed: int,
    column: list[str],
    missing: list[str],
) -> KernelEmbedding:
    """The model that a stream starts with: that of --base without its rows, or one that the first file fixes."""
    from krepes import KernelEmbedding, TableEncoder
    from krepes.cli.fit_part import continued
    from krepes.cli.model_parameters import key_and_value, split_by_component

    if base is not None:
        return continued(base, KernelEmbedding, parameters["device"])
    own, of_parts = split_by_component(parameters)
    left_out = [*label[1:], *exclude, *([] if groups is None else [groups])]
    if label or left_out or column or missing:
        kinds = dict(key_and_value(text, "--column", "NAME=KIND, such as age=number") for text in column)
        own["preprocess"] = TableEncoder(
            label=label[0] if label else None,
            exclude=left_out,
            columns=kinds or None,
            missing=missing or None,
        )
    model = KernelEmbedding(**own, random_state=seed)
    return model.set_params(**of_parts, **changes) if of_parts | changes else model


def _training_labels(source: Source, data: Path, label: list[str]) -> np.ndarray:
    """The labels of every row; those of test rows, where the file tells them apart, are hidden."""
    from krepes.labelled import labels_of, training_rows

    y, _ = labels_of(source, data, label[0] if label else None)
    train = training_rows(source, data, None, None)
    if train is None:
        return y
    visible = y.astype(object)
    visible[~train] = None
    return visible


def _show(model: KernelEmbedding, output: Path, following: str, seconds: float) -> None:
    """What was fitted, where it is, and what to do next."""
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import console, facts, line, model_facts

    size = readable_bytes(output.stat().st_size)
    console().print(facts(model_facts(model) | {"time": f"{seconds:.1f} s", "saved": f"{output}, {size}"}))
    line(
        f"The file holds its {len(model.landmarks_):,} landmarks, which are rows of the data: share it as you would "
        "the data."
    )
    line(f"Next: {following}")


def _next_command(model: KernelEmbedding, output: Path, data: Path) -> str:
    """The next command to try: evaluate if there are labels, otherwise transform."""
    from krepes.labelled import array_names

    space = model.input_space_
    labelled = (space.encoder is not None and space.encoder.label) or "y" in array_names(data)
    if labelled or (data.is_dir() and space.kind == "images"):
        return f"krepes evaluate {output} {data}"
    return f"krepes transform {output} {data} -o features.parquet"
