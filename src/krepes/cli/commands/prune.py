"""`krepes prune`: which members of an ensemble are worth keeping, from their predictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.options import option
from krepes.cli.parameters import given_values, parsed
from krepes.cli.result_files import check_output, write_csv
from krepes.cli.session import check_exists
from krepes.cli.terminal import line, show_table

if TYPE_CHECKING:
    import numpy as np

    from krepes.alignment import PrunedEnsemble

METHOD = "Method"
SHOWN = 30
PREDICTIONS = (
    "The members' predictions: a table with a column per member, or an array (.npy, FILE.npz:ARRAY) of shape (rows, "
    "members) or (rows, members, classes)."
)


@command
def prune(
    file: Annotated[str, options.argument("PREDICTIONS", PREDICTIONS)],
    label: Annotated[
        str | None, option("The target: a column or array, with --labels of that table.", metavar="COLUMN")
    ] = None,
    labels: Annotated[
        str | None, option("The target: y.npy, y.npz:ARRAY, or a table with --label.", metavar="FILE")
    ] = None,
    classes: Annotated[
        str | None, option("The classes of an array, in its order. By default sorted.", metavar="A,B")
    ] = None,
    exclude: options.Exclude = [],  # noqa: B006  (typer copies it)
    n_members: Annotated[
        int | None,
        option("--members", "Keep at most this many. By default, as few as cost nothing.", panel=METHOD),
    ] = None,
    method: Annotated[
        str | None,
        option("shrunk (the default), forward, best, first, stacking, alignment, or r2.", panel=METHOD),
    ] = None,
    task: Annotated[str | None, option("auto, classification, regression.", panel=METHOD)] = None,
    predictions: Annotated[
        bool, option("--out-of-bag", "Empty cells: a member was trained on that row.", panel=METHOD)
    ] = False,
    encoding: options.Encoding = None,
    output: options.CsvFile = None,
    overwrite: options.Force = False,
    verbose: options.Verbose = False,
) -> dict[str, Any]:
    """Find the few members of an ensemble that predict as well as all, and the weights to sum them with.

    \b[cyan]krepes prune forest.parquet --label price -o kept.csv[/]
    [cyan]krepes prune probabilities.npy --labels y.npy --method stacking[/]

    Give predictions for rows that the members were not trained on. Models are never read, only what they predict; \
in Python, krepes.alignment.prune_ensemble takes the ensemble itself.
    """
    from krepes.alignment import prune_ensemble

    check_output(output, overwrite)
    P, y, names = _read(file, label, labels, tuple(exclude), encoding)
    order = None if classes is None else [parsed(name.strip()) for name in classes.split(",")]
    cells = "out_of_bag" if predictions else "given"
    choosing = given_values(n_members=n_members, method=method, task=task)
    pruned = prune_ensemble(P, y=y, names=names, classes=order, predictions=cells, **choosing)
    _show(pruned, len(y), verbose)
    rows = list(_rows(pruned))
    write_csv(output, rows, overwrite)
    members = [dict(zip(rows[0], row)) for row in rows[1 : 1 + pruned.n_members_]]
    return {
        "rows": len(y),
        "task": "regression" if pruned.classes is None else "classification",
        "classes": pruned.classes,
        "kept": pruned.size_,
        "members": members,
        "intercept": pruned.intercept_,
        "score": pruned.score_,
        "score_of_all": pruned.score_of_all_,
        "errors_by_size": pruned.errors_by_size_,
    }


def _show(pruned: PrunedEnsemble, n_rows: int, everything: bool) -> None:
    classes = pruned.classes
    numbers = classes is None
    kind = "regression" if classes is None else f"classification, {len(classes)} classes"
    kept = f"{pruned.size_} of {pruned.n_members_} members kept"
    if pruned.size_ == pruned.n_members_:
        kept = f"all {pruned.size_} members kept, because fewer predict worse"
    line(f"{n_rows:,} rows, {kind}: {kept}.")
    if len(pruned.errors_by_size_) > 1:
        curve = ", ".join(f"{error:.2f} with {size}" for size, error in pruned.errors_by_size_.items())
        line(f"Squared error on rows left out, relative to the mean of all: {curve}.")
    if pruned.score_ == pruned.score_:
        line(
            f"{'R²' if numbers else 'Accuracy'} {pruned.score_:.3f} (on rows left out of the choice in turn), "
            f"{pruned.score_of_all_:.3f} with the {'mean' if numbers else 'vote'} of all."
        )
    _show_members(pruned, everything)
    intercept = ", ".join(f"{value:.4g}" for value in pruned.intercept_)
    line(
        f"prediction = sum of weight x member, plus {intercept}"
        f"{'' if classes is None else ' for the classes ' + ', '.join(map(str, classes))}."
    )


def _read(
    file: str, label: str | None, labels: str | None, exclude: tuple[str, ...], encoding: str | None
) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
    """Predictions, target, and the members' names."""
    from krepes.labelled import ARRAYS, read_labels, read_named, split_array

    if label is None and labels is None:
        raise typer.BadParameter(
            "Where is the target? Name its column with --label COLUMN, or its file with --labels FILE."
        )
    name, array = split_array(file, "X")
    path = Path(name)
    check_exists(path)
    if path.suffix.lower() not in ARRAYS:
        return _read_table(path, label, labels, exclude, encoding)
    if exclude:
        raise ValueError("--exclude names columns of a table; an array has none.")
    P = read_named(path, array, f"{path}:ARRAY")
    if labels is not None:
        return P, read_labels(labels, label, encoding), None
    if path.suffix.lower() == ".npy":
        raise ValueError(f"--label {label}: {path} is one array without columns. Give --labels FILE.npy.")
    return P, read_named(path, str(label), "--label ARRAY"), None


