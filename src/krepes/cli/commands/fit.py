"""`krepes fit`: learn a representation and save it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from krepes.cli import options
from krepes.cli.command import changed, command
from krepes.cli.options import DATA, MODEL, STREAM, option
from krepes.cli.parameters import EmbeddingOptions
from krepes.cli.terminal import line

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.sources import Source


@dataclass(frozen=True)
class Streaming:
    """Data that arrive."""

    panel: ClassVar[str] = STREAM

    follow: Annotated[bool, option("--follow", "DATA is a folder: absorb files as they arrive.")] = False
    once: Annotated[bool, option("--once", "With --follow: absorb the files that are there, and end.")] = (
        False
    )
    poll: Annotated[float, option("With --follow: between two looks.", metavar="SECONDS")] = 2.0
    half_life: Annotated[
        float | None, option("With --follow or --base: after which a weight halves.", metavar="ROWS")
    ] = None


@command
def fit(
    rows: options.NewRows,
    new: options.NewModel,
    chosen: EmbeddingOptions,
    parts: options.PartOptions,
    stream: Streaming,
    label: Annotated[
        list[str], option("Column of labels: never a feature. Repeatable.", metavar="COLUMN", panel=DATA)
    ] = [],  # noqa: B006  (typer copies it)
    select: Annotated[bool, option("--select", "Let the labels choose among refits.", panel=MODEL)] = False,
    no_moments: Annotated[
        bool, option("--no-moments", "A smaller file, that is not continued or merged.", panel=MODEL)
    ] = False,
) -> dict[str, Any]:
    """Learn a representation from unlabelled rows and save it as one file.

    \b[cyan]krepes fit people.parquet --label income --exclude id -o people.krepes[/]
    [cyan]krepes fit photos/ --size 32 --loss simclr --set kernel__lengthscale=2 -o photos.krepes[/]
    [cyan]krepes fit part.parquet --base people.krepes --first-row 100000 -o part.krepes[/]
    [cyan]krepes fit --follow arriving/ --half-life 100000 -o stream.krepes[/]
    """
    from krepes.cli.memory_needed import check_room, fit_cost
    from krepes.cli.work.fitting import continued, fit_part, learn, show_saved
    from krepes.embedding import KernelEmbedding

    others = {"--select": select, "--no-moments": no_moments, "--label": label}
    _check(rows, chosen, parts, stream, [name for name, value in others.items() if value])
    if stream.follow:
        return _follow(rows, new, chosen, parts, stream, label)
    chosen.model(chosen.parameters())  # wrong names are seen before the data are opened
    new.check()
    source = rows.open()
    weight = parts.weights(source, rows.data)
    if parts.base is not None:
        part = continued(parts.base, new.device, "train", KernelEmbedding)
        return fit_part(part, source, new, parts, sample_weight=weight, half_life=stream.half_life)
    beside = (parts.sample_weight, parts.groups)
    prepared = rows.preprocessing(source, label, beside, chosen.preprocess or "auto")
    model = chosen.model(chosen.parameters(), preprocess=prepared, engine=parts.engine, **new.settings())
    check_room(model, source, None if new.dry_run else new.output, new.overwrite, sums=not no_moments)
    if new.dry_run:
        return fit_cost(model, source)
    labels = _training_labels(source, rows.data, label) if select else None
    start = time.perf_counter()
    learn(model, source, None, weight, parts)
    selection = {}
    if labels is not None:
        model = model.select(source, labels)
        line(str(model.selection_))
        selection = {"selection": [asdict(each) for each in model.selection_.candidates]}
    model.save(new.output, moments=not no_moments, overwrite=new.overwrite)
    return (
        show_saved(model, source, new.output, start, _next_command(model, new.output, rows.data)) | selection
    )


def _check(
    rows: options.NewRows,
    chosen: EmbeddingOptions,
    parts: options.PartOptions,
    stream: Streaming,
    kept: list[str],
) -> None:
    """Refuse options that do not go together, before anything is opened."""
    from krepes.cli.work.fitting import brought, refuse

    if stream.once and not stream.follow:
        raise typer.BadParameter("--once is for --follow.")
    if parts.first_row is not None and (parts.base is None or stream.follow):
        raise typer.BadParameter("--first-row is for a part of the data: give --base, and not --follow.")
    if stream.half_life is not None and not stream.follow and parts.base is None:
        raise typer.BadParameter("--half-life is for streams: give --follow, or --base.")
    if stream.follow:
        of_files = changed(rows, ("data", "exclude", "columns", "missing"))
        weights = changed(parts, ("base", "groups", "engine"))
        refuse([*of_files, *weights, *(set(kept) - {"--label"})], "it does not go with --follow.")
    if parts.base is not None:
        refuse([*brought(rows, chosen, parts), *kept], f"--base {parts.base} brings its own.")


def _follow(
    rows: options.NewRows,
    new: options.NewModel,
    chosen: EmbeddingOptions,
    parts: options.PartOptions,
    stream: Streaming,
    label: list[str],
) -> dict[str, Any]:
    """Absorb files as they arrive. The model is that of --base without its rows, or one that the first file fixes."""
    from krepes.cli.work.fitting import continued, follow
    from krepes.embedding import KernelEmbedding

    if parts.base is not None:
        model = continued(parts.base, new.device, "train", KernelEmbedding)
    else:
        encoder = rows.encoder(label, (parts.groups,))
        prepared = encoder or chosen.preprocess or "auto"
        model = chosen.model(chosen.parameters(), preprocess=prepared, **new.settings())
    arguments = {"half_life": stream.half_life, "groups": parts.groups}
    return follow(rows.data, model, new.output, stream.once, stream.poll, arguments)


def _training_labels(source: Source, data: Path, label: list[str]) -> np.ndarray:
    """The labels of every row; labels of test rows, where the file tells them apart, are hidden."""
    from krepes.labelled import labels_of, training_rows

    y, _ = labels_of(source, data, label[0] if label else None)
    train = training_rows(source, data, None, None)
    if train is None:
        return y
    visible = y.astype(object)
    visible[~train] = None
    return visible


def _next_command(model: KernelEmbedding, output: Path, data: Path) -> list[str]:
    """The next command to try: evaluate if there are labels, otherwise transform."""
    from krepes.labelled import array_names

    space = model.input_space_
    labelled = (space.encoder is not None and space.encoder.label) or "y" in array_names(data)
    if labelled or (data.is_dir() and space.kind == "images"):
        return ["evaluate", str(output), str(data)]
    return ["transform", str(output), str(data), "-o", "features.parquet"]
