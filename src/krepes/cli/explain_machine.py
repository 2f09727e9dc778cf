"""One prediction of a machine explained in the terminal: what every landmark adds to it; and which columns count.

    f(x) . v = b . v + sum over landmarks l of k(x, x_l) (a_l . v)

v is the unit of the target; of classes, the score of one against the mean of the others. What is shown is the same sum
by values, b . v + sum of u_l(x) (f(x_l) - b) . v, whose parts cancel less (`krepes.explain.expansion`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.cli.explaining import ExplainedRow, one_row
from krepes.cli.terminal import line, show_table
from krepes.explain import (
    class_direction,
    influence,
    landmark_norms,
    landmarks_are_rows_of,
    leave_out,
    target_direction,
)
from krepes.explain.expansion import Expansion, all_values
from krepes.explain.rankings import own_contributions
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor

if TYPE_CHECKING:
    from krepes.cli.commands.explain import SampleOptions
    from krepes.machines.kernel_ridge.machine import RidgeMachine
    from krepes.sources import Source

SHOWN_COLUMNS = 15


def explain_machine(
    machine: RidgeMachine, source: Source, y: np.ndarray | None, asked: SampleOptions
) -> dict[str, Any]:
    """Show which columns count, or what a row's prediction is made of; all of it as a dictionary."""
    if asked.sample is None:
        importances = show_importances(machine)
        line("--sample ROW explains the prediction of a row.", style="dim")
        return {"importances": importances}
    if machine.local_ is not None and machine.local_.in_cells:
        return show_row_weights(machine, source, y, asked)
    row = ExplainedRow(machine, source, y, asked)
    v, shift, called, told = _asked(machine, row.x, asked.class_)
    if row.against is not None:
        return row.found | told | row.contributions(v, called, shift)
    rank = all_values(machine, row.x, own_contributions(Expansion.of(machine)))[0]
    found = row.contributions(v, called, shift, _beside(machine, row.x), rank)
    seen = "The row is a landmark itself: the machine has seen its label. " if row.form == "terms" else ""
    line(f"{seen}{SHOWN} {ADDS[row.form]} {WITHOUT}", style="dim")
    return row.found | told | found


def show_row_weights(
    machine: RidgeMachine, source: Source, y: np.ndarray | None, asked: SampleOptions
) -> dict[str, Any]:
    """Show the rows that a prediction in cells is made of; all of it as a dictionary."""
    row = asked.sample or 0
    if asked.against is not None:
        raise ValueError("--against compares landmarks; this machine is in cells: leave it out.")
    x = one_row(source, row)
    v, _, called, told = _asked(machine, x, asked.class_)
    found = machine.row_weights(x, asked.top)
    effects = found.effects[0] @ (v if isinstance(machine, KernelRidgeClassifier) else np.ones(1))
    of_data = y is not None and landmarks_are_rows_of(machine, source)
    lines, rows = [], []
    for number, weight, near, effect in zip(found.rows[0], found.weights[0], found.similarity[0], effects):
        label = str(y[number]) if of_data and y is not None and 0 <= number < len(y) else None
        name = f"row {number:,}{'' if label is None else f', {label}'}"
        lines.append([name, f"{weight:.3f}", f"{near:.2f}", f"{effect:+.3g}"])
        rows.append(
            {"row": int(number), "label": label, "weight": weight, "similarity": near, "effect": effect}
        )
    others = float(found.others[0])
    lines.append(["all other rows of its cells", f"{others:.3f}", "", ""])
    show_table(("trained on", "weight", "similarity", "without it"), lines)
    of_rest = (
        " that landmarks leave over" if machine.local_ is not None and machine.local_.uses_landmarks else ""
    )
    line(
        f"The prediction is the sum of the targets{of_rest} of these rows, times their weights. {MOVES}{called}.",
        style="dim",
    )
    return {"row": row} | told | {"rows": rows, "others": others, "coverage": float(found.coverage[0])}


MOVES = "without it: how far leaving the row out of training moves "


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


SHOWN = "The landmarks shown are those whose terms push the prediction most to where it is."
ADDS = {
    "terms": "adds: the landmark's own term; large ones of either sign may cancel.",
    "values": "adds: what is predicted for the landmark, times its weight in this prediction.",
}
WITHOUT = "without it: how far the prediction moves when the other landmarks take over."


def _beside(machine: RidgeMachine, x: Source) -> dict[str, np.ndarray]:
    """Similarity to every landmark, and how far the prediction moves without it, in the unit of the target, (m,)."""
    norms = landmark_norms(machine)
    found = {"similarity": influence(machine, x)[0] / np.where(norms > 0, norms, np.inf)}
    if machine.kernel_.positive_semidefinite:
        moves = leave_out(machine, x)[0].astype(np.float64)
        unit = machine.targets_.scale[0] if isinstance(machine, KernelRidgeRegressor) else 1.0
        found["without it"] = moves * unit
    return found


def _asked(
    machine: RidgeMachine, x: Source, class_: str | None
) -> tuple[np.ndarray, float, str, dict[str, Any]]:
    """The direction to explain, what its values start from, what it is called, and the prediction, which is printed."""
    if isinstance(machine, KernelRidgeRegressor):
        if class_ is not None:
            raise ValueError("--class is for classes; this machine predicts a quantity.")
        if not machine.targets_.flat:
            raise ValueError("This machine predicts several quantities at once; explain it in Python.")
        value = float(machine.predict(x)[0])
        line(f"Prediction: {value:.4g}.")
        told: dict[str, Any] = {"prediction": value, "probability": None}
        return target_direction(machine), float(machine.targets_.shift[0]), "the target", told
    assert isinstance(machine, KernelRidgeClassifier)
    P, classes = machine.predict_proba(x)[0], machine.classes_
    predicted = int(P.argmax())
    wanted = next((c for c in classes if str(c) == class_), class_) if class_ else classes[predicted]
    called = f"the score of {wanted} against the other class{'es' if len(classes) > 2 else ''}"
    line(f"Prediction: {classes[predicted]}, with probability {P[predicted]:.1%}.")
    told = {"prediction": classes[predicted].item(), "probability": float(P[predicted])}
    return class_direction(machine, wanted), 0.0, called, told
