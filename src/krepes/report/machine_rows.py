"""What a machine says of single rows, as a table: predictions with their intervals, or how novel the rows are.

    classes      the prediction, its probability, the set of classes at 90 % confidence (ridge machines)
    quantities   the prediction, its interval at 90 % confidence, the standard deviation (Gaussian processes)
    novelty      score, p-value, alarm, and the columns in which a row deviates

The rows that deserve a look stand first: the least certain, the widest, the most novel. Of ridge machines on tables,
the columns on which the scores of a row depend most (`heat_maps.py`). A sample of at most SHOWN rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.report.heat_maps import moved_without
from krepes.report.shown_rows import some_rows
from krepes.sources import Source, TableSource

SHOWN = 200
CONFIDENCE = 0.9
PERCENT = f"{100 * CONFIDENCE:.0f} %"
DEPENDS = 3  # columns

Machine = RidgeMachine | GaussianProcessClassifier | GaussianProcessRegressor | NoveltyDetector


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
    if samples and isinstance(machine, RidgeMachine):
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
    if label is None or not samples or not isinstance(source, TableSource):
        return {}
    known = [label] if label in source.column_names else []
    return {name: [cell(value) for value in source.label_column(name).tolist()] for name in known}


def cell(value: object) -> str:
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
