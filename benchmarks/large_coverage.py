"""How often intervals and sets of machines in cells hold the target, and how well probabilities are calibrated.

Every split draws 1000 rows to learn from, in cells of at most 250, and up to 1000 others to test on. Figures are
mean ± standard error over splits; widths are in deviations of the target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from large_data import load
from recording import data_file
from sklearn.ensemble import HistGradientBoostingClassifier

from krepes.machines import Cells, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.regression import expected_calibration_error

CONFIDENCES = (0.8, 0.9, 0.95)
ROWS, CELL = 1000, 250
INTERVALS, SETS = ("friedman1", "length"), ("magic", "phoneme", "satimage")
KINDS: dict[str, Any] = {"cells": Cells(size=CELL), "cells on landmarks": Cells(size=CELL, landmarks=True)}
Scores = dict[str, float]
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name in ("friedman1", "length"):
        table = load(name)
        return np.asarray(table.X), table.y
    frame = pd.read_parquet(data_file(f"tables/{name}.parquet"))
    y = np.unique(frame.pop("target").to_numpy().astype(str), return_inverse=True)[1]
    return frame.to_numpy(np.float32), y


def intervals(split: Split, local: Any, seed: int) -> Scores:
    X, y, X_test, y_test = split
    model = KernelRidgeRegressor(local=local, random_state=seed).fit(X, y)
    found: Scores = {}
    for confidence in CONFIDENCES:
        low, high = model.predict_interval(X_test, confidence).T
        found[f"{confidence}: coverage"] = float(np.mean((low <= y_test) & (y_test <= high)))
        found[f"{confidence}: width"] = float(np.mean(high - low) / y_test.std())
    return found


def sets(split: Split, local: Any, seed: int) -> Scores:
    X, y, X_test, y_test = split
    model = KernelRidgeClassifier(local=local, random_state=seed).fit(X, y)
    codes, found = np.searchsorted(model.classes_, y_test), {}
    for confidence in CONFIDENCES:
        chosen = model.predict_set(X_test, confidence)
        found[f"{confidence}: coverage"] = float(chosen[np.arange(len(codes)), codes].mean())
        found[f"{confidence}: size"] = float(chosen.sum(axis=1).mean())
    return found | calibration(model.predict_proba(X_test), codes)


def calibration(P: np.ndarray, codes: np.ndarray) -> Scores:
    return {
        "accuracy": float(np.mean(P.argmax(axis=1) == codes)),
        "calibration error": expected_calibration_error(P, codes),
    }


def coverage(n_splits: int) -> dict[str, Any]:
    """Mean ± standard error of every figure."""
    runs: dict[str, list[Scores]] = {}
    for name in (*INTERVALS, *SETS):
        X, y = rows_of(name)
        for seed in range(n_splits):
            order = np.random.default_rng(seed).permutation(len(y))
            train, test = order[:ROWS], order[ROWS : 2 * ROWS]
            split = X[train], y[train], X[test], y[test]
            for kind, local in KINDS.items():
                measure = intervals if name in INTERVALS else sets
                runs.setdefault(f"{name}, {kind}", []).append(measure(split, local, seed))
            if name in SETS:
                boosting = HistGradientBoostingClassifier(random_state=seed).fit(X[train], y[train])
                codes = np.searchsorted(boosting.classes_, y[test])
                found = calibration(boosting.predict_proba(X[test]), codes)
                runs.setdefault(f"{name}, HistGradientBoosting", []).append(found)
        print(f"{name}: {n_splits} splits", flush=True)
    figures: dict[str, Any] = {"splits": n_splits}
    for name, found in runs.items():
        for key in found[0]:
            values = np.array([each[key] for each in found])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            figures[f"{name}, {key}"] = f"{values.mean():.3f} ± {error:.3f}"
    return figures
