"""`krepes evaluate` for a machine: its scores on labelled rows, beside what else could be trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from krepes.base.reporting import Bars, warn
from krepes.base.rows import count_rows, number_columns
from krepes.cli.command import with_options
from krepes.cli.memory_needed import left_out_as_sparse
from krepes.cli.terminal import line, show_table
from krepes.cli.work.embedding_evaluation import wanted_rows
from krepes.evaluation.budget import Budget
from krepes.evaluation.comparison.prediction_scores import (
    MACHINE,
    Predicted,
    Rivals,
    ScoredPredictions,
    all_predicted,
    fitted_elsewhere,
    out_of_fold,
)
from krepes.evaluation.probe_result import NAMES
from krepes.evaluation.scoring import score_words
from krepes.explain import landmarks_are_rows_of
from krepes.labelled import LabelledRows
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.preprocessing.labels import missing_values
from krepes.preprocessing.targets import as_targets

if TYPE_CHECKING:
    from krepes.cli.commands.evaluate import Protocolled
    from krepes.machines.kernel_ridge.machine import RidgeMachine
    from krepes.sources import Rows

WORDS = {
    **NAMES,
    "root_mean_squared_error": "RMSE",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
}


def evaluate_machine(machine: RidgeMachine, dataset: LabelledRows, wanted: Protocolled) -> dict[str, Any]:
    """Score a machine on labelled rows beside others, print it, and return it as a dictionary."""
    if not isinstance(machine, KernelRidgeClassifier) and not getattr(machine.targets_, "flat", True):
        raise ValueError("This machine predicts several quantities at once; score it in Python.")
    known = ~missing_values(dataset.y)
    rows = np.flatnonzero(known if dataset.test is None else known & dataset.test)
    if len(rows) == 0:
        raise ValueError(f"No row to test on has a label ({dataset.where}).")
    trained_on = landmarks_are_rows_of(machine, dataset.sources[0])
    by_folds = trained_on and dataset.test is None
    kept_y, c = _kept_targets(machine)
    n_folds = len(np.unique(machine.held_out_.folds.numpy())) if by_folds else 1
    asked = {"raw": not wanted.no_raw, "baselines": wanted.baselines}
    others = Rivals.of(_task(c), len(kept_y), budget=Budget(wanted.budget), n_fits=n_folds, **asked)
    if by_folds:
        left_out = f"each of {n_folds} folds" if machine._solved().cells is None else "each row"
        found = _without_folds(machine, others)
        how = f"{len(found.y):,} rows that the machine was trained on, by leaving out {left_out}"
    else:
        found = _on_new_rows(machine, dataset, rows, others)
        how = f"{len(found.y):,} rows"
        seen = int(np.isin(rows, machine.held_out_rows_).sum()) if trained_on else 0
        if seen:
            warn(
                f"{seen:,} of the rows that are tested were trained on: train with the same split= or n_train=."
            )
    line(f"{dataset.describe()}. Tested on {how} ({dataset.where}).")
    scores = _show(found)
    for note in others.notes:
        line(with_options(f"Note: {note}."), style="dim")
    if by_folds:
        line(
            "Kernel and metric were chosen with all rows: rows of another file, or train --split, test them too.",
            style="dim",
        )
    return {
        "data": dataset.describe(),
        "labels": dataset.where,
        "task": _task(found.n_classes),
        "classes": getattr(machine.targets_, "values", None),
        "by": "folds" if by_folds else "new rows",
        "n_test": len(found.y),
        "notes": others.notes,
        "verdict": found.verdict(),
        "results": scores,
    }


def _without_folds(machine: RidgeMachine, others: Rivals) -> ScoredPredictions:
    """The rows kept with the machine, predicted by fits without their folds."""
    folds, scores = machine.held_out_.folds.numpy(), machine.held_out_.by_folds.numpy()
    y, c = _kept_targets(machine)
    if isinstance(machine, KernelRidgeClassifier):
        found = Predicted(scores.argmax(axis=1), softmax(scores / machine.temperature_, axis=1))
    else:
        found = Predicted(_numbers(machine, scores))
    X = _kept_features(machine)
    if X is None:
        return ScoredPredictions({MACHINE: found}, y, c)
    with Bars().stage(others.words(), len(others.fits) * others.n_fits, unit="fits") as stage:
        beside = out_of_fold(others, X, y, folds, c, stage.advance)
    return ScoredPredictions({MACHINE: found} | beside, y, c)


def _on_new_rows(
    machine: RidgeMachine, dataset: LabelledRows, rows: np.ndarray, others: Rivals
) -> ScoredPredictions:
    """Labelled rows of DATA, predicted by the machine and by others that are fitted on the rows kept with it."""
    kept_y, c = _kept_targets(machine)
    known, space = dataset.y[rows], machine.space_
    y = as_targets(known) if c is None else machine.targets_.encoded(known)
    X, predict = _kept_features(machine), None
    if X is not None:
        with Bars().stage(others.words()):
            predict = fitted_elsewhere(others, X, kept_y, c)
    parts: dict[str, list[Predicted]] = {MACHINE: []}
    with Bars().stage("Predicting", len(rows)) as stage:
        for batch in wanted_rows(dataset.sources, rows):
            parts[MACHINE].append(_predicted(machine, batch))
            if predict is not None:
                encoded = number_columns(space.inputs.tensor(batch, space.dtype))
                for name, found in predict(encoded).items():
                    parts.setdefault(name, []).append(found)
            stage.advance(len(parts[MACHINE][-1].values))
    return ScoredPredictions({name: all_predicted(found) for name, found in parts.items()}, y, c)


def _predicted(machine: RidgeMachine, batch: Rows) -> Predicted:
    if isinstance(machine, KernelRidgeClassifier):
        P = machine.predict_proba(batch)
        return Predicted(P.argmax(axis=1), P)
    assert isinstance(machine, KernelRidgeRegressor)
    return Predicted(machine.predict(batch))


def _kept_targets(machine: RidgeMachine) -> tuple[np.ndarray, int | None]:
    """Of the rows kept with the machine: codes and their number, or quantities in their own unit, (n,)."""
    y = np.asarray(machine.held_out_.y)
    if isinstance(machine, KernelRidgeClassifier):
        return y, len(machine.classes_)
    return _numbers(machine, y), None


def _numbers(machine: RidgeMachine, encoded: np.ndarray) -> np.ndarray:
    """Encoded targets in their own unit, (n,)."""
    assert isinstance(machine, KernelRidgeRegressor)
    return machine.targets_.decoded(encoded)


def _kept_features(machine: RidgeMachine) -> np.ndarray | None:
    """The rows kept with the machine as they enter the kernel; None, and a line that says so, where there are none."""
    if machine.total_ is None:
        line("The machine was saved without sums: there are no rows to train others on.", style="dim")
        return None
    kept = machine.total_.kept.inputs
    too_wide = left_out_as_sparse(machine.space_, count_rows(kept))
    some = f"Others are trained on the {count_rows(kept):,} rows that are kept with the machine."
    note = too_wide or ("" if machine.total_.kept.complete else some)
    if note:
        line(note, style="dim")
    return None if too_wide else number_columns(kept)


def _task(n_classes: int | None) -> str:
    return "regression" if n_classes is None else "classification"


def _show(found: ScoredPredictions) -> dict[str, dict[str, float]]:
    """Print the table and the verdict; all scores, with the error of the one that is compared."""
    scores = found.scores()
    names = list(scores[MACHINE])
    rows = []
    for method, values in scores.items():
        error = found.error(method)
        errors = [error] + [float("nan")] * len(names)
        cells = [score_words(n, values[n], e) if n in values else "" for n, e in zip(names, errors)]
        rows.append([method, *cells])
        values["error"] = error
    show_table(["", *(WORDS.get(name, name) for name in names)], rows)
    line("± is the standard error by the choice of rows.\n", style="dim")
    line(found.verdict(), style="bold")
    return scores
