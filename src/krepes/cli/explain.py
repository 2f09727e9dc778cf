"""`krepes explain`: which examples a representation is made of, in the terminal or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.explain import Concept
    from krepes.sources import Source

_DATA, _SAMPLE, _REPORT = "Data", "In the terminal", "Report"
N_RANDOM = 500  # random rows that stand for the absence of a concept


@command
def explain(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.html",
            help="Write a page to open in a browser.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="ROW",
            min=0,
            help="Explain this row of DATA here.",
            show_default=False,
            rich_help_panel=_SAMPLE,
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="Landmarks to show.", rich_help_panel=_SAMPLE)
    ] = 8,
    component: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Show what every landmark adds to this component of the representation.",
            show_default=False,
            rich_help_panel=_SAMPLE,
        ),
    ] = None,
    class_: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="LABEL",
            help="Show what every landmark adds for this class, against the others, in a linear probe.",
            show_default=False,
            rich_help_panel=_SAMPLE,
        ),
    ] = None,
    against: Annotated[
        int | None,
        typer.Option(
            metavar="ROW",
            min=0,
            help="With --component or --class: explain the difference from this row.",
            show_default=False,
            rich_help_panel=_SAMPLE,
        ),
    ] = None,
    label: options.Label = None,
    labels: options.Labels = None,
    array: options.RowArray = "X",
    concept: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=FILE",
            help="A concept, by rows that have it; the absence of it are random rows of DATA, or those of a second "
            "file: NAME=FILE,FILE. May be repeated.",
            show_default=False,
        ),
    ] = [],  # noqa: B006  (typer copies it)
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Of the page.", show_default=False, rich_help_panel=_REPORT),
    ] = None,
    max_rows: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Rows on the page, drawn at random.", rich_help_panel=_REPORT),
    ] = 5000,
    no_samples: Annotated[
        bool,
        typer.Option(
            "--no-samples",
            metavar="",
            help="Leave real rows out of the page, which shows them to whoever opens it. It still holds row numbers, "
            "places on the map, coverage, influences, contributions, labels and concepts that you give, and the "
            "model's description.",
            rich_help_panel=_REPORT,
        ),
    ] = False,
    device: options.Device = "auto",
    seed: options.Seed = 0,
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Show which landmarks, real rows of the training data, a representation is made of.

    [cyan]krepes explain people.krepes people.parquet -o report.html[/]

    [cyan]krepes explain people.krepes people.parquet --sample 17[/]

    [cyan]krepes explain photos.krepes photos/ --sample 17 --class cat --concept sea=sea/[/]
    """
    from krepes import load
    from krepes.base.files import check_writable
    from krepes.cli.data import check_exists, open_for
    from krepes.cli.explain_row import explain_row

    if output is None and sample is None:
        raise typer.BadParameter(
            "Give --sample ROW to explain one row here, or -o FILE.html to write a page."
        )
    if (component is not None) + (class_ is not None) > 1:
        raise typer.BadParameter("Give only one of --component and --class.")
    if against is not None and component is None and class_ is None:
        raise typer.BadParameter(
            "--against explains a difference along --component or --class; give one of them."
        )
    for path in (model, data):
        check_exists(path)
    if output is not None:
        check_writable(output, force)
    embedding = load(model, device=device)
    source = open_for(embedding, data, array)
    y = _labels(embedding, source, data, label, labels)
    concepts = [_concept(embedding, source, text, array, seed) for text in concept]
    if sample is not None:
        explain_row(embedding, source, y, sample, top, component, class_, against, concepts, seed)
    if output is not None:
        named = None if y is None else {label or "label": y}
        _write(embedding, source, output, named, concepts, title, max_rows, not no_samples, force, seed)


def _labels(
    model: KernelEmbedding, source: Source, data: Path, label: str | None, labels: str | None
) -> np.ndarray | None:
    """Labels where they were asked for or are easily found; an explanation does not need them."""
    import numpy as np

    from krepes.cli.data import find_labels, read_labels

    try:
        y = read_labels(labels) if labels else find_labels(model, source, data, label)[0]
    except ValueError:
        if label or labels:
            raise
        return None
    if len(y) != source.n_rows:
        raise ValueError(
            f"There are {len(y):,} labels and {source.n_rows:,} rows; expected one label per row."
        )
    return np.asarray(y)


def _concept(model: KernelEmbedding, source: Source, text: str, array: str, seed: int) -> Concept:
    """A fitted concept from `NAME=FILE` or `NAME=FILE,FILE`."""
    import numpy as np

    from krepes.cli.data import open_for
    from krepes.explain import Concept
    from krepes.sources.row_subset import subset

    name, equals, files = text.partition("=")
    if not equals or not name or not files:
        raise typer.BadParameter(f"--concept {text}: expected NAME=FILE, such as sea=sea.npz.")
    with_it, _, without = files.partition(",")
    positives = open_for(model, Path(with_it), array)
    if without:
        negatives = open_for(model, Path(without), array)
    else:
        size = min(N_RANDOM, source.n_rows)
        rows = np.random.default_rng(seed).choice(source.n_rows, size, replace=False)
        negatives = subset(source, np.sort(rows))
    return Concept(positives, negatives, name=name, random_state=seed).fit(model)


def _write(
    model: KernelEmbedding,
    source: Source,
    output: Path,
    labels: dict[str, np.ndarray] | None,
    concepts: list[Concept],
    title: str | None,
    max_rows: int,
    samples: bool,
    force: bool,
    seed: int,
) -> None:
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import console
    from krepes.report import write_report

    write_report(
        model,
        source,
        output,
        labels=labels,
        concepts=concepts,
        max_rows=max_rows,
        samples=samples,
        title=title,
        overwrite=force,
        random_state=seed,
    )
    rows = (
        "It holds no row of the data."
        if not samples
        else "It shows real rows of the data to whoever opens it."
    )
    size = readable_bytes(output.stat().st_size)
    console().print(f"Wrote {output} ({size}). {rows}", markup=False, highlight=False, soft_wrap=True)
