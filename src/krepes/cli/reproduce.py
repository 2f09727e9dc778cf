"""`krepes reproduce`: run a published ablation again, and print the paper's numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.session import command

_SIZE, _NETWORK = "Size", "Network of table1"


@command
def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="table1 (tangent kernels and networks), table2 (preconditioners), table4 (initialisation) or "
            "table5 (losses and landmark rules).",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Where adult.parquet, covtype.npz, higgs*.npz, cifar10_*.npz and mnist.npz are.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Keep results here (JSON); the same command goes on after an interruption.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Only cells whose row and column contain these words, such as 'adult KREPES'.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(metavar="N", min=100, help="Training rows.", rich_help_panel=_SIZE)
    ] = 10_000,
    test_rows: Annotated[
        int, typer.Option(metavar="N", min=100, help="Test rows.", rich_help_panel=_SIZE)
    ] = 5_000,
    labels: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=20,
            help="Labelled training rows; a tenth of --rows by default.",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None,
    n_landmarks: Annotated[int, typer.Option(metavar="N", min=1, rich_help_panel=_SIZE)] = 500,
    n_components: Annotated[int, typer.Option(metavar="N", min=1, rich_help_panel=_SIZE)] = 64,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, rich_help_panel=_SIZE)] = 20,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="table1: the network for images.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Its weights (.npz, .pth).", show_default=False, rich_help_panel=_NETWORK
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep sketched tangent features here, for the next cell and the next run.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    verbose: options.Verbose = False,
) -> None:
    """Run a published ablation on your copy of its data.

    [cyan]krepes reproduce table2 --data data/ -o table2.json[/]

    Every number is the test accuracy of a linear probe on some of the training labels, a tenth by default. The
    default sizes are cut so that a table takes minutes.
    """
    from krepes.cli.describe import console
    from krepes.reproduction import TABLES, Run, Size, run_table
    from krepes.reproduction.running import cells_of

    if table not in TABLES:
        raise typer.BadParameter(f"There is no {table!r}; tables: {', '.join(TABLES)}.")
    if not data.is_dir():
        raise FileNotFoundError(f"--data {data}: there is no such folder.")
    chosen = TABLES[table]
    size = Size(rows, test_rows, labels, n_landmarks, n_components, epochs)
    n_cells = len(cells_of(chosen, only))
    out = console()
    out.print(
        f"{chosen.title}\n{rows:,} training rows, {test_rows:,} test rows, {n_landmarks} landmarks, {n_components} "
        f"components, {epochs} epochs, seed {seed}; at most: smaller data are used whole.",
        markup=False,
        highlight=False,
    )

    def report(done: int, cell: Any, result: dict[str, Any]) -> None:
        out.print(
            f"  {done}/{n_cells}  {cell.row}, {cell.column}: {_ours(result)}", markup=False, highlight=False
        )

    results = run_table(chosen, data, Run(size, seed, network, weights, cache), output, report, only)
    show(chosen, results, out)


def show(table: Any, results: dict[str, Any], out: Any) -> None:
    """The table: ours, and the paper's number beside it."""
    from rich.text import Text

    from krepes.cli.describe import simple_table

    shown = simple_table("", *table.columns, right=tuple(table.columns))
    for row in table.rows:
        cells = [results.get(f"{row} | {column}") for column in table.columns]
        if any(cells):
            shown.add_row(row, *(Text(_beside(result)) for result in cells))
    out.print(shown)
    out.print("Ours, test accuracy in %; the paper's in brackets.", highlight=False)
    for note in table.notes:
        out.print(f"- {note}", markup=False, highlight=False)


def _ours(result: dict[str, Any]) -> str:
    if result["accuracy"] is None:
        return f"failed ({result['error'][:100]})"
    return f"{result['accuracy']:.2f} % ({result['seconds']:.0f} s)"


def _beside(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    ours = "failed" if result["accuracy"] is None else f"{result['accuracy']:.2f}"
    return ours if result["published"] is None else f"{ours} ({result['published']:.2f})"
