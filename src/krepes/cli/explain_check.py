"""`krepes explain --check`: how faithful explanations of a model are, as a table in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krepes.cli.terminal import console, line, show_table

if TYPE_CHECKING:
    import numpy as np

    from krepes.explain.expansion import Explained
    from krepes.explain.faithfulness_result import Faithfulness
    from krepes.sources import Source

COLUMNS = {
    "method": "ranked by",
    "deletion": "deletion",
    "left out": "left out",
    "alone": "they alone",
    "same label": "same label",
    "overlap": "random weights",
}


def show_check(model: Explained, source: Source, y: np.ndarray | None, seed: int) -> dict[str, Any]:
    """Measure, show, and return the numbers."""
    from krepes.explain import faithfulness

    found = faithfulness(model, source, y, random_state=seed)
    rows = found.table()
    columns = [name for name in COLUMNS if name in rows[0]]
    cells = []
    for row in sorted(rows, key=lambda row: row["deletion"].value):
        mark = "*" if row["ignores weights"] and row["method"] != "random" else ""
        cells.append([row["method"] + mark, *(str(row[name]) for name in columns[1:])])
    line(found.title)
    show_table([COLUMNS[name] for name in columns], cells)
    for note in found.notes:
        line(note)
    console().print(ABOUT, style="dim", highlight=False)
    return {"faithfulness": plain_table(found), "most_faithful": found.best, "accuracy": found.accuracy}


ABOUT = (
    "deletion: what is left of the rows when the terms of the landmarks named are subtracted; less is more faithful. "
    "left out: the same when the other landmarks take over. they alone: with no other landmarks. same label: of the "
    "first landmark and the row. random weights: the share of landmarks that is named for random weights, too."
)


def plain_table(found: Faithfulness) -> list[dict[str, Any]]:
    """The table with plain numbers, errors beside them."""
    rows = []
    for row in found.table():
        plain: dict[str, Any] = {"method": row.pop("method"), "ignores_weights": row.pop("ignores weights")}
        for name, value in row.items():
            key = name.replace(", ", "_").replace(" ", "_")
            plain |= {key: value.value, f"{key}_error": value.error}
        rows.append(plain)
    return rows
