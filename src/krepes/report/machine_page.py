"""write_machine_page: what a machine has learned, as one HTML file without scripts.

Facts, what it says of single rows (predictions with intervals, p-values of novelty), and of kernel machines the columns
that count and the landmarks of the largest weight |a_l|, which are real rows. `krepes explain MODEL DATA --sample ROW`
says what landmarks add to a single prediction.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from krepes.base.files import check_writable
from krepes.explain import landmark_norms, landmarks_are_rows_of
from krepes.explain.expansion import landmark_rows
from krepes.machines import NoveltyDetector
from krepes.machines.kernel_ridge.column_importance import ColumnImportances
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.report.machine_card import machine_facts
from krepes.report.machine_rows import Machine, MachineRows, cell, machine_rows
from krepes.report.page import WrittenReport, plain_page, write_page
from krepes.sources import Source, TableSource, open_source

N_LANDMARKS, N_COLUMNS = 20, 8


def write_machine_page(
    machine: Machine,
    X: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    samples: bool = True,
    overwrite: bool = False,
) -> WrittenReport:
    """Write one HTML file that shows what a machine has learned. It makes no network request.

    Parameters
    ----------
    machine : KernelRidgeClassifier or -Regressor, GaussianProcessClassifier or -Regressor, NoveltyDetector, fitted
    X : rows, in any form that the machine takes
        They are predicted; if there are more than 200, a random sample. Where they are the training data, the landmarks
        are shown as they are in X.
    path : where to write
    title : str, default=None
    samples : bool, default=True
        False leaves the values of landmarks and rows out; row numbers, weights and predictions stay.
    overwrite : bool, default=False

    Returns
    -------
    WrittenReport
        The path of the file. In a notebook it shows the page.
    """
    if not isinstance(machine, Machine):
        raise TypeError(
            f"machine is a {type(machine).__name__}; expected a KernelRidgeClassifier or -Regressor, a "
            "GaussianProcessClassifier or -Regressor, or a NoveltyDetector."
        )
    machine.check_input(X)
    target = check_writable(path, overwrite)
    source = X if isinstance(X, Source) else open_source(X)
    held = "real rows of the data: everyone who opens it can see them" if samples else "no row of the data"
    body = [
        _table([], machine_facts(machine).items()),
        _rows(machine_rows(machine, source, samples)),
        *(_learned(machine, source, samples) if isinstance(machine, RidgeMachine) else []),
        f'<p class="note">This file holds {held}.</p>',
    ]
    return write_page(plain_page(title or _heading(machine), "\n".join(body)), target, overwrite)


def _heading(machine: Machine) -> str:
    if isinstance(machine, NoveltyDetector):
        return "Rows unlike others"
    return f"Predicting {machine.label_ or 'the target'}"


def _rows(found: MachineRows) -> str:
    """The table of rows; intervals are drawn too."""
    heads, drawn = list(found.columns), None
    cells = [[column[i] for column in found.columns.values()] for i in found.order]
    if found.spans is not None:
        heads.append("low to high")
        drawn = [
            f'<td><div class="span"><i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></i>'
            f'<b style="left:{100 * at:.1f}%"></b></div></td>'
            for low, high, at in found.spans[found.order]
        ]
    return f"<h2>Rows</h2><p>{escape(found.about)}</p>{_wide('Rows', _table(heads, cells, drawn))}"


def _wide(name: str, table: str) -> str:
    """A table that scrolls sideways."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{name}">{table}</div>'


def _learned(machine: RidgeMachine, source: Source, samples: bool) -> list[str]:
    """The columns that count, and the landmarks of the largest weight."""
    try:
        importances = machine.column_importances()
        columns = _importances(importances)
    except ValueError as error:
        importances, columns = None, f'<p class="note">{escape(str(error))}</p>'
    return [
        '<p class="note">Kernel and metric were chosen with the rows that are held out, so that the score is a little '
        "too good.</p>",
        "<h2>Columns that count</h2>",
        columns,
        "<h2>Landmarks of the largest weight</h2>",
        "<p>A prediction is a sum over landmarks, of their weight times their similarity to the row.</p>",
        _wide("Landmarks", _landmarks(machine, source, importances, samples)),
    ]


def _importances(found: ColumnImportances) -> str:
    """Shares of the distance between rows, with bars."""
    largest = found.shares.max()
    rows = [
        f'<tr><td>{escape(found.names[j])}</td><td class="n">{found.words(j)}</td><td style="width:16rem">'
        f'<div class="bar" style="width:{100 * found.shares[j] / largest:.1f}%"></div></td></tr>'
        for j in found.order
    ]
    about = "Each column's share of the distance between rows, in the learned metric (± standard error)."
    return f"<p>{about}</p><table>{''.join(rows)}</table>"


def _landmarks(
    machine: RidgeMachine, source: Source, importances: ColumnImportances | None, samples: bool
) -> str:
    norms, rows = landmark_norms(machine), landmark_rows(machine)
    first = np.argsort(-norms, kind="stable")[:N_LANDMARKS]
    places = (first if rows is None else rows[first]).tolist()
    heads = ["row", "weight"]
    values = [[f"{place:,}", f"{norms[i]:.3g}"] for place, i in zip(places, first)]
    if samples and isinstance(source, TableSource) and landmarks_are_rows_of(machine, source):
        names = [name for name in _shown_columns(machine, importances) if name in source.column_names]
        taken: Any = source.select(names).take(np.sort(places))  # a pyarrow table
        by_row = dict(zip(sorted(places), taken.to_pylist()))
        heads += names
        for cells, place in zip(values, places):
            cells += [cell(by_row[place][name]) for name in names]
    return _table(heads, values)


def _shown_columns(machine: RidgeMachine, importances: ColumnImportances | None) -> list[str]:
    """The label, and the most important columns."""
    encoder = machine.input_space_.encoder
    used = [] if encoder is None else list(encoder.used_columns_)
    if importances is not None:
        used = [importances.names[j] for j in importances.order]
    label = [] if encoder is None or encoder.label is None else [encoder.label]
    return [*label, *used[:N_COLUMNS]]


def _table(heads: list[str], rows: Iterable[Iterable[str]], drawn: Sequence[str] | None = None) -> str:
    """Cells are escaped; `drawn` holds one more cell of each row, as HTML. Without heads the first cell is one."""
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    lines = []
    for i, row in enumerate(rows):
        cells = [escape(cell) for cell in row]
        first = f'<th scope="row">{cells[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in cells[1:])
        lines.append(f"<tr>{first}{'' if drawn is None else drawn[i]}</tr>")
    head = f"<thead><tr>{top}</tr></thead>" if heads else ""
    return f"<table>{head}<tbody>{''.join(lines)}</tbody></table>"
