"""`krepes reproduce`: run a published table or experiment again, and print the published numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    from rich.console import Console

    from krepes.reproduction import Cell, Table
    from krepes.reproduction.running import Results

_SIZE, _NETWORK = "Size", "Networks"


@command
def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="table1 (tangent kernels and networks), table2 (preconditioners), table4 (initialisation), "
            "table5 (losses and landmark rules); of alignment: sketch, transferability, layer-transfer, pruning.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The data sets; the page on reproduction in the docs names the files.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Keep results here (JSON); the same command goes on with a table after an interruption.",
            show_default=False,
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw what an experiment found (.png, .pdf, .svg).", show_default=False
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Only cells of a table whose row and column contain these words, such as 'adult KREPES'.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=100,
            help="Training rows; 10,000 of a table, an experiment's own choice otherwise.",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Of an experiment; its own choice by default.",
            show_default=False,
            rich_help_panel=_SIZE,
        ),
    ] = None,
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
            metavar="PATH",
            help="Its weights (.npz, .pth); for experiments a folder of such files.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep features of networks here, for the next cell and the next run.",
            show_default=False,
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
) -> None:
    """Run a published table or experiment on your copy of its data.

    [cyan]krepes reproduce table2 --data data/ -o table2.json[/]

    [cyan]krepes reproduce pruning --figure pruning.png[/]

    Every number of a table is the test accuracy of a linear probe on some of the training labels, a tenth by
    default. The default sizes are cut so that a table takes minutes.
    """
    from krepes.cli.describe import console
    from krepes.reproduction import EXPERIMENTS, TABLES, Conditions, Run, Size, run_table
    from krepes.reproduction.running import cells_of

    if table in EXPERIMENTS:
        from krepes.cli.reproduce_experiment import run_experiment

        if only is not None:
            raise ValueError("--only is for tables, not for experiments.")
        conditions = Conditions(data, weights, cache, rows, repeats, seed)
        return run_experiment(EXPERIMENTS[table], conditions, output, figure, force)
    if table not in TABLES:
        raise typer.BadParameter(
            f"There is no {table!r}; tables: {', '.join(TABLES)}; experiments: {', '.join(EXPERIMENTS)}."
        )
    if data is None:
        raise ValueError(f"{table} needs --data FOLDER.")
    if not data.is_dir():
        raise FileNotFoundError(f"--data {data}: there is no such folder.")
    if figure is not None or repeats is not None:
        raise ValueError("--figure and --repeats are for experiments, not for tables.")
    chosen = TABLES[table]
    rows = 10_000 if rows is None else rows
    size = Size(rows, test_rows, labels, n_landmarks, n_components, epochs)
    n_cells = len(cells_of(chosen, only))
    out = console()
    out.print(
        f"{chosen.title}\n{rows:,} training rows, {test_rows:,} test rows, {n_landmarks} landmarks, {n_components} "
        f"components, {epochs} epochs at most, seed {seed}. Smaller data are used whole.",
        markup=False,
        highlight=False,
    )

    def report(done: int, cell: Cell, result: dict[str, Any]) -> None:
        out.print(
            f"  {done}/{n_cells}  {cell.row}, {cell.column}: {_ours(result)}", markup=False, highlight=False
        )

    results = run_table(chosen, data, Run(size, seed, network, weights, cache), output, report, only)
    show(chosen, results, out)


def show(table: Table, results: Results, out: Console) -> None:
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
