"""write_machine_page: what a kernel ridge machine has learned, as one HTML file without scripts.

Facts, the score on rows that were left out, the columns that count, and the landmarks of the largest weight |a_l|,
which are real rows. `krepes explain MODEL DATA --sample ROW` says what they add to a single prediction.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from krepes.base.files import atomic_path, check_writable
from krepes.explain import landmark_norms, landmarks_are_rows_of
from krepes.explain.top_landmarks import landmark_rows
from krepes.machines.kernel_ridge.column_importance import ColumnImportances
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.report.machine_card import machine_facts
from krepes.sources import Source, TableSource, open_source

N_LANDMARKS, N_COLUMNS = 20, 8
STYLE = """body{font:15px/1.5 system-ui,sans-serif;color:#22272e;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse}
td,th{padding:.2rem .9rem .2rem 0;text-align:left;vertical-align:top}th{border-bottom:1px solid #d0d7de}
.n{text-align:right}.bar{background:#2f6fd0;height:.8rem;min-width:2px}.note{color:#6e7681}"""


def write_machine_page(
    machine: RidgeMachine,
    X: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    samples: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write one HTML file that shows what a machine has learned. It makes no network request.

    Parameters
    ----------
    machine : KernelRidgeClassifier or KernelRidgeRegressor, fitted
    X : rows, in any form that the machine takes
        Where they are the training data, the landmarks are shown as they are in X.
    path : where to write
    title : str, default=None
    samples : bool, default=True
        False leaves the landmarks' values out; their row numbers and weights stay.
    overwrite : bool, default=False
    """
    if not isinstance(machine, RidgeMachine):
        raise TypeError(
            f"machine is a {type(machine).__name__}; expected a KernelRidgeClassifier or -Regressor."
        )
    machine.check_input(X)
    target = check_writable(path, overwrite)
    source = X if isinstance(X, Source) else open_source(X)
    heading = title or f"Predicting {machine.label_ or 'the target'}"
    try:
        importances = machine.column_importances()
        columns = _importances(importances)
    except ValueError as error:
        importances, columns = None, f'<p class="note">{escape(str(error))}</p>'
    held = "real rows of the data: everyone who opens it can see them" if samples else "no row of the data"
    body = [
        f"<h1>{escape(heading)}</h1>",
        _table([], [(name, value) for name, value in machine_facts(machine).items()]),
        '<p class="note">Kernel and metric were chosen with the rows that are held out, so that the score is a little '
        "too good.</p>",
        "<h2>Columns that count</h2>",
        columns,
        "<h2>Landmarks of the largest weight</h2>",
        "<p>A prediction is a sum over landmarks, of their weight times their similarity to the row.</p>",
        _landmarks(machine, source, importances, samples),
        f'<p class="note">This file holds {held}.</p>',
    ]
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{policy}<title>{escape(heading)}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>"
    )
    with atomic_path(target, overwrite, private=True) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
    return target


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
    named = [str(index) if rows is None else f"{rows[index]:,}" for index in first]
    heads = ["row", "weight"]
    values = [[name, f"{norms[i]:.3g}"] for name, i in zip(named, first)]
    if not samples or rows is None or not isinstance(source, TableSource):
        return _table(heads, values)
    if landmarks_are_rows_of(machine, source):
        order = np.sort(rows[first])
        names = [name for name in _shown_columns(machine, importances) if name in source.column_names]
        taken: Any = source.select(names).take(order)  # a pyarrow table
        by_row = dict(zip(order.tolist(), taken.to_pylist()))
        heads += names
        for cells, i in zip(values, first):
            cells += [_text(by_row[int(rows[i])][name]) for name in names]
    return _table(heads, values)


def _shown_columns(machine: RidgeMachine, importances: ColumnImportances | None) -> list[str]:
    """The label, and the most important columns."""
    encoder = machine.input_space_.encoder
    used = [] if encoder is None else list(encoder.used_columns_)
    if importances is not None:
        used = [importances.names[j] for j in importances.order]
    label = [] if encoder is None or encoder.label is None else [encoder.label]
    return [*label, *used[:N_COLUMNS]]


def _text(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(heads: list[str], rows: Iterable[Iterable[str]]) -> str:
    top = f"<tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>" if heads else ""
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{top}{cells}</table>"
