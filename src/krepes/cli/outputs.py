"""Files that commands write: their names checked before any work; small tables as .csv, figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = (".png", ".pdf", ".svg")


def check_outputs(table: Path | None, figure: Path | None, force: bool, tables: tuple[str, ...] = ()) -> None:
    """Refuse files that cannot be written, before anything is computed."""
    from krepes.base.files import check_writable

    for option, path, endings in (("--output", table, tables), ("--figure", figure, FIGURES)):
        if path is not None and endings and path.suffix.lower() not in endings:
            raise typer.BadParameter(f"{option} {path}: expected a name that ends in {', '.join(endings)}.")
    for path in filter(None, (table, figure)):
        check_writable(path, force)


def check_result_file(path: Path, keep: list[str]) -> None:
    """Refuse a name whose ending is not a known format, or whose format cannot hold the columns to keep."""
    from krepes.cli.command import in_options
    from krepes.results import check_suffix

    try:
        check_suffix(path, keep)
    except ValueError as error:
        raise typer.BadParameter(in_options(str(error))) from None


def write_csv(path: Path, rows: Iterable[Iterable[Any]], force: bool) -> None:
    """Rows of values, the first of which are the names of the columns."""
    import csv

    from krepes.base.files import atomic_path

    with atomic_path(path, overwrite=force) as temporary, temporary.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)


def save_figure(drawn: Figure, path: Path, force: bool) -> None:
    """A matplotlib figure in the format that its name asks for."""
    from krepes.base.files import atomic_path

    with atomic_path(path, overwrite=force) as temporary:
        drawn.savefig(temporary, format=path.suffix.lower().lstrip("."), dpi=120, bbox_inches="tight")
