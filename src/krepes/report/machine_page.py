"""write_machine_page: what a machine has learned, as one HTML file without scripts.

Facts, what it says of single rows, and of kernel machines the columns that count and the landmarks of the largest
weight |a_l|, which are real rows. `krepes explain MODEL DATA --sample ROW` says what landmarks add to a prediction.

    classes      the prediction, its probability, the set of classes at 90 % confidence (ridge machines)
    quantities   the prediction, its interval at 90 % confidence, the standard deviation (Gaussian processes)
    novelty      score, p-value, alarm, and the columns in which a row deviates

The rows that deserve a look stand first: the least certain, the widest, the most novel. Of ridge machines on tables,
the columns on which the scores of a row depend most (`heat_maps.py`). A sample of at most SHOWN rows.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from krepes.base.storage.files import check_writable
from krepes.explain import landmark_norms, landmarks_are_rows_of
from krepes.explain.expansion import in_cells, landmark_rows
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.report.facts import machine_facts
from krepes.report.heat_maps import moved_without
from krepes.report.page import PageSection, WrittenReport, plain_page, write_page
from krepes.report.shown_rows import some_rows
from krepes.sources import Source, TableSource, open_source

N_LANDMARKS, N_COLUMNS = 20, 8
SHOWN = 200
CONFIDENCE = 0.9
PERCENT = f"{100 * CONFIDENCE:.0f} %"
DEPENDS = 3  # columns
TOO_GOOD = (
    "Kernel and metric were chosen with the rows that are held out, so that the score is a little too good."
)

Machine = RidgeMachine | GaussianProcessClassifier | GaussianProcessRegressor | NoveltyDetector


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
        False leaves the values of landmarks and rows and the names of columns out; row numbers, weights, predictions
        and names of classes stay.
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
    flattered = isinstance(machine, RidgeMachine) and machine.held_out_score_.by != "nested folds"
    held = "real rows of the data: everyone who opens it can see them" if samples else "no row of the data"
    sections = [
        PageSection("Facts", rows=list(machine_facts(machine).items()), note=TOO_GOOD if flattered else ""),
        _rows(machine_rows(machine, source, samples)),
        *(_learned(machine, source, samples) if isinstance(machine, RidgeMachine) else []),
        PageSection(note=f"This file holds {held}."),
    ]
    heading = "Rows unlike others"
    if not isinstance(machine, NoveltyDetector):
        heading = f"Predicting {(samples and machine.label_) or 'the target'}"
    return write_page(plain_page(title or heading, sections), target, overwrite)


def _rows(found: MachineRows) -> PageSection:
    """The table of rows; intervals are drawn too."""
    cells = [[column[i] for column in found.columns.values()] for i in found.order]
    if found.spans is None:
        return PageSection("Rows", found.about, list(found.columns), cells)
    return PageSection("Rows", found.about, [*found.columns, "low to high"], cells, found.spans[found.order])


def _learned(machine: RidgeMachine, source: Source, samples: bool) -> list[PageSection]:
    """The columns that count, and the landmarks of the largest weight."""
    encoder = machine.input_space_.encoder
    used = [] if encoder is None else list(encoder.used_columns_)
    title = "Columns that count"
    try:
        found = machine.column_importances()
        names = found.names if samples else [f"column {j + 1}" for j in range(len(found.names))]
        used = [found.names[j] for j in found.order]
        shares = found.shares[found.order]
        columns = PageSection(
            title,
            "Each column's share of the distance between rows, in the learned metric (± standard error).",
            rows=[(names[j], found.words(j)) for j in found.order],
            drawn=np.stack([0 * shares, shares / shares.max(), np.nan * shares], axis=1),
        )
    except ValueError as error:
        columns = PageSection(title, note=str(error))
    label = [] if encoder is None or encoder.label is None else [encoder.label]
    if in_cells(machine):  # whose rows are all of them
        return [columns]
    return [columns, _landmarks(machine, source, [*label, *used[:N_COLUMNS]] if samples else [])]


def _landmarks(machine: RidgeMachine, source: Source, columns: list[str]) -> PageSection:
    """The landmarks of the largest weight, with some columns where they are rows of the source."""
    norms, rows = landmark_norms(machine), landmark_rows(machine)
    first = np.argsort(-norms, kind="stable")[:N_LANDMARKS]
    places = (first if rows is None else rows[first]).tolist()
    values = [[f"{place:,}", f"{norms[i]:.3g}"] for place, i in zip(places, first)]
    names: list[str] = []
    if columns and isinstance(source, TableSource) and landmarks_are_rows_of(machine, source):
        names = [name for name in columns if name in source.column_names]
        taken: Any = source.select(names).take(np.sort(places))  # a pyarrow table
        by_row = dict(zip(sorted(places), taken.to_pylist()))
        for cells, place in zip(values, places):
            cells += [_cell(by_row[place][name]) for name in names]
    about = "A prediction is a sum over landmarks, of their weight times their similarity to the row."
    return PageSection("Landmarks of the largest weight", about, ["row", "weight", *names], values)


@dataclass(frozen=True)
class MachineRows:
    """Rows as a table.

    Attributes
    ----------
    about : str
    columns : dict of lists of str
    order : ndarray of shape (n,)
        The rows that deserve a look first.
    spans : ndarray of shape (n, 3) or None
        Where the interval of each row begins and ends and its prediction lies, as shares of the width of all.
    """

    about: str
    columns: dict[str, list[str]]
    order: np.ndarray
    spans: np.ndarray | None = None


def machine_rows(machine: Machine, source: Source, samples: bool, random_state: int = 0) -> MachineRows:
    """The table of a sample of the rows; without `samples`, no value and no column of the data."""
    shown, rows = some_rows(source, SHOWN, random_state)
    said = _said(machine, shown, samples)
    columns = {"row": [f"{row:,}" for row in rows], **_truth(machine, shown, samples), **said.columns}
    columns["coverage"] = [f"{value:.2f}" for value in machine.coverage(shown)]
    if samples and isinstance(machine, RidgeMachine) and not in_cells(machine):
        columns |= _depends(machine, shown)
    n = source.n_rows
    sampled = f" {len(rows):,} of {n:,} rows, a random sample." if n > len(rows) else ""
    return replace(said, about=said.about + sampled, columns=columns)


def _said(machine: Machine, source: Source, samples: bool) -> MachineRows:
    if isinstance(machine, NoveltyDetector):
        return _novelty(machine, source, samples)
    if isinstance(machine, KernelRidgeClassifier | GaussianProcessClassifier):
        return _classes(machine, source)
    assert isinstance(machine, KernelRidgeRegressor | GaussianProcessRegressor)
    return _quantities(machine, source)


def _classes(machine: KernelRidgeClassifier | GaussianProcessClassifier, source: Source) -> MachineRows:
    P = machine.predict_proba(source)
    names = [str(value) for value in machine.classes_]
    best = P.argmax(1)
    columns = {
        "prediction": [names[k] for k in best],
        "probability": [f"{100 * p:.1f} %" for p in P.max(1)],
    }
    about = "The least certain rows first."
    sets = None
    if isinstance(machine, KernelRidgeClassifier):
        with suppress(ValueError):  # all rows in one fold
            sets = machine.predict_set(source, confidence=CONFIDENCE)
    if sets is not None:
        columns[f"set ({PERCENT})"] = [
            ", ".join(name for name, inside in zip(names, row) if inside) or "none" for row in sets
        ]
        about += f" The set holds the class in about {PERCENT} of cases."
    return MachineRows(about, columns, np.argsort(P.max(1), kind="stable"))


def _quantities(machine: KernelRidgeRegressor | GaussianProcessRegressor, source: Source) -> MachineRows:
    predicted = np.asarray(machine.predict(source)).reshape(source.n_rows, -1)
    try:
        intervals = machine.predict_interval(source, confidence=CONFIDENCE).reshape(source.n_rows, -1, 2)
    except ValueError:  # all rows in one fold
        columns = {"prediction": [", ".join(f"{value:.4g}" for value in row) for row in predicted]}
        return MachineRows("Predictions.", columns, np.arange(source.n_rows))
    columns = {}
    for j, (values, ends) in enumerate(zip(predicted.T, intervals.swapaxes(0, 1))):
        end = "" if predicted.shape[1] == 1 else f" {j}"
        columns[f"prediction{end}"] = [f"{value:.4g}" for value in values]
        columns[f"interval{end} ({PERCENT})"] = [f"{low:.4g} to {high:.4g}" for low, high in ends]
    if isinstance(machine, GaussianProcessRegressor):
        found = np.asarray(machine.predict(source, return_std=True)[1]).reshape(source.n_rows, -1)
        columns["std"] = [", ".join(f"{value:.3g}" for value in row) for row in found]
    order = np.argsort(-(intervals[..., 1] - intervals[..., 0]).sum(1), kind="stable")
    return MachineRows("The widest intervals first.", columns, order, _spans(predicted, intervals))


def _spans(predicted: np.ndarray, intervals: np.ndarray) -> np.ndarray | None:
    """Low, high and prediction as shares of the range of all, (n, 3); None for several quantities or no bounds."""
    if predicted.shape[1] != 1 or not np.isfinite(intervals).all():
        return None
    low, high = intervals.min(), intervals.max()
    return (np.hstack([intervals[:, 0], predicted]) - low) / ((high - low) or 1.0)


def _novelty(machine: NoveltyDetector, source: Source, samples: bool) -> MachineRows:
    found = machine.explain(source)
    columns = {
        "p-value": [f"{p:.3g}" for p in found.p_values],
        "alarm": ["yes" if p <= machine.false_alarm_rate else "" for p in found.p_values],
        "score": [f"{score:.3g}" for score in found.scores],
    }
    if samples and found.columns is not None:
        tops = [found.top_columns(row, DEPENDS) for row in range(source.n_rows)]
        columns["deviates in"] = [", ".join(f"{name} ({value:.2g})" for name, value in top) for top in tops]
    known = found.landmarks if found.landmark_rows is None else found.landmark_rows
    kind = "nearest landmark" if found.landmark_rows is None else "nearest training row"
    columns[kind] = [f"{place} ({near:.2f})" for place, near in zip(known[:, 0], found.similarities[:, 0])]
    about = (
        "The most novel rows first. The p-value is the share of normal rows that are at least as novel; an alarm is "
        f"one up to {100 * machine.false_alarm_rate:g} %."
    )
    return MachineRows(about, columns, np.lexsort((found.scores, found.p_values)))


def _truth(machine: Machine, source: Source, samples: bool) -> dict[str, list[str]]:
    """The labels of the rows, where the table has the column that was learned."""
    label = None if isinstance(machine, NoveltyDetector) else machine.label_
    if not samples or not isinstance(source, TableSource) or label not in source.column_names:
        return {}
    return {label: [_cell(value) for value in source.label_column(label).tolist()]}


def _cell(value: object) -> str:
    """A value of a table in few characters."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _depends(machine: RidgeMachine, source: Source) -> dict[str, list[str]]:
    """The columns of a table whose means would move the scores of a row most, as shares of all of them."""
    encoder = machine.input_space_.encoder
    if encoder is None:
        return {}
    heat = moved_without(machine, source, encoder.groups_)
    names = encoder.used_columns_
    shares = heat / np.maximum(heat.sum(1, keepdims=True), 1e-300)
    tops = np.argsort(-shares, axis=1, kind="stable")[:, :DEPENDS]
    found = [", ".join(f"{names[j]} ({100 * row[j]:.0f} %)" for j in top) for row, top in zip(shares, tops)]
    return {"depends most on": found + [""] * (source.n_rows - len(found))}
