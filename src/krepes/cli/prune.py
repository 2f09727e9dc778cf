"""`krepes prune`: which members of an ensemble are worth keeping, from their predictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.session import command

SHOWN = 30
PREDICTIONS_HELP = (
    "The members' predictions for the same rows: a table (.parquet, .csv) with a column per member and one for the "
    "label, or an array (.npy, FILE.npz:ARRAY) of shape (rows, members) or (rows, members, classes)."
)


@command
def prune(
    predictions: Annotated[
        str, typer.Argument(metavar="PREDICTIONS", help=PREDICTIONS_HELP, show_default=False)
    ],
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="The column, or the array of an .npz file, with the target.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="The target in a file of its own: y.npy, or y.npz:ARRAY.", show_default=False
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="alignment (choose by kernel alignment, then weigh), stacking (weigh by non-negative least squares), "
            "or r2 (the one best member).",
        ),
    ] = "alignment",
    task: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="regression or classification; auto looks at the target and the predictions.",
        ),
    ] = "auto",
    out_of_bag: Annotated[
        bool,
        typer.Option(
            "--out-of-bag",
            metavar="",
            help="Empty cells are rows on which a member was trained; without it they are an error.",
        ),
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="A column that is no member; repeatable.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write every member's weight, scores and reason as .csv.",
            show_default=False,
        ),
    ] = None,
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Find the few members of an ensemble that predict as well as all, and the weights to sum them with.

    [cyan]krepes prune forest.parquet --label price -o kept.csv[/]

    [cyan]krepes prune probabilities.npy --labels y.npy --method stacking[/]

    Give predictions for rows that the members were not trained on. Models are never read, only what they predict; in
    Python, krepes.alignment.prune_ensemble takes the ensemble itself.
    """
    from krepes.alignment import prune_ensemble
    from krepes.cli.describe import console
    from krepes.cli.outputs import check_outputs, write_csv

    check_outputs(output, None, force)
    P, y, names = _read(predictions, label, labels, tuple(exclude or ()))
    pruned = prune_ensemble(
        P,
        y=y,
        method=method,
        predictions="out_of_bag" if out_of_bag else "given",
        task=task,
        names=names,
    )
    out = console()
    kind = "regression" if pruned.classes is None else f"{len(pruned.classes)} classes"
    out.print(
        f"{len(y):,} rows, {kind}: {pruned.size_} of {pruned.n_members_} members kept.",
        markup=False,
        highlight=False,
    )
    out.print(_table(pruned, verbose))
    intercept = ", ".join(f"{value:.4g}" for value in pruned.intercept_)
    out.print(
        f"prediction = sum of weight x member, plus {intercept}"
        f"{'' if pruned.classes is None else ' for the classes ' + ', '.join(map(str, pruned.classes))}.",
        markup=False,
        highlight=False,
    )
    if output is not None:
        write_csv(output, _rows(pruned), force)


def _read(file: str, label: str | None, labels: str | None, exclude: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """Predictions, target, and the members' names."""
    from krepes.cli.data import check_exists, read_labels, split_array
    from krepes.sources import read_array

    if (label is None) == (labels is None):
        raise ValueError(
            "Where is the target? Name its column with --label COL, or its file with --labels FILE."
        )
    path, array = split_array(file, "X")
    check_exists(Path(path))
    if Path(path).suffix.lower() not in (".npy", ".npz"):
        return _read_table(Path(path), label, labels, exclude)
    if exclude:
        raise ValueError("--exclude names columns of a table; an array has none.")
    P = read_array(path, array)
    if labels is not None:
        return P, read_labels(labels), None
    if Path(path).suffix.lower() == ".npy":
        raise ValueError(f"--label {label}: {path} is one array without columns. Give --labels FILE.npy.")
    return P, read_array(path, str(label)), None


def _read_table(
    path: Path, label: str | None, labels: str | None, exclude: tuple[str, ...]
) -> tuple[Any, Any, list[str]]:
    import numpy as np
    import pyarrow as pa

    from krepes.cli.data import open_data, read_labels
    from krepes.sources.source import check_columns, column_values

    source = open_data(path)
    if source.kind != "table":
        raise ValueError(f"{path} is {source.describe()}; expected a table or an array of predictions.")
    left_out = [*exclude, *([label] if label is not None else [])]
    check_columns(left_out, source.column_names, str(path))
    names = [name for name in source.column_names if name not in left_out]
    if not names:
        raise ValueError(
            f"{path} has no column besides {', '.join(map(repr, left_out))}: there are no members."
        )
    batches = [batch for _, batch in source.batches(65_536)]
    table = pa.concat_tables(batches)
    columns = [column_values(table.column(name)) for name in names]
    text = [name for name, column in zip(names, columns) if column.dtype == object]
    if text and len(text) < len(names):
        raise ValueError(
            f"{path}: members predict numbers or labels, all the same; {text[0]!r} is text and others are not. Leave "
            f"columns that are no members out: --exclude {text[0]}."
        )
    y = read_labels(labels) if labels is not None else column_values(table.column(label))
    return np.column_stack(columns), y, names


def _table(pruned: Any, everything: bool) -> Any:
    """The members, the heaviest first; of the dropped only a few, or all."""
    from krepes.cli.describe import simple_table

    classes = pruned.classes is not None
    score = "accuracy alone" if classes else "R² alone"  # alignment with one column of numbers is R²
    numbers = ("weight", score, "alignment") if classes else ("weight", score)
    shown = simple_table("member", *numbers, "", right=numbers)
    rows = sorted(pruned.table_, key=lambda row: (-row.weight, -row.score, row.index))
    for row in rows if everything else rows[:SHOWN]:
        alone = (f"{row.score:.3f}", f"{row.alignment:.3f}")[: len(numbers) - 1]
        shown.add_row(row.name, f"{row.weight:.4g}" if row.kept else "", *alone, row.reason)
    if not everything and len(rows) > SHOWN:
        more = f"... and {len(rows) - SHOWN:,} more (--verbose shows all)"
        shown.add_row(more, *[""] * (len(numbers) + 1))
    return shown


def _rows(pruned: Any) -> Iterator[list[Any]]:
    """Every member, then the intercepts."""
    yield ["index", "member", "kept", "weight", "score", "alignment", "reason"]
    for row in pruned.table_:
        yield [row.index, row.name, int(row.kept), row.weight, row.score, row.alignment, row.reason]
    for k, value in enumerate(pruned.intercept_):
        name = "intercept" if pruned.classes is None else f"intercept {pruned.classes[k]}"
        yield ["", name, "", float(value), "", "", ""]
