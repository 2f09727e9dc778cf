"""A machine in words and tables, for people; and as a dictionary, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from krepes.cli.describe import (
    columns_summary,
    console,
    line,
    part_summary,
    simple_table,
)
from krepes.report.machine_card import plain_kernel
from krepes.report.words import input_words

if TYPE_CHECKING:
    from rich.table import Table

    from krepes.machines.gaussian_process.machine import GaussianProcess
    from krepes.machines.kernel_ridge.column_importance import ColumnImportances
    from krepes.machines.kernel_ridge.machine import RidgeMachine
    from krepes.machines.labelled_machine import LabelledMachine

SHOWN_COLUMNS = 15


def kept_words(machine: LabelledMachine[Any, Any]) -> str:
    """Which rows of the data a file of this machine holds."""
    held = getattr(machine.total_, "kept", None)
    kept = 0 if held is None else len(held.rows)
    others = f" and {kept:,} kept rows" if kept else ""
    return (
        f"Its {len(machine.landmarks_):,} landmarks{others} are rows of the training data: share the file as you would "
        "the data."
    )


def machine_summary(machine: LabelledMachine[Any, Any]) -> dict[str, Any]:
    """What a trained machine is, for --json: what `machine_facts` says, unrounded."""
    from krepes.machines.kernel_ridge.machine import RidgeMachine

    encoder = machine.input_space_.encoder
    return {
        "estimator": type(machine).__name__,
        "rows": machine.n_samples_seen_,
        "input": input_words(machine.input_space_),
        "label": machine.label_,
        "classes": getattr(machine.targets_, "values", None),
        "kernel": part_summary(plain_kernel(machine)),
        "metric": machine.metric_,
        **(
            _of_ridge(machine)
            if isinstance(machine, RidgeMachine)
            else _of_process(cast("GaussianProcess", machine))
        ),
        "landmarks": {
            "number": len(machine.landmarks_),
            "rule": part_summary(machine.landmarks),
            "rank": machine.rank_,
        },
        "sums": machine.total_ is not None,
        "columns": None if encoder is None else columns_summary(encoder),
    }


def _of_ridge(machine: RidgeMachine) -> dict[str, Any]:
    return {
        "penalty": machine.penalty_,
        "penalty_by": machine.penalty_errors_.by,
        "held_out": asdict(machine.held_out_score_),
    }


def _of_process(machine: GaussianProcess) -> dict[str, Any]:
    evidence = machine.log_marginal_likelihood_
    return {
        "amplitude": machine.amplitude_,
        "noise": getattr(machine, "noise_", None),
        "log_marginal_likelihood": evidence,
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
    try:
        found = machine.column_importances()
    except ValueError as error:
        line(str(error), style="dim")
        return None
    line("Columns by their share of the distance between rows, in the learned metric (± standard error):")
    console().print(importance_table(found))
    return importance_numbers(found)
