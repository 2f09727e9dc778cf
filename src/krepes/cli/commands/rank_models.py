"""`krepes rank-models`: which model's features suit the labels, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
    import numpy as np

    from krepes.alignment import Transferability
    from krepes.cli.features import FeatureFile

FEATURES_HELP = (
    "One file per model, a row of features per sample, all in the same order: .npy, .npz (FILE.npz:ARRAY), "
    ".parquet, .csv."
)
SORTS = {"log-cka": "log_cka", "logme": "logme", "h-score": "h_score", "leep": "leep"}


@command
def rank_models(
    features: Annotated[
        list[str], typer.Argument(metavar="FEATURES...", help=FEATURES_HELP, show_default=False)
    ],
    scoring: Annotated[dict[str, Any], Parameters("transferability")],
    labels: Annotated[
        str | None,
        option("The class of every row: y.npy, y.npz:ARRAY, or a table with --label COLUMN.", metavar="FILE"),
    ] = None,
    label: Annotated[
        str | None,
        option(
            "The column of labels, in the file of --labels or else in the first table of features. It is never a "
            "feature.",
            metavar="COLUMN",
        ),
    ] = None,
    probabilities: Annotated[
        list[str],
        option(
            "Class probabilities that a model's own classifier gives, for LEEP. Repeat the option: one file for each "
            "model, in their order.",
            metavar="FILE",
        ),
    ] = [],  # noqa: B006  (typer copies it)
    sort_by: Annotated[
        str,
        option(
            f"The score to sort by: {', '.join(SORTS)}.",
            metavar="SCORE",
            panel="Scores",
            show_default=True,
        ),
    ] = "log-cka",
    sketch: Annotated[
        int,
        option(
            "Compute CKA only, from a sketch of M buckets (a power of two) for all models, with O(M d) memory. 0 is "
            "exact, and sketched only above --max-width.",
            metavar="M",
            panel="Scores",
            min=0,
            show_default=True,
        ),
    ] = 0,
    exclude: options.Exclude = [],  # noqa: B006
    encoding: options.Encoding = None,
    output: options.CsvFile = None,
    figure: options.Figure = None,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Rank pretrained models, or layers, by how well their features suit labels. Each file is read once.

    [cyan]krepes rank-models resnet.npy vit.npy clip.parquet --labels y.npy[/]

    [cyan]krepes rank-models layers.npz:l3 layers.npz:l4 --labels layers.npz:y -o ranking.csv --figure ranking.png[/]

    log CKA: the alignment of features and classes, 0 at best; z is its distance
    from chance in deviations, p how often chance reaches it. A CKA that is not
    above zero has no logarithm and is shown as CKA ≤ 0. LogME: the evidence of a
    linear model. H-score: how far apart class means lie, 0 for noise. Larger is
    better; blank is undefined, or not computed where CKA is sketched.
    """
    from krepes.cli.describe import line
    from krepes.cli.features import open_aligned
    from krepes.cli.outputs import check_outputs, save_figure, write_csv

    _check(features, labels, label, probabilities, sort_by, sketch)
    check_outputs(output, figure, overwrite, tables=(".csv",))
    opened = open_aligned(features, (label,) if label else (), exclude, encoding)
    y = _labels(features, labels, label, opened[0].n_rows, encoding)
    sketching = {"method": "sketch", "n_buckets": sketch} if sketch else {}
    settings = scoring | sketching | {"rank_by": SORTS[sort_by], "seed": random_state}
    found = _ranked(opened, y, probabilities, encoding, settings)
    line(f"{found.n_rows:,} rows, {found.n_classes} classes")
    _print(found)
    rows = found.rows()
    if output is not None:
        write_csv(output, [list(rows[0]), *(list(row.values()) for row in rows)], overwrite)
    if figure is not None:
        from krepes.alignment import plot_transferability

        save_figure(plot_transferability(found), figure, overwrite)
    return {"rows": found.n_rows, "classes": found.n_classes, "sorted_by": sort_by, "models": rows}


def _check(
    features: list[str],
    labels: str | None,
    label: str | None,
    probabilities: list[str],
    sort_by: str,
    sketch: int,
) -> None:
    """Refuse options that do not fit together, before any file is read."""
    from krepes.cli.features import check_buckets

    if sort_by not in SORTS:
        raise typer.BadParameter(f"--sort-by {sort_by}: expected {', '.join(SORTS)}.")
    check_buckets(sketch)
    if sketch and sort_by in ("logme", "h-score"):
        raise typer.BadParameter(f"--sort-by {sort_by}: --sketch gives CKA only.")
    if len(set(features)) < len(features):
        raise typer.BadParameter("The same file is given twice: name every model once.")
    if probabilities and len(probabilities) != len(features):
        raise typer.BadParameter(
            f"--probabilities is given {len(probabilities)} times for {len(features)} models: expected one for each."
        )
    if sort_by == "leep" and not probabilities:
        raise typer.BadParameter("--sort-by leep needs --probabilities.")
    if labels is None and label is None:
        raise typer.BadParameter(
            "Which classes? Give --labels FILE (y.npy, y.npz:ARRAY), or --label COLUMN of a table."
        )


def _labels(
    features: list[str], labels: str | None, label: str | None, n_rows: int, encoding: str | None
) -> np.ndarray:
    """The labels: an array, a column of a separate table, or a column beside the features."""
    from krepes.labelled import ARRAYS, read_labels, split_array

    if labels is None:
        tables = [file for file in features if Path(split_array(file, "")[0]).suffix.lower() not in ARRAYS]
        if not tables:
            raise ValueError(
                f"--label {label}: there is no table that could have this column. Give --labels FILE."
            )
        labels = tables[0]
    y = read_labels(labels, label, encoding)
    if len(y) != n_rows:
        raise ValueError(f"There are {len(y):,} labels for {n_rows:,} rows of features.")
    return y


def _ranked(
    opened: list[FeatureFile],
    y: np.ndarray,
    probabilities: list[str],
    encoding: str | None,
    settings: dict[str, Any],
) -> Transferability:
    """One pass over every file."""
    from krepes.alignment import transferability
    from krepes.cli.features import open_aligned

    class_files = open_aligned(probabilities, encoding=encoding)
    return transferability(
        {file.name: (batch for _, batch in file.finite_batches()) for file in opened},
        y,
        probabilities={file.name: other.matrix() for file, other in zip(opened, class_files)},
        **settings,
    )


def _print(found: Transferability) -> None:
    from rich.text import Text

    from krepes.cli.describe import console, line, simple_table

    (headings, *lines), notes = found.cells()
    table = simple_table(*headings, right=tuple(headings[1:]))
    for cells in lines:
        table.add_row(*map(Text, cells))
    console().print(table)
    for note in notes:
        line(note)
