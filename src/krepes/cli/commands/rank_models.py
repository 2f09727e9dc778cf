"""`krepes rank-models`: which model's features suit the labels, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.options import option
from krepes.cli.parameters import given_values
from krepes.cli.result_files import TableFiles
from krepes.cli.terminal import line, show_table

if TYPE_CHECKING:
    import numpy as np

FEATURES = "One file per model, with a row per sample in the same order: .npy, .npz (FILE.npz:ARRAY), .parquet, .csv."
SCORES = "Scores"
SORTS = {
    "left-out": "leave_one_out",
    "log-cka": "log_cka",
    "logme": "logme",
    "h-score": "h_score",
    "leep": "leep",
}


@command
def rank_models(
    features: Annotated[list[str], options.argument("FEATURES...", FEATURES)],
    files: TableFiles,
    labels: Annotated[
        str | None, option("The class of every row: y.npy, y.npz:ARRAY, or a table.", metavar="FILE")
    ] = None,
    label: Annotated[
        str | None, option("The column of --labels, or else of the first table.", metavar="COLUMN")
    ] = None,
    probabilities: Annotated[
        list[str], option("Probabilities of each model's own classes, for LEEP.", metavar="FILE")
    ] = [],  # noqa: B006  (typer copies it)
    sort_by: Annotated[str, option(f"The score to sort by: {', '.join(SORTS)}.", panel=SCORES)] = "left-out",
    sketch: Annotated[
        int,
        option(
            "CKA from a sketch of M buckets (a power of two), no LogME and H-score.",
            metavar="M",
            panel=SCORES,
            min=0,
        ),
    ] = 0,
    n_permutations: Annotated[
        int | None,
        option("--permutations", "Shuffles for p-values of sketches. By default 99.", panel=SCORES, min=1),
    ] = None,
    max_width: Annotated[
        int | None, option("Files with more features are sketched. By default 2048.", panel=SCORES, min=1)
    ] = None,
    exclude: options.Exclude = [],  # noqa: B006
    encoding: options.Encoding = None,
    random_state: options.Seed = 0,
) -> dict[str, Any]:
    """Rank pretrained models, or layers, by how well their features suit labels. Each file is read once.

    \b[cyan]krepes rank-models resnet.npy vit.npy clip.parquet --labels y.npy[/]
    [cyan]krepes rank-models layers.npz:l3 layers.npz:l4 --labels layers.npz:y -o ranking.csv --figure ranking.png[/]

    left out: accuracy of ridge regression on rows that it was fitted without, and
    its standard error. log CKA: the alignment of features and classes, 0 at best;
    z is its distance from chance in deviations, p how often chance reaches it. A
    CKA that is not above zero has no logarithm and is shown as CKA ≤ 0. LogME: the
    evidence of a linear model. H-score: how far apart class means lie, 0 for noise.
    Larger is better; blank is undefined, or not computed where CKA is sketched.
    """
    from krepes.alignment import plot_transferability, transferability
    from krepes.cli.work.features import open_aligned

    _check(features, labels, label, probabilities, sort_by, sketch)
    files.check()
    opened = open_aligned(features, (label,) if label else (), exclude, encoding)
    y = _labels(features, labels, label, opened[0].n_rows, encoding)
    sketching = {"method": "sketch", "n_buckets": sketch} if sketch else {}
    settings = given_values(n_permutations=n_permutations, max_width=max_width)
    settings |= sketching | {"rank_by": SORTS[sort_by], "seed": random_state}
    class_files = open_aligned(probabilities, encoding=encoding)
    found = transferability(
        {file.name: (batch for _, batch in file.finite_batches()) for file in opened},
        y,
        probabilities={file.name: other.matrix() for file, other in zip(opened, class_files)},
        **settings,
    )
    line(f"{found.n_rows:,} rows, {found.n_classes} classes")
    (heads, *lines), notes = found.cells()
    show_table(heads, lines)
    for note in notes:
        line(note)
    rows = found.rows()
    files.write([rows[0], *(row.values() for row in rows)], lambda: plot_transferability(found))
    return {
        "rows": found.n_rows,
        "classes": found.n_classes,
        "sorted_by": sort_by,
        "level": found.level,
        "models": rows,
    }


def _check(
    features: list[str],
    labels: str | None,
    label: str | None,
    probabilities: list[str],
    sort_by: str,
    sketch: int,
) -> None:
    """Refuse options that do not fit together, before any file is read."""
    from krepes.cli.work.features import check_buckets

    options.one_of("--sort-by", sort_by, tuple(SORTS))
    check_buckets(sketch)
    if sketch and sort_by in ("logme", "h-score"):
        raise typer.BadParameter(f"--sort-by {sort_by}: with --sketch there are left-out and log-cka only.")
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
