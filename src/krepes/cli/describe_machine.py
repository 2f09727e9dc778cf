"""A kernel ridge machine in words and tables, for people; and as a dictionary, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from krepes.cli.describe import columns_summary, component, input_words, line, part_summary, simple_table

if TYPE_CHECKING:
    from rich.table import Table

    from krepes.kernels import Kernel
    from krepes.machines.kernel_ridge.column_importance import ColumnImportances
    from krepes.machines.kernel_ridge.machine import RidgeMachine

SHOWN_COLUMNS, SHOWN_CLASSES = 15, 10


def plain_kernel(machine: RidgeMachine) -> Kernel:
    """The kernel without its metric."""
    from krepes.kernels import Reweighted

    kernel = machine.kernel_
    return kernel.kernel if isinstance(kernel, Reweighted) and kernel.kernel is not None else kernel


def machine_facts(machine: RidgeMachine) -> dict[str, str]:
    """What a trained machine is, line by line."""
    chosen = machine.landmarks if isinstance(machine.landmarks, str) else component(machine.landmarks)
    by = machine.penalty_errors_.by
    return {
        "rows": f"{machine.n_samples_seen_:,}",
        "input": input_words(machine.input_space_),
        "predicts": target_words(machine),
        "kernel": component(plain_kernel(machine)),
        "metric": metric_words(machine.metric_),
        "penalty": f"{machine.penalty_:.3g}"
        + (", as given" if machine.penalty != "auto" else f", the best by {by}"),
        "landmarks": f"{len(machine.landmarks_):,} ({chosen}), rank {machine.rank_:,}",
        "held out": str(machine.held_out_score_),
    }


def target_words(machine: RidgeMachine) -> str:
    """What is predicted: the classes, or a quantity."""
    from krepes.machines import KernelRidgeClassifier

    name = "" if machine.label_ is None else f"{machine.label_}: "
    if not isinstance(machine, KernelRidgeClassifier):
        return f"{name}a quantity"
    classes = [str(value) for value in machine.classes_]
    shown = ", ".join(classes[:SHOWN_CLASSES]) + (", ..." if len(classes) > SHOWN_CLASSES else "")
    return f"{name}{len(classes):,} classes ({shown})"


def metric_words(metric: str | None) -> str:
    """
    >>> metric_words("diagonal 2")
    'learned: a weight for each column (diagonal, step 2)'
    """
    if metric is None or metric == "as given":
        return "columns as given"
    if metric == "standardised":
        return "columns standardised"
    kind, step = metric.split()
    what = "a weight for each column" if kind == "diagonal" else "columns weighed and turned"
    return f"learned: {what} ({kind}, step {step})"


def machine_summary(machine: RidgeMachine) -> dict[str, Any]:
    """What a trained machine is, for --json: what `machine_facts` says, unrounded."""
    encoder = machine.input_space_.encoder
    return {
        "estimator": type(machine).__name__,
        "rows": machine.n_samples_seen_,
        "input": input_words(machine.input_space_),
        "label": machine.label_,
        "classes": getattr(machine.targets_, "values", None),
        "kernel": part_summary(plain_kernel(machine)),
        "metric": machine.metric_,
        "penalty": machine.penalty_,
        "penalty_by": machine.penalty_errors_.by,
        "landmarks": {
            "number": len(machine.landmarks_),
            "rule": part_summary(machine.landmarks),
            "rank": machine.rank_,
        },
        "held_out": asdict(machine.held_out_score_),
        "sums": machine.total_ is not None,
        "columns": None if encoder is None else columns_summary(encoder),
    }


def importance_table(found: ColumnImportances) -> Table:
    """The most important columns, with bars."""
    from rich.text import Text

    table = simple_table("column", "importance", "", right=("importance",))
    order = found.order
    for j in order[:SHOWN_COLUMNS]:
        bar = "█" * max(1, round(24 * found.shares[j] / found.shares[order[0]]))
        table.add_row(Text(found.names[j]), found.words(j), bar)
    if len(order) > SHOWN_COLUMNS:
        rest = 100 * found.shares[order[SHOWN_COLUMNS:]].sum()
        table.add_row(f"the other {len(order) - SHOWN_COLUMNS:,}", f"{rest:.1f} %", "")
    return table


def importance_numbers(found: ColumnImportances) -> list[dict[str, Any]]:
    """Importances for --json, the largest first."""
    errors = found.errors
    return [
        {"column": found.names[j], "share": found.shares[j], "error": None if errors is None else errors[j]}
        for j in found.order
    ]


def show_importances(machine: RidgeMachine) -> list[dict[str, Any]] | None:
    """Print how much each column counts, or why that is not known."""
    from krepes.cli.describe import console

    try:
        found = machine.column_importances()
    except ValueError as error:
        line(str(error), style="dim")
        return None
    line("Columns by their share of the distance between rows, in the learned metric (± standard error):")
    console().print(importance_table(found))
    return importance_numbers(found)
