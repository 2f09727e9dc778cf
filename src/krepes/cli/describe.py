"""A model in words and tables, for people; and as a dictionary, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krepes.cli.terminal import terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from krepes.embedding import KernelEmbedding
    from krepes.preprocessing import InputSpace, TableEncoder
    from krepes.sources import Source

SHOWN_COLUMNS = 60


def console() -> Console:
    """Standard output; wide enough for tables where it is a file or a pipe."""
    found = terminal()
    return found if found.is_terminal else terminal(width=max(found.width, 110))


def line(text: str, out: Console | None = None, style: str = "") -> None:
    """One line of text as it is: brackets are not read as markup, and paths are not broken."""
    (out or console()).print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def simple_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table in the one style that all commands use."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def facts(rows: dict[str, str]) -> Table:
    """Names and values in two columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def column_roles(encoder: TableEncoder, limit: int | None = SHOWN_COLUMNS) -> Table:
    """The role of every column of a table."""
    from rich.text import Text

    styles = {"left out": "dim", "label": "green", "excluded": "dim"}
    examples = encoder.examples_  # not there where the encoder comes from a file
    shown = ["example"] if examples else []
    table = simple_table("column", "role", "features", *shown, "", right=("features",))
    roles = encoder.describe()
    for column, role, detail, n_outputs in roles[:limit]:
        example = [_shortened(examples.get(column, ""))] if examples else []
        cells = (column, role, str(n_outputs) if n_outputs else "", *example, detail)
        table.add_row(*(Text(cell, style=styles.get(role, "")) for cell in cells))
    if limit is not None and len(roles) > limit:
        more = f"... and {len(roles) - limit:,} more (krepes info MODEL --verbose)"
        table.add_row(Text(more), *[""] * (len(table.columns) - 1))
    return table


def show_columns(space: InputSpace) -> None:
    """Print how every column is used, before a long pass begins."""
    if space.encoder is not None:
        console().print(column_roles(space.encoder))


def _shortened(cell: str) -> str:
    """A cell in at most 24 characters.

    >>> _shortened("2023-04-17 12:00:00+00:00 or so")
    '2023-04-17 12:00:00+00:…'
    """
    text = " ".join(cell.split())
    return text if len(text) <= 24 else f"{text:.23}…"


def show_encoding(encoder: TableEncoder | str | None, source: Source) -> None:
    """Print how every column of a table will be used, in a scan of its own."""
    from sklearn.base import clone

    from krepes.preprocessing import TableEncoder

    if isinstance(encoder, TableEncoder):
        fitted = clone(encoder)
        fitted.fit_source(source, n_candidates=1)
        console().print(column_roles(fitted))


def model_facts(model: KernelEmbedding) -> dict[str, str]:
    """What a fitted model is, line by line."""
    from krepes.report.words import component_words, input_words, steps_words, views_words

    landmarks, rank = len(model.landmarks_), model.rank_
    chosen = model.landmarks if isinstance(model.landmarks, str) else component_words(model.landmarks)
    values = ", ".join(f"{name} {value:.4g}" for name, value in _terms(model).items())
    return {
        "rows": f"{model.n_samples_seen_:,}",
        "input": input_words(model.input_space_),
        "kernel": component_words(model.kernel_),
        "landmarks": f"{landmarks:,} ({chosen}), rank {rank:,}",
        "views": views_words(model),
        "loss": component_words(model.loss_) + (f": {values}" if values else ""),
        "solver": component_words(model.solver_) + steps_words(model),
        "representation": f"{model.n_components_:,} components"
        + (", chosen from the data" if model.n_components == "auto" else ""),
    }


def model_summary(model: KernelEmbedding) -> dict[str, Any]:
    """What a fitted model is, for --json: what `model_facts` says, unrounded."""
    from krepes.report.words import input_words

    encoder = model.input_space_.encoder
    return {
        "rows": model.n_samples_seen_,
        "input": input_words(model.input_space_),
        "kernel": part_summary(model.kernel_),
        "landmarks": {
            "number": len(model.landmarks_),
            "rule": part_summary(model.landmarks),
            "rank": model.rank_,
        },
        "views": part_summary(model.views_) | {"exact": model.exact_views_},
        "loss": part_summary(model.loss_) | {"terms": _terms(model)},
        "solver": part_summary(model.solver_)
        | {"iterations": model.n_iter_, "epoch_taken": model.best_epoch_},
        "components": model.n_components_,
        "moments": model.moments_ is not None,
        "folds": model.space_.n_folds,
        "columns": None if encoder is None else columns_summary(encoder),
    }


def columns_summary(encoder: TableEncoder) -> list[dict[str, Any]]:
    """The role of every column of a table, with the numbers of its encoding, for --json."""
    known = {column.name: column for column in [*encoder.columns_, *encoder.left_out_]}
    return [known[name].facts() for name in encoder.input_columns_]


def part_summary(part: Any) -> dict[str, Any]:
    """A component's name and parameters; objects among them by what they print."""
    if isinstance(part, str):
        return {"name": part}
    params = part.get_params(deep=False) if hasattr(part, "get_params") else {}
    return {"name": getattr(part, "name", None) or type(part).__name__, "parameters": params}


def _terms(model: KernelEmbedding) -> dict[str, float]:
    """The terms of the loss at the coefficients that were taken."""
    from krepes.solvers import WORK

    taken = model.history_[(model.best_epoch_ or 0) - 1] if model.history_ else {}
    return {name: value for name, value in taken.items() if name not in WORK or name == "held_out"}
