"""`krepes explain`: which examples a representation is made of, in the terminal or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    import numpy as np

_DATA, _SAMPLE, _REPORT = "Data", "In the terminal", "Report"
UNLIKE = 0.1  # coverage below which a sample is unlike every landmark
N_RANDOM = 500  # random rows that stand for the absence of a concept
PROBE_LABELS = 5000


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
    label: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column of a table, or the array of an .npz file, that holds labels.",
            show_default=False,
            rich_help_panel=_DATA,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Labels in a file of their own: y.npy, or y.npz:ARRAY; one per row of DATA.",
            show_default=False,
            rich_help_panel=_DATA,
        ),
    ] = None,
    array: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Which array of an .npz file holds the rows.", rich_help_panel=_DATA
        ),
    ] = "X",
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
            help="Leave real rows out of the page: it shows them to whoever opens it.",
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
    from krepes.cli.data import check_exists, open_for
    from krepes.files import check_writable

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
        _explain_row(embedding, source, y, sample, top, component, class_, against, concepts, seed)
    if output is not None:
        _write(embedding, source, output, y, concepts, title, max_rows, not no_samples, force, seed)


def _labels(model: Any, source: Any, data: Path, label: str | None, labels: str | None) -> np.ndarray | None:
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


def _concept(model: Any, source: Any, text: str, array: str, seed: int) -> Any:
    """A fitted concept from `NAME=FILE` or `NAME=FILE,FILE`."""
    import numpy as np

    from krepes.cli.data import open_for
    from krepes.explain import Concept
    from krepes.sources.subset import subset

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


def _explain_row(
    model: Any,
    source: Any,
    y: np.ndarray | None,
    row: int,
    n_top: int,
    component: int | None,
    class_: str | None,
    against: int | None,
    concepts: list[Any],
    seed: int,
) -> None:
    from krepes.cli.describe import console

    out = console()
    x = _row(source, row)
    known = None if y is None else f", {y[row]}"
    covered = float(model.coverage(x)[0])
    out.print(
        f"Row {row:,}{known or ''}: the landmarks span {covered:.0%} of it.", markup=False, highlight=False
    )
    if covered < UNLIKE:
        out.print("This sample is unlike every landmark: what follows explains little of it.", style="yellow")
    landmark_labels = _landmark_labels(model, source, y)
    if component is not None or class_ is not None:
        direction, words = _direction(model, source, y, component, class_, seed)
        other = None if against is None else _row(source, against)
        _show_contributions(model, x, other, direction, words, n_top, landmark_labels, out)
    else:
        _show_influence(model, x, n_top, landmark_labels, out)
    for concept in concepts:
        _show_concept(model, x, concept, n_top, out)


def _row(source: Any, row: int) -> Any:
    import numpy as np

    from krepes.sources.subset import subset

    if row >= source.n_rows:
        raise ValueError(f"There is no row {row:,}: {source.describe()} has rows 0 to {source.n_rows - 1:,}.")
    return subset(source, np.array([row]))


def _landmark_labels(model: Any, source: Any, y: np.ndarray | None) -> np.ndarray | None:
    """Labels of the landmarks, where these are rows of DATA."""
    from krepes.explain import landmarks_are_rows_of
    from krepes.explain.ranking import landmark_rows

    if y is None or not landmarks_are_rows_of(model, source):
        return None
    return y[landmark_rows(model)]


def _names(model: Any, landmarks: np.ndarray, labels: np.ndarray | None) -> list[str]:
    from krepes.explain.ranking import landmark_rows

    rows = landmark_rows(model)
    names = [f"landmark {index}" if rows is None else f"row {rows[index]:,}" for index in landmarks]
    return names if labels is None else [f"{name}, {labels[i]}" for name, i in zip(names, landmarks)]


def _show_influence(model: Any, x: Any, n_top: int, labels: np.ndarray | None, out: Any) -> None:
    from rich.text import Text

    from krepes.cli.describe import simple_table
    from krepes.explain import landmark_norms, leave_out, top_influence

    top = top_influence(model, x, n_top)
    norms, changes = landmark_norms(model), leave_out(model, x)[0]
    columns = ("training row", "influence", "similarity", "weight", "without it")
    table = simple_table(*columns, right=columns[1:])
    for index, value, name in zip(top.landmarks[0], top.values[0], _names(model, top.landmarks[0], labels)):
        similarity = value / norms[index] if norms[index] else 0.0
        numbers = (value, similarity, norms[index], changes[index])
        table.add_row(Text(name), *(f"{number:.3g}" for number in numbers))
    out.print(table)
    out.print(
        "influence = similarity × weight, the size of what a landmark adds. without it: how far the row moves when the "
        "other landmarks take over, small where one has a near-duplicate.",
        style="dim",
        highlight=False,
    )


def _direction(
    model: Any, source: Any, y: np.ndarray | None, component: int | None, class_: str | None, seed: int
) -> tuple[Any, str]:
    """A direction and what it is called."""
    import numpy as np

    from krepes.evaluation import linear_probe
    from krepes.explain import class_direction
    from krepes.sources.subset import subset

    if component is not None:
        return component, f"component {component}"
    if y is None:
        raise ValueError("--class needs labels: name them with --label NAME or --labels FILE.")
    rows = np.sort(np.random.default_rng(seed).permutation(source.n_rows)[:PROBE_LABELS])
    Z = model.transform(subset(source, rows))
    probe = linear_probe(Z, y[rows], Z, y[rows], random_state=seed).classifier
    wanted = next((c for c in probe.classes if str(c) == class_), class_)
    return class_direction(
        probe, wanted
    ), f"{class_} against the other classes (a probe of {len(rows):,} labels)"


def _show_contributions(
    model: Any,
    x: Any,
    other: Any,
    direction: Any,
    words: str,
    n_top: int,
    labels: np.ndarray | None,
    out: Any,
) -> None:
    import numpy as np
    from rich.text import Text

    from krepes.cli.describe import simple_table
    from krepes.explain import as_direction, attribution

    parts = attribution(model, x, direction)[0].astype(np.float64)
    constant = float(model.intercept_ @ as_direction(model, direction).numpy())
    if other is not None:
        parts, constant = parts - attribution(model, other, direction)[0], 0.0
    first = np.argsort(-np.abs(parts), kind="stable")[:n_top]
    table = simple_table("training row", "adds", "", right=("adds",))
    largest = max(float(np.abs(parts[first]).max()), 1e-300)
    for index, name in zip(first, _names(model, first, labels)):
        table.add_row(Text(name), f"{parts[index]:+.4g}", _bar(parts[index] / largest))
    table.add_row(
        f"the other {len(parts) - len(first):,} landmarks", f"{parts.sum() - parts[first].sum():+.4g}", ""
    )
    if other is None:
        table.add_row("constant", f"{constant:+.4g}", "")
    table.add_row("sum", f"{parts.sum() + constant:+.4g}", "", style="bold")
    out.print(Text(f"Along {words}{' (difference of the two rows)' if other is not None else ''}:"))
    out.print(table)


def _bar(share: float, width: int = 12) -> str:
    """
    >>> _bar(0.5, 4), _bar(-1.0, 4)
    ('    │██', '████│')
    """
    blocks = "█" * max(1, round(abs(share) * width))
    return f"{'':{width}}│{blocks}" if share >= 0 else f"{blocks:>{width}}│"


def _show_concept(model: Any, x: Any, concept: Any, n_top: int, out: Any) -> None:
    from rich.text import Text

    from krepes.cli.describe import simple_table
    from krepes.explain import concept_profile

    profile = concept_profile(model, x, concept, n_top)
    out.print(
        Text(
            f"Concept {concept.name}: {profile.sample[0]:+.3g} in this row. Told from its absence with "
            f"{concept.accuracy_:.0%} balanced accuracy (p = {concept.p_value_:.2g}), stability "
            f"{concept.stability_:.2f}."
        )
    )
    table = simple_table("training row", "alignment", "score", "adds", right=("alignment", "score", "adds"))
    names = _names(model, profile.top.landmarks[0], None)
    for place, (index, name) in enumerate(zip(profile.top.landmarks[0], names)):
        numbers = (profile.alignment[index], profile.scores[0, place], profile.exact[0, place])
        table.add_row(Text(name), *(f"{number:+.3g}" for number in numbers))
    table.add_row(
        f"all {len(names)}", "", f"{profile.psi[0]:+.3g}", f"{profile.exact[0].sum():+.3g}", style="bold"
    )
    out.print(table)
    out.print(
        "score = alignment × influence, as published; adds: the exact part of the concept in this row that the "
        "landmark brings.",
        style="dim",
        highlight=False,
    )


def _write(
    model: Any,
    source: Any,
    output: Path,
    y: np.ndarray | None,
    concepts: list[Any],
    title: str | None,
    max_rows: int,
    samples: bool,
    force: bool,
    seed: int,
) -> None:
    from krepes.cli.describe import console
    from krepes.files import readable_bytes
    from krepes.report import write_report

    write_report(
        model,
        source,
        output,
        labels=y,
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
