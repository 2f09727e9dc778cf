"""`python -m reproduction NAME`: run a published table or experiment and print the published numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich import box
from rich.console import Console
from rich.table import Table as ShownTable
from rich.text import Text

from krepes.base.storage.files import atomic_path, check_writable
from reproduction import EXPERIMENTS, TABLES, Cell, Conditions, Experiment, Run, Size, Table, run_table
from reproduction.experiments import Findings, write_findings
from reproduction.running import Results, cells_of

FIGURES = (".png", ".pdf", ".svg")
Count = int | None
app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="table1 (tangent kernels and networks), table2 (preconditioners), table4 (initialisation), "
            "table5 (losses and landmark rules), autoencoder-gap (the autoencoder of table5, one change at a time); of "
            "alignment: sketch, transferability, layer-transfer, network-training, pruning; "
            "of small data: denoising, small-data-classification, small-data-networks.",
        ),
    ],
    data: Annotated[
        Path | None, typer.Option(help="The folder of the data sets (docs/reproduction.md).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Keep results in this JSON file. A table that was interrupted continues."
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw an experiment's findings (.png, .pdf, .svg).")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Cells of a table whose row and column contain these words ('adult KREPES')."),
    ] = None,
    rows: Annotated[
        Count,
        typer.Option(min=100, help="Training rows; default 10,000 for a table, else the experiment's own."),
    ] = None,
    test_rows: Annotated[int, typer.Option(min=100, help="Test rows of a table.")] = Size.test_rows,
    labels: Annotated[Count, typer.Option(min=20, help="Labelled rows of a table; default a tenth.")] = None,
    n_landmarks: Annotated[int, typer.Option(min=1, help="Landmarks in a table's models.")] = Size.landmarks,
    n_components: Annotated[int, typer.Option(min=1, help="Width of a table's models.")] = Size.components,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of a table's models.")] = Size.epochs,
    repeats: Annotated[Count, typer.Option(min=1, help="How often to repeat an experiment.")] = None,
    network: Annotated[str | None, typer.Option(help="The network for the images of table1.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Its weights (.npz, .pth); for experiments a folder of such files.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep features and finished draws in this folder.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    threads: Annotated[Count, typer.Option(min=1, help="Threads for linear algebra.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Run a published table or experiment on your copy of its data.

    Every number of a table is the test accuracy of a linear probe on some of the training labels, a tenth by
    default. The default sizes are cut so that a table takes minutes.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    with _errors_as_sentences():
        if name in EXPERIMENTS:
            if only is not None:
                raise typer.BadParameter("--only is for tables, not for experiments.")
            conditions = Conditions(data, weights, cache, rows, repeats, seed)
            run_experiment(EXPERIMENTS[name], conditions, output, figure, force)
            return
        if name not in TABLES:
            raise typer.BadParameter(
                f"There is no {name!r}; tables: {', '.join(TABLES)}; experiments: {', '.join(EXPERIMENTS)}."
            )
        if data is None or not data.is_dir():
            raise typer.BadParameter(f"{name} needs --data FOLDER, an existing folder; got {data}.")
        if figure is not None or repeats is not None:
            raise typer.BadParameter("--figure and --repeats are for experiments, not for tables.")
        size = Size(rows or Size.rows, test_rows, labels, n_landmarks, n_components, epochs)
        show_table(TABLES[name], data, Run(size, seed, network, weights, cache), output, only)


def show_table(table: Table, data: Path, run: Run, output: Path | None, only: str | None) -> None:
    """Run a table's cells and print each; then the table, with the paper's numbers beside ours."""
    size, n_cells = run.size, len(cells_of(table, only))
    _line(
        f"{table.title}\n{size.rows:,} training rows, {size.test_rows:,} test rows, {size.landmarks} landmarks, "
        f"{size.components} components, {size.epochs} epochs at most, seed {run.seed}. Smaller data are used whole."
    )

    def report(done: int, cell: Cell, result: dict[str, Any]) -> None:
        _line(f"  {done}/{n_cells}  {cell.row}, {cell.column}: {_ours(result)}")

    results = run_table(table, data, run, output, report, only)
    _console().print(_beside_the_papers(table, results))
    _line("Ours, test accuracy in %; the paper's in brackets.")
    for note in table.notes:
        _line(f"- {note}")


def run_experiment(
    experiment: Experiment, conditions: Conditions, output: Path | None, figure: Path | None, force: bool
) -> None:
    """Run an experiment; print its table and sentences; write what was asked for."""
    experiment.check(conditions)
    if figure is not None and figure.suffix.lower() not in FIGURES:
        raise typer.BadParameter(f"--figure {figure}: expected a name that ends in {', '.join(FIGURES)}.")
    for path in filter(None, (output, figure)):
        check_writable(path, force)
    _line(experiment.title)
    findings = experiment.run(replace(conditions, say=lambda text: _line(f"  {text}")))
    _console().print(_findings_table(findings))
    for text in findings.summary:
        _line(text)
    for note in experiment.notes:
        _line(f"- {note}")
    if output is not None:
        write_findings(output, experiment, conditions, findings, force)
    if figure is not None:
        if findings.draw is None:
            raise ValueError(f"{experiment.name} has no figure.")
        with atomic_path(figure, overwrite=force) as temporary:
            findings.draw().savefig(temporary, format=figure.suffix.lower()[1:], dpi=120, bbox_inches="tight")


def _beside_the_papers(table: Table, results: Results) -> ShownTable:
    shown = _empty_table("", *table.columns, right=tuple(table.columns))
    for row in table.rows:
        cells = [results.get(f"{row} | {column}") for column in table.columns]
        if any(cells):
            shown.add_row(row, *(Text(_beside(result)) for result in cells))
    return shown


def _findings_table(findings: Findings) -> ShownTable:
    numeric = tuple(
        name
        for position, name in enumerate(findings.columns)
        if all(not isinstance(row[position], str) for row in findings.table)
    )
    shown = _empty_table(*findings.columns, right=numeric)
    for row in findings.table:
        shown.add_row(*(Text(_text(value)) for value in row))
    return shown


def _empty_table(*columns: str, right: tuple[str, ...]) -> ShownTable:
    shown = ShownTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return shown


def _ours(result: dict[str, Any]) -> str:
    if result["accuracy"] is None:
        return f"failed ({result['error'][:100]})"
    return f"{result['accuracy']:.2f} % ({result['seconds']:.0f} s)"


def _beside(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    ours = "failed" if result["accuracy"] is None else f"{result['accuracy']:.2f}"
    return ours if result["published"] is None else f"{ours} ({result['published']:.2f})"


def _text(value: str | float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _console() -> Console:
    """Standard output; in a file or pipe at least 110 characters wide, enough for the tables."""
    found = Console()
    return found if found.is_terminal else Console(width=max(found.width, 110))


def _line(text: str) -> None:
    _console().print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _errors_as_sentences() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    app(prog_name="python -m reproduction")