def _read_table(
    path: Path, label: str | None, labels: str | None, exclude: tuple[str, ...], encoding: str | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    import numpy as np
    import pyarrow as pa

    from krepes.base.validation import check_columns
    from krepes.cli.opening import open_data
    from krepes.labelled import read_labels
    from krepes.sources import TableSource
    from krepes.sources.source import column_values

    source = open_data(path, encoding=encoding)
    if not isinstance(source, TableSource):
        raise ValueError(f"{path} is {source.describe()}; expected a table or an array of predictions.")
    left_out = [*exclude, *([label] if label is not None else [])]
    check_columns(exclude if labels is not None else left_out, source.column_names, str(path))
    names = [name for name in source.column_names if name not in left_out]
    if not names:
        raise ValueError(f"{path} has no column besides {', '.join(map(repr, left_out))}: it has no members.")
    batches = [batch for _, batch in source.batches(65_536)]
    table = pa.concat_tables(batches)
    columns = [column_values(table.column(name)) for name in names]
    text = [name for name, column in zip(names, columns) if column.dtype == object]
    if text and len(text) < len(names):
        raise ValueError(
            f"{path}: members predict numbers or labels, all the same; {text[0]!r} is text and others are not. Leave "
            f"columns that are not members out: --exclude {text[0]}."
        )
    y = read_labels(labels, label, encoding) if labels is not None else column_values(table.column(label))
    return np.column_stack(columns), y, names


def _show_members(pruned: PrunedEnsemble, everything: bool) -> None:
    """The members, the heaviest first; of the dropped only a few, or all."""
    classes = pruned.classes is not None
    # Alignment with one column of numbers is R².
    numbers = ["accuracy alone", "alignment"] if classes else ["R² alone"]
    rows = []
    for row in sorted(pruned.table_, key=lambda row: (-row.weight, row.score != row.score, -row.score)):
        alone = ("" if value != value else f"{value:.3f}" for value in (row.score, row.alignment))
        weight = f"{row.weight:.4g}" if row.kept else ""
        rows.append([row.name, weight, *list(alone)[: len(numbers)], row.reason])
    if not everything and len(rows) > SHOWN:
        rows[SHOWN:] = [[f"... and {len(rows) - SHOWN:,} more (--verbose shows all)"]]
    show_table(["member", "weight", *numbers, ""], rows)


def _rows(pruned: PrunedEnsemble) -> Iterator[list[Any]]:
    """Every member, then the intercepts."""
    yield ["index", "member", "kept", "weight", "score", "alignment", "reason"]
    for row in pruned.table_:
        yield [row.index, row.name, int(row.kept), row.weight, row.score, row.alignment, row.reason]
    for k, value in enumerate(pruned.intercept_):
        name = "intercept" if pruned.classes is None else f"intercept {pruned.classes[k]}"
        yield ["", name, "", float(value), "", "", ""]
