"""Small files that commands write beside what they print: tables as .csv, figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = (".png", ".pdf", ".svg")


def check_outputs(table: Path | None, figure: Path | None, force: bool, tables: tuple[str, ...] = ()) -> None:
    """Refuse files that cannot be written, before anything is computed."""
    from krepes.base.files import check_writable

    if table is not None and table == figure:
        raise ValueError(f"--output and --figure are both {table}: give two names.")
    for path in filter(None, (table, figure)):
        check_writable(path, force)
    if table is not None and tables and table.suffix.lower() not in tables:
        raise ValueError(f"--output {table}: expected a name that ends in {', '.join(tables)}.")
    if figure is not None and figure.suffix.lower() not in FIGURES:
        raise ValueError(f"--figure {figure}: expected a name that ends in {', '.join(FIGURES)}.")


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
