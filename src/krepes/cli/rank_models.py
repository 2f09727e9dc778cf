"""`krepes rank-models`: which model's features suit the labels, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

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
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The class of every row: y.npy, y.npz:ARRAY, or a table with --label COLUMN.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column of labels, in --labels or else in the first table of features; never a feature.",
            show_default=False,
        ),
    ] = None,
    probabilities: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Class probabilities that a model's own classifier gives, for LEEP: one per model, in their order.",
            show_default=False,
        ),
    ] = None,
    sort_by: Annotated[str, typer.Option(metavar="SCORE", help=f"{', '.join(SORTS)}.")] = "log-cka",
    sketch: Annotated[
        int,
        typer.Option(
            metavar="M",
            min=0,
            help="CKA only, from a sketch of M buckets (a power of two) for all models, with O(M d) memory. By default "
            "it is exact, and sketched above --max-width.",
        ),
    ] = 0,
    permutations: Annotated[
        int, typer.Option(metavar="N", min=1, help="Of the labels, for the p-values of sketches.")
    ] = 99,
    max_width: Annotated[
        int,
        typer.Option(
            metavar="D",
            min=1,
            help="More features than this are sketched: no LogME and H-score, which take d x d memory.",
        ),
    ] = 2048,
    exclude: options.LeftOut = None,
    output: options.TableFile = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the scores (.png, .pdf, .svg).", show_default=False),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Rank pretrained models, or layers, by how well their features suit labels. Each file is read once.

    [cyan]krepes rank-models resnet.npy vit.npy clip.parquet --labels y.npy[/]

    [cyan]krepes rank-models layers.npz:l3 layers.npz:l4 --labels layers.npz:y -o ranking.csv --figure ranking.png[/]

    log CKA: the alignment of features and classes, 0 at best; z is its distance
    from chance in deviations, p how often chance reaches it. A CKA that is not
    above zero has no logarithm and is shown as CKA ≤ 0. LogME: the evidence of a
    linear model. H-score: how far apart class means lie, 0 for noise. Larger is
    better; blank is undefined, or not computed where CKA is sketched.
    """
    from krepes.cli.data import check_exists, split_array
    from krepes.cli.describe import console
    from krepes.cli.features import open_aligned
    from krepes.cli.outputs import check_outputs, save_figure, write_csv

    probabilities = probabilities or []
    _check(features, labels, label, probabilities, sort_by, sketch)
    for file in (*features, *probabilities):
        check_exists(Path(split_array(file, "X")[0]))
    check_outputs(output, figure, force, tables=(".csv",))
    opened = open_aligned(features, (label,) if label else (), exclude)
    y = _labels(features, labels, label, opened[0].n_rows)
    out = console()
    found = _ranked(opened, y, probabilities, SORTS[sort_by], sketch, permutations, max_width, seed)
    out.print(f"{found.n_rows:,} rows, {found.n_classes} classes", highlight=False)
    _print(found, out)
    if output is not None:
        rows = found.rows()
        write_csv(output, [list(rows[0]), *(list(row.values()) for row in rows)], force)
    if figure is not None:
        from krepes.alignment import plot_transferability

        save_figure(plot_transferability(found), figure, force)


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


def _labels(features: list[str], labels: str | None, label: str | None, n_rows: int) -> np.ndarray:
    """The labels: an array, a column of a table of their own, or a column beside the features."""
    from krepes.cli.data import read_label_file, split_array

    if labels is None:
        arrays = (".npy", ".npz")
        tables = [file for file in features if Path(split_array(file, "")[0]).suffix.lower() not in arrays]
        if not tables:
            raise ValueError(
                f"--label {label}: there is no table that could have this column. Give --labels FILE."
            )
        labels = tables[0]
    y = read_label_file(labels, label)
    if len(y) != n_rows:
        raise ValueError(f"There are {len(y):,} labels for {n_rows:,} rows of features.")
    return y


def _ranked(
    opened: list[FeatureFile],
    y: np.ndarray,
    probabilities: list[str],
    rank_by: str,
    n_buckets: int,
    n_permutations: int,
    max_width: int,
    seed: int,
) -> Transferability:
    """One pass over every file."""
    from krepes.alignment import transferability
    from krepes.cli.features import open_aligned

    class_files = open_aligned(probabilities)
    return transferability(
        {file.name: (batch for _, batch in file.finite_batches()) for file in opened},
        y,
        probabilities={file.name: other.matrix() for file, other in zip(opened, class_files)},
        rank_by=rank_by,
        method="sketch" if n_buckets else "auto",
        n_buckets=n_buckets or 256,
        n_permutations=n_permutations,
        max_width=max_width,
        seed=seed,
    )


def _print(found: Transferability, out: Console) -> None:
    from rich.text import Text

    from krepes.cli.describe import simple_table

    (headings, *lines), notes = found.cells()
    table = simple_table(*headings, right=tuple(headings[1:]))
    for line in lines:
        table.add_row(*map(Text, line))
    out.print(table)
    for note in notes:
        out.print(note, markup=False, highlight=False)
