"""`krepes prune`: which members of an ensemble are worth keeping, from their predictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from krepes.alignment import PrunedEnsemble

SHOWN = 30
# Messages of the library name Python arguments; these are the options.
ARGUMENTS = {
    'say predictions="out_of_bag"': "give --out-of-bag",
    'Pass held-out rows with predictions="given"': "Give predictions for held-out rows, without --out-of-bag",
    'use task="regression"': "use --task regression",
    "give classes=[...], in the order of the columns": "give the target as numbers, 0 for the first of the classes",
}
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
            help="The column, or the array of an .npz file, with the target; with --labels a column of that table.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The target in a file of its own: y.npy, y.npz:ARRAY, or a table with --label COL.",
            show_default=False,
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
            help="regression or classification; auto takes numbers for classes if they are labels of the target, or "
            "probabilities (0 to 1) of two.",
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
    from krepes.alignment.pruning.member_selection import METHODS
    from krepes.alignment.pruning.prediction_matrices import TASKS
    from krepes.cli.describe import console
    from krepes.cli.outputs import check_outputs, write_csv

    for option, value, known in (("--method", method, METHODS), ("--task", task, TASKS)):
        if value not in known:
            raise typer.BadParameter(f"{option} {value}: expected {', '.join(known)}.")
    check_outputs(output, None, force)
    P, y, names = _read(predictions, label, labels, tuple(exclude or ()))
    pruned = _pruned(P, y, names, method, task, out_of_bag)
    out = console()
    classes = pruned.classes
    numbers = classes is None
    kind = "regression" if classes is None else f"classification, {len(classes)} classes"
    out.print(
        f"{len(y):,} rows, {kind}: {pruned.size_} of {pruned.n_members_} members kept.",
        markup=False,
        highlight=False,
    )
    if pruned.score_ == pruned.score_:
        out.print(
            f"{'R²' if numbers else 'Accuracy'} {pruned.score_:.3f} (on rows left out of the choice in turn), "
            f"{pruned.score_of_all_:.3f} with the {'mean' if numbers else 'vote'} of all.",
            markup=False,
            highlight=False,
        )
    out.print(_table(pruned, verbose))
    intercept = ", ".join(f"{value:.4g}" for value in pruned.intercept_)
    out.print(
        f"prediction = sum of weight x member, plus {intercept}"
        f"{'' if classes is None else ' for the classes ' + ', '.join(map(str, classes))}.",
        markup=False,
        highlight=False,
    )
    if output is not None:
        write_csv(output, _rows(pruned), force)


def _pruned(
    P: np.ndarray, y: np.ndarray, names: list[str] | None, method: str, task: str, out_of_bag: bool
) -> PrunedEnsemble:
    """The choice; what is wrong is said in options instead of arguments."""
    from krepes.alignment import prune_ensemble

    predictions = "out_of_bag" if out_of_bag else "given"
    try:
        return prune_ensemble(P, y=y, method=method, predictions=predictions, task=task, names=names)
    except (ValueError, TypeError) as error:
        text = str(error)
        for argument, option in ARGUMENTS.items():
            text = text.replace(argument, option)
        raise type(error)(text) from error


def _read(
    file: str, label: str | None, labels: str | None, exclude: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
    """Predictions, target, and the members' names."""
    from krepes.cli.data import check_exists, read_label_file, read_named, split_array

    if label is None and labels is None:
        raise ValueError(
            "Where is the target? Name its column with --label COL, or its file with --labels FILE."
        )
    path, array = split_array(file, "X")
    check_exists(Path(path))
    if Path(path).suffix.lower() not in (".npy", ".npz"):
        return _read_table(Path(path), label, labels, exclude)
    if exclude:
        raise ValueError("--exclude names columns of a table; an array has none.")
    P = read_named(path, array, f"{path}:ARRAY")
    if labels is not None:
        return P, read_label_file(labels, label), None
    if Path(path).suffix.lower() == ".npy":
        raise ValueError(f"--label {label}: {path} is one array without columns. Give --labels FILE.npy.")
    return P, read_named(path, str(label), "--label ARRAY"), None


def _read_table(
    path: Path, label: str | None, labels: str | None, exclude: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    import numpy as np
    import pyarrow as pa

    from krepes.cli.data import open_data, read_label_file
    from krepes.sources import TableSource
    from krepes.sources.source import check_columns, column_values

    source = open_data(path)
    if not isinstance(source, TableSource):
        raise ValueError(f"{path} is {source.describe()}; expected a table or an array of predictions.")
    left_out = [*exclude, *([label] if label is not None else [])]
    check_columns(exclude if labels is not None else left_out, source.column_names, str(path))
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
    y = read_label_file(labels, label) if labels is not None else column_values(table.column(label))
    return np.column_stack(columns), y, names


def _table(pruned: PrunedEnsemble, everything: bool) -> Table:
    """The members, the heaviest first; of the dropped only a few, or all."""
    from rich.text import Text

    from krepes.cli.describe import simple_table

    classes = pruned.classes is not None
    score = "accuracy alone" if classes else "R² alone"  # alignment with one column of numbers is R²
    numbers = ("weight", score, "alignment") if classes else ("weight", score)
    shown = simple_table("member", *numbers, "", right=numbers)
    rows = sorted(pruned.table_, key=lambda row: (-row.weight, row.score != row.score, -row.score, row.index))
    for row in rows if everything else rows[:SHOWN]:
        alone = (
            "" if value != value else f"{value:.3f}"
            for value in (row.score, row.alignment)[: len(numbers) - 1]
        )
        # Text, because brackets in names are no markup.
        shown.add_row(Text(row.name), f"{row.weight:.4g}" if row.kept else "", *alone, Text(row.reason))
    if not everything and len(rows) > SHOWN:
        more = f"... and {len(rows) - SHOWN:,} more (--verbose shows all)"
        shown.add_row(more, *[""] * (len(numbers) + 1))
    return shown


def _rows(pruned: PrunedEnsemble) -> Iterator[list[Any]]:
    """Every member, then the intercepts."""
    yield ["index", "member", "kept", "weight", "score", "alignment", "reason"]
    for row in pruned.table_:
        yield [row.index, row.name, int(row.kept), row.weight, row.score, row.alignment, row.reason]
    for k, value in enumerate(pruned.intercept_):
        name = "intercept" if pruned.classes is None else f"intercept {pruned.classes[k]}"
        yield ["", name, "", float(value), "", "", ""]
