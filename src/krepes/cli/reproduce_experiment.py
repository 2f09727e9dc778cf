"""What `krepes reproduce` does for an experiment: run it, show its table and sentences, keep them, draw its figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from krepes.reproduction import Conditions, Experiment, Findings


def run_experiment(
    experiment: Experiment, conditions: Conditions, output: Path | None, figure: Path | None, overwrite: bool
) -> dict[str, Any]:
    """Run, and print or write everything that was found."""
    from krepes.cli.describe import console, line
    from krepes.cli.outputs import check_outputs, save_figure
    from krepes.reproduction import write_findings

    experiment.check(conditions)
    check_outputs(output, figure, overwrite)
    line(experiment.title)
    findings = experiment.run(replace(conditions, say=lambda text: line(f"  {text}")))
    console().print(_shown(findings))
    for text in findings.summary:
        line(text)
    for note in experiment.notes:
        line(f"- {note}")
    if output is not None:
        write_findings(output, experiment, conditions, findings, overwrite)
    if figure is not None:
        if findings.draw is None:
            raise ValueError(f"{experiment.name} has no figure.")
        save_figure(findings.draw(), figure, overwrite)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "columns": findings.columns,
        "table": findings.table,
        "summary": findings.summary,
        "notes": experiment.notes,
    }


def _shown(findings: Findings) -> Table:
    from rich.text import Text

    from krepes.cli.describe import simple_table

    numeric = tuple(
        name
        for position, name in enumerate(findings.columns)
        if all(not isinstance(row[position], str) for row in findings.table)
    )
    table = simple_table(*findings.columns, right=numeric)
    for row in findings.table:
        table.add_row(*(Text(_text(value)) for value in row))
    return table


def _text(value: str | float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
