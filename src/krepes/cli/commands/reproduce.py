"""`krepes reproduce`: run a published table or experiment again, and print the published numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.option_signatures import Parameters
from krepes.cli.options import option

if TYPE_CHECKING:
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
            "table5 (losses and landmark rules), autoencoder-gap (the autoencoder of table5, one change at a time); of "
            "alignment: sketch, transferability, layer-transfer, pruning; "
            "of small data: denoising, small-data-classification, small-data-networks.",
            show_default=False,
        ),
    ],
    sizes: Annotated[dict[str, Any], Parameters("Size")],
    data: Annotated[
        Path | None,
        option(
            "The folder of the data sets; the page on reproduction in the docs names the files.",
            metavar="FOLDER",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "--output",
            "-o",
            "Keep results in this file (JSON). After an interruption the same command continues a table.",
            metavar="FILE",
        ),
    ] = None,
    figure: Annotated[
        Path | None, option("Draw what an experiment found (.png, .pdf, .svg).", metavar="FILE")
    ] = None,
    only: Annotated[
        str | None,
        option(
            "Run only the cells of a table whose row and column contain these words, such as 'adult KREPES'.",
            metavar="TEXT",
        ),
    ] = None,
    rows: Annotated[
        int | None,
        option(
            "Training rows. By default 10,000 for a table, and each experiment's own number.",
            metavar="N",
            panel=_SIZE,
            min=100,
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        option(
            "How many times to repeat an experiment. By default the experiment's own number.",
            metavar="N",
            panel=_SIZE,
            min=1,
        ),
    ] = None,
    network: Annotated[str | None, option("The network for the images of table1.", panel=_NETWORK)] = None,
    weights: Annotated[
        Path | None,
        option(
            "The weights of that network (.npz, .pth); for experiments a folder of such files.",
            metavar="PATH",
            panel=_NETWORK,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        option(
            "Keep features of networks, or draws that are done, in this folder, for the next run.",
            metavar="FOLDER",
            panel=_NETWORK,
        ),
    ] = None,
    random_state: options.Seed = 0,
    threads: options.Threads = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Run a published table or experiment on your copy of its data.

    [cyan]krepes reproduce table2 --data data/ -o table2.json[/]

    [cyan]krepes reproduce pruning --figure pruning.png[/]

    Every number of a table is the test accuracy of a linear probe on some of the training labels, a tenth by
    default. The default sizes are cut so that a table takes minutes.
    """
    from krepes.reproduction import EXPERIMENTS, TABLES, Conditions

    if table in EXPERIMENTS:
        from krepes.cli.reproduce_experiment import run_experiment

        if only is not None:
            raise typer.BadParameter("--only is for tables, not for experiments.")
        conditions = Conditions(data, weights, cache, rows, repeats, random_state)
        return run_experiment(EXPERIMENTS[table], conditions, output, figure, overwrite)
    if table not in TABLES:
        raise typer.BadParameter(
            f"There is no {table!r}; tables: {', '.join(TABLES)}; experiments: {', '.join(EXPERIMENTS)}."
        )
    if data is None:
        raise typer.BadParameter(f"{table} needs --data FOLDER.")
    if figure is not None or repeats is not None:
        raise typer.BadParameter("--figure and --repeats are for experiments, not for tables.")
    if not data.is_dir():
        raise FileNotFoundError(f"--data {data}: there is no such folder.")
    from krepes.cli.describe import line
    from krepes.reproduction import Run, Size, run_table
    from krepes.reproduction.running import cells_of

    chosen, size = TABLES[table], Size(**(sizes if rows is None else sizes | {"rows": rows}))
    n_cells = len(cells_of(chosen, only))
    line(
        f"{chosen.title}\n{size.rows:,} training rows, {size.test_rows:,} test rows, {size.landmarks} landmarks, "
        f"{size.components} components, {size.epochs} epochs at most, seed {random_state}. Smaller data are used whole."
    )

    def report(done: int, cell: Cell, result: dict[str, Any]) -> None:
        line(f"  {done}/{n_cells}  {cell.row}, {cell.column}: {_ours(result)}")

    run = Run(size, random_state, network, weights, cache)
    results = run_table(chosen, data, run, output, report, only)
    show(chosen, results)
    return {
        "table": table,
        "title": chosen.title,
        "size": vars(size),
        "results": results,
        "notes": chosen.notes,
    }


def show(table: Table, results: Results) -> None:
    """The table: ours, and the paper's number beside it."""
    from rich.text import Text

    from krepes.cli.describe import console, line, simple_table

    shown = simple_table("", *table.columns, right=tuple(table.columns))
    for row in table.rows:
        cells = [results.get(f"{row} | {column}") for column in table.columns]
        if any(cells):
            shown.add_row(row, *(Text(_beside(result)) for result in cells))
    console().print(shown)
    line("Ours, test accuracy in %; the paper's in brackets.")
    for note in table.notes:
        line(f"- {note}")


def _ours(result: dict[str, Any]) -> str:
    if result["accuracy"] is None:
        return f"failed ({result['error'][:100]})"
    return f"{result['accuracy']:.2f} % ({result['seconds']:.0f} s)"


def _beside(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    ours = "failed" if result["accuracy"] is None else f"{result['accuracy']:.2f}"
    return ours if result["published"] is None else f"{ours} ({result['published']:.2f})"
