"""One prediction of a machine explained in the terminal.

The training rows that carry it, the columns that count for it, and the nearest row with another prediction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.rows import dense
from krepes.cli.terminal import line, show_table
from krepes.cli.work.explaining import one_row, show_rows
from krepes.explain import Examples, Reasons, column_values, counterfactuals, explain, landmarks_are_rows_of
from krepes.explain.column_values import ColumnValues, encoded_rows, values_between
from krepes.explain.predictions import directions_of
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.labelled_machine import LabelledMachine
from krepes.machines.targets import Classes
from krepes.sources import Source, TableSource

if TYPE_CHECKING:
    from krepes.cli.commands.explain import SampleOptions

SHOWN_COLUMNS = 15
SHOWN_REASONS = 6  # columns that count for one row
ABOUT = (
    "adds: what the row's target adds to the prediction; all rows together with the mean are the prediction. without "
    "it: how much would be gone if the row had never been there, exactly. First come rows that are near and whose "
    "absence would matter."
)
BY_LANDMARKS = "Shares of the landmarks that the output is made of; they are never negative."
BY_COLUMNS = "exact Shapley values, other columns averaged over training rows"


def explain_machine(
    machine: LabelledMachine, source: Source, y: np.ndarray | None, asked: SampleOptions
) -> dict[str, Any]:
    """Show which columns count, or what a row's prediction rests on; all of it as a dictionary."""
    if asked.sample is None:
        importances = show_importances(machine) if isinstance(machine, RidgeMachine) else None
        line("--sample ROW explains the prediction of a row.", style="dim")
        return {"importances": importances}
    if asked.against is not None:
        raise ValueError("--against compares representations; a machine names the nearest row that differs.")
    x, row = one_row(source, asked.sample), asked.sample
    label = None
    if asked.class_ is not None:
        if not isinstance(machine.targets_, Classes):
            raise ValueError("--class is for classes; this machine predicts a quantity.")
        label = next((c for c in machine.targets_.values.tolist() if str(c) == asked.class_), asked.class_)
    told = _told(machine, x)
    reasons = explain(machine, x, asked.top, label)
    assert isinstance(reasons, Reasons | Examples)
    shown = _show_rows(reasons, label)
    V = directions_of(machine, machine._scores(x), label)[0][0]
    return (
        {"row": row, "label": None if y is None else str(y[row])}
        | told
        | shown
        | {"columns": _show_columns(machine, x, V), "counterfactual": _show_other(machine, source, x, V)}
    )


def _told(machine: Any, x: Source) -> dict[str, Any]:
    """The prediction, which is printed."""
    if not isinstance(machine.targets_, Classes):
        value = float(np.ravel(machine.predict(x))[0])
        line(f"Prediction: {value:.4g}.")
        return {"prediction": value, "probability": None}
    P, classes = machine.predict_proba(x)[0], machine.classes_
    best = int(P.argmax())
    line(f"Prediction: {classes[best]}, with probability {P[best]:.1%}.")
    return {"prediction": classes[best].item(), "probability": float(P[best])}


def _show_rows(found: Reasons | Examples, label: object) -> dict[str, Any]:
    """The rows that carry a prediction, as a table and as a dictionary."""
    if isinstance(found, Examples):
        numbers = [None] * len(found.shares[0]) if found.rows is None else found.rows[0].tolist()
        made = [
            {"landmark": landmark, "row": row, "label": None}
            for landmark, row in zip(found.landmarks[0].tolist(), numbers)
        ]
        columns = {"share": (found.shares[0], ".0%"), "similarity": (found.similarity[0], ".2f")}
        rest = float(found.unexplained[0])
        shown = show_rows(made, columns, ("unexplained", f"{rest:.0%}"))
        line(BY_LANDMARKS, style="dim")
        return {"rows": shown, "unexplained": rest}
    known = found.rows[0] >= 0
    targets = [f"{t:.4g}" if isinstance(t, float) else str(t) for t in found.targets[0, known]]
    rows = ({"row": row, "label": word} for row, word in zip(found.rows[0, known].tolist(), targets))
    others, constant, total = (float(part[0]) for part in (found.others, found.constant, found.totals))
    shown = show_rows(
        rows,
        {
            "similarity": (found.similarity[0, known], ".2f"),
            "adds": (found.adds[0, known], "+.3g"),
            "without it": (found.effects[0, known], "+.3g"),
        },
        ("all other rows", "", f"{others:+.3g}"),
        ("mean of the targets", "", f"{constant:+.3g}"),
        ("prediction" if isinstance(found.targets[0, 0], float) else "score", "", f"{total:+.3g}"),
    )
    line(ABOUT, style="dim")
    return {"rows": shown, "others": others, "constant": constant, "sum": total}


