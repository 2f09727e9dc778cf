"""How often intervals and sets of kernel ridge machines hold the target, and how wide they are.

    python benchmarks/conformal.py [--splits 50] [--rows 400]

Every split draws `rows` rows to learn from and up to 1000 others to test on. CV+ and cross-conformal prediction fit all
of the former; split conformal prediction fits three quarters and calibrates on the rest. Widths are in units of the
target's deviation. The expected calibration error of predict_proba stands beside that of logistic regression on the
same encoded columns. Everything is mean ± standard error over splits.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from recording import data_file, record
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.linear_model import LogisticRegression

from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.preprocessing import TableEncoder
from krepes.regression import expected_calibration_error

CONFIDENCES = (0.8, 0.9, 0.95)
TEST_ROWS, REPORT_EVERY = 1000, 10
CLASSES = (
    "australian",
    "contraceptive",
    "german",
    "magic",
    "mammographic",
    "optdigits",
    "phoneme",
    "satimage",
    "segment",
    "vowel",
)
COLUMNS = {"magic": "c0", "phoneme": "c0", "satimage": "c17", "segment": "c10", "vowel": "c4", "german": "c4"}
SAMPLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1": lambda: make_friedman1(2000, noise=1.0, random_state=0),
    "friedman2": lambda: make_friedman2(2000, noise=100.0, random_state=0),
    "friedman3": lambda: make_friedman3(2000, noise=0.1, random_state=0),
}
Scores = dict[str, float]


def table(name: str) -> pd.DataFrame:
    return pd.read_parquet(data_file(f"tables/{name}.parquet"))


def regression_data() -> dict[str, tuple[pd.DataFrame, np.ndarray]]:
    found = {}
    for name, load in SAMPLES.items():
        X, y = load()
        found[name] = (pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), y)
    for name, column in COLUMNS.items():
        frame = table(name).drop(columns="target")
        found[f"{name} {column}"] = (frame, frame.pop(column).to_numpy(float))
    return found


def class_data() -> dict[str, tuple[pd.DataFrame, np.ndarray]]:
    frames = {name: table(name) for name in CLASSES}
    return {name: (frame, frame.pop("target").to_numpy().astype(str)) for name, frame in frames.items()}


class Split:
    """Rows to learn from and others; the last quarter of the former is for calibration, where that is asked for."""

    def __init__(self, X: pd.DataFrame, y: np.ndarray, n_rows: int, seed: int):
        rows = np.random.default_rng(seed).permutation(len(X))
        n = min(n_rows, 2 * len(X) // 3)
        fit, part = rows[:n], 3 * n // 4
        test = rows[n : n + TEST_ROWS]
        self.X, self.y, self.X_test, self.y_test = X.iloc[fit], y[fit], X.iloc[test], y[test]
        self.part = self.X[:part], self.y[:part]
        self.calibration = self.X[part:], self.y[part:]
        self.seed = seed


def intervals(split: Split) -> Scores:
    found: Scores = {}
    spread = split.y_test.std()
    for name, rows, calibration in methods(split):
        model = KernelRidgeRegressor(random_state=split.seed).fit(*rows)
        for confidence in CONFIDENCES:
            bounds = model.predict_interval(split.X_test, confidence, calibration=calibration)
            inside = (bounds[:, 0] <= split.y_test) & (split.y_test <= bounds[:, 1])
            found[f"{name} {confidence}: coverage"] = inside.mean()
            found[f"{name} {confidence}: width"] = np.diff(bounds).mean() / spread
    return found


def sets(split: Split) -> Scores:
    found: Scores = {}
    for name, rows, calibration in methods(split):
        model = KernelRidgeClassifier(random_state=split.seed).fit(*rows)
        codes = np.searchsorted(model.classes_, split.y_test)
        for confidence in CONFIDENCES:
            chosen = model.predict_set(split.X_test, confidence, calibration=calibration)
            found[f"{name} {confidence}: coverage"] = chosen[np.arange(len(codes)), codes].mean()
            found[f"{name} {confidence}: size"] = chosen.sum(axis=1).mean()
        if calibration is None:
            P = model.predict_proba(split.X_test)
            found["accuracy"] = (P.argmax(axis=1) == codes).mean()
            found["calibration error"] = expected_calibration_error(P, codes)
            encoder = TableEncoder(dtype="float64").fit(split.X)
            logistic = LogisticRegression(max_iter=2000).fit(encoder.transform(split.X), split.y)
            P = logistic.predict_proba(encoder.transform(split.X_test))
            found["logistic: accuracy"] = (P.argmax(axis=1) == codes).mean()
            found["logistic: calibration error"] = expected_calibration_error(P, codes)
    return found


def methods(split: Split) -> list[tuple[str, Any, Any]]:
    return [("own rows", (split.X, split.y), None), ("calibrated", split.part, split.calibration)]


def summary(scores: dict[str, list[Scores]]) -> dict[str, Any]:
    """Mean ± standard error over splits of every data set; and the mean over data sets."""
    figures: dict[str, Any] = {"splits": len(next(iter(scores.values())))}
    means: dict[str, list[float]] = {}
    for name, found in scores.items():
        kind = name.split(":")[0]
        for key in found[0]:
            values = np.array([each[key] for each in found])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            figures[f"{name}, {key}"] = f"{values.mean():.3f} ± {error:.3f}"
            means.setdefault(f"{kind}, all: {key}", []).append(float(values.mean()))
    return figures | {key: round(float(np.mean(values)), 4) for key, values in means.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--rows", type=int, default=400)
    args = parser.parse_args()
    tasks = [(f"intervals: {name}", intervals, data) for name, data in regression_data().items()]
    tasks += [(f"sets: {name}", sets, data) for name, data in class_data().items()]
    scores: dict[str, list[Scores]] = {name: [] for name, _, _ in tasks}
    for seed in range(args.splits):
        for name, measure, data in tasks:
            scores[name].append(measure(Split(*data, args.rows, seed)))
        print(f"split {seed + 1} of {args.splits}", flush=True)
        if (seed + 1) % REPORT_EVERY == 0 or seed + 1 == args.splits:
            record("conformal", {"rows": args.rows} | summary(scores))


if __name__ == "__main__":
    main()
