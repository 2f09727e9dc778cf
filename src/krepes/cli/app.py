"""The application: its commands by task, in the order in which they are used."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from krepes import __version__
from krepes.cli.command import EXIT_CODES
from krepes.cli.commands.align import align
from krepes.cli.commands.apply import detect, predict, reconstruct, transform
from krepes.cli.commands.cluster import cluster
from krepes.cli.commands.demo import demo
from krepes.cli.commands.evaluate import evaluate
from krepes.cli.commands.explain import explain
from krepes.cli.commands.fit import fit
from krepes.cli.commands.leave import export, serve
from krepes.cli.commands.model_files import info, merge
from krepes.cli.commands.prune import prune
from krepes.cli.commands.rank_models import rank_models
from krepes.cli.commands.train import train
from krepes.cli.commands.tune import tune


class _Help:
    """The option --help is a flag, and its line says so."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        option.metavar = ""
        return option


class _Command(_Help, TyperCommand):
    pass


class _Group(_Help, TyperGroup):
    pass


app = typer.Typer(
    name="krepes",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = {
    "Representations, without labels": (demo, fit, merge, tune, transform, reconstruct),
    "Predictions and alarms": (train, predict, detect),
    "Any model": (evaluate, explain, info, export, serve),
    "Clusters, networks, ensembles": (cluster, align, rank_models, prune),
}
for panel, functions in VERBS.items():
    for function in functions:
        app.command(cls=_Command, rich_help_panel=panel)(function)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"krepes {__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def krepes(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Learn representations of tables and images without labels, in one pass, explained by real examples.

    Start with [bold]krepes demo[/]. Then, with data of your own:

    [cyan]krepes fit people.parquet --label income -o people.krepes[/]

    [cyan]krepes evaluate people.krepes people.parquet[/]

    [cyan]krepes transform people.krepes people.parquet -o features.parquet[/]

    Or, to predict a column by a machine that shows which rows it goes by:

    [cyan]krepes train people.parquet --label income -o income.krepes[/]

    [cyan]krepes predict income.krepes new_people.parquet -o predictions.csv --keep id[/]

    Or, to find rows that are unlike all others:

    [cyan]krepes train good_days.parquet --task detect -o pump.krepes[/]

    [cyan]krepes detect pump.krepes today.parquet -o alarms.parquet[/]

    [bold]krepes COMMAND --help[/] explains each command.
    """