def _show_columns(machine: LabelledMachine, x: Source, v: np.ndarray) -> list[dict[str, Any]] | None:
    """The columns that count for a row, or why they are not known."""
    try:
        found = column_values(machine, x)
    except (ValueError, TypeError) as error:  # another kernel, or sparse rows
        line(str(error), style="dim")
        return None
    return _columns(found, v, f"Columns that count for this row ({BY_COLUMNS}):")


def _columns(found: ColumnValues, v: np.ndarray, heading: str) -> list[dict[str, Any]]:
    values = found.values[0] @ v
    order = np.argsort(-np.abs(values), kind="stable")
    line(heading)
    show_table(("column", "adds"), [[found.names[j], f"{values[j]:+.3g}"] for j in order[:SHOWN_REASONS]])
    return [{"column": found.names[j], "adds": float(values[j])} for j in order]


def _show_other(machine: LabelledMachine, source: Source, x: Source, v: np.ndarray) -> dict[str, Any] | None:
    """The nearest row with another prediction, and the columns that make the difference."""
    found = counterfactuals(machine, x)
    if not np.isfinite(found.similarity[0]):
        line("No row that is kept has another prediction.", style="dim")
        return None
    row = -1 if found.rows is None else int(found.rows[0])
    said = found.predictions[0]
    word = f"{said:.4g}" if isinstance(said, float) else str(said)
    name = "a landmark" if row < 0 else f"row {row:,}"
    line(f"The nearest row with another prediction: {name}, {word} (similarity {found.similarity[0]:.2f}).")
    told: dict[str, Any] = {"row": row, "prediction": word, "similarity": float(found.similarity[0])}
    try:
        found_values = values_between(machine, encoded_rows(machine, x), dense(found.inputs).double())
    except (ValueError, TypeError):  # no product over columns, or sparse rows
        return told
    differs = _columns(found_values, v, "What makes the difference to it:")
    if row >= 0 and isinstance(source, TableSource) and landmarks_are_rows_of(machine, source):
        pair: Any = source.take(np.array([row]))
        told["values"] = {d["column"]: str(pair[d["column"]][0].as_py()) for d in differs[:SHOWN_REASONS]}
    return told | {"columns": differs}


def show_importances(machine: RidgeMachine) -> list[dict[str, Any]] | None:
    """Print how much each column counts, or why that is not known; the largest first."""
    try:
        found = machine.column_importances()
    except ValueError as error:
        line(str(error), style="dim")
        return None
    line("Columns by their share of the distance between rows, in the learned metric (± standard error):")
    order, largest = found.order, found.shares.max()
    lengths = [max(1, round(24 * share / largest)) for share in found.shares]
    rows = [[found.names[j], found.words(j), "█" * lengths[j]] for j in order[:SHOWN_COLUMNS]]
    if len(order) > SHOWN_COLUMNS:
        rest = 100 * found.shares[order[SHOWN_COLUMNS:]].sum()
        rows.append([f"the other {len(order) - SHOWN_COLUMNS:,}", f"{rest:.1f} %"])
    show_table(("column", "importance", ""), rows)
    errors = [None] * len(order) if found.errors is None else found.errors
    return [{"column": found.names[j], "share": found.shares[j], "error": errors[j]} for j in order]
