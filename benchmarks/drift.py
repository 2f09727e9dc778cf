"""How soon a change in a stream is seen, beside a Kolmogorov-Smirnov test of every column.

    python benchmarks/drift.py [--data magic adult] [--repeats 10] [--rows 2000]

A model is fitted on 2000 rows that are then set apart. Every repeat divides the other rows at random: 5000 are the
reference, `--rows` pass unchanged, and from as many others a change is made, in a column that is drawn in every repeat.
Both monitors compare the last 500 rows with the reference after every 50 rows, with one false alarm in 5000 rows
(alpha = 0.01): DriftMonitor by its p-values as they are; the Kolmogorov-Smirnov monitor takes the smallest p-value of
all columns, and its threshold is set afterwards so that it had the same rate of false alarms on the unchanged rows of
all repeats (Bonferroni's alpha / d is given beside it). The delay is the number of changed rows until the first alarm;
changes that are not seen within `--rows` rows count as that many. Categories are compared by their codes in the test.

    mean          one numeric column + 0.25 standard deviations
    scale         one numeric column times 1.3 about its mean
    permuted      the values of one numeric column are permuted: every column keeps its distribution
    mixture       20 % of the rows are replaced by rows of the rarer class, which is not a column here
    category      20 % of the rows get a level that never occurred, in one column (tables with categories)
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from recording import data_file, record
from scipy.stats import ks_2samp

from krepes import KernelEmbedding
from krepes.streams import DriftMonitor

LABELS = {"magic": None, "adult": "income"}
MODEL_ROWS, REFERENCE_ROWS, WINDOW, STEP, RUN_LENGTH = 2000, 5000, 500, 50, 5000
ALPHA = STEP / RUN_LENGTH


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns, and which rows are of the rarer class."""
    path = data_file("adult.parquet" if name == "adult" else f"tables/{name}.parquet")
    frame = pd.read_parquet(path).drop(columns="split", errors="ignore")
    label = LABELS.get(name) or frame.columns[-1]
    counts = frame[label].value_counts()
    return frame.drop(columns=label), (frame[label] == counts.index[-1]).to_numpy()


def numeric(frame: pd.DataFrame) -> list[str]:
    """Columns of numbers that are spread out enough for a shift to mean something."""
    wide = frame.select_dtypes("number")
    return [
        name
        for name in wide
        if wide[name].nunique() > 20 and (wide[name] == wide[name].mode()[0]).mean() < 0.3
    ]


def changed(name: str, frame: pd.DataFrame, whole: pd.DataFrame, rare: np.ndarray, rng) -> pd.DataFrame:
    frame = frame.reset_index(drop=True).copy()
    some = rng.random(len(frame)) < 0.2
    if name == "mixture":
        others = whole[rare].sample(int(some.sum()), random_state=int(rng.integers(2**31)))
        mixed = pd.concat([frame[~some], others])
        return mixed.iloc[rng.permutation(len(mixed))]
    if name == "category":
        column = rng.choice(whole.select_dtypes(exclude="number").columns)
        frame[column] = frame[column].astype(object).where(~some, "never seen")
        return frame
    column = rng.choice(numeric(whole))
    values = frame[column].to_numpy(float)
    mean, deviation = whole[column].mean(), whole[column].std()
    new = {
        "mean": values + 0.25 * deviation,
        "scale": mean + 1.3 * (values - mean),
        "permuted": rng.permutation(values),
    }[name]
    return frame.assign(**{column: new})


class ColumnTests:
    """The smallest p-value of all columns, after every step."""

    def __init__(self, reference: pd.DataFrame):
        self.levels = {
            name: {level: code for code, level in enumerate(sorted(reference[name].astype(str).unique()))}
            for name in reference.select_dtypes(exclude="number")
        }
        self.reference = self._numbers(reference)

    def _numbers(self, frame: pd.DataFrame) -> np.ndarray:
        columns = [
            frame[name].astype(str).map(self.levels[name]).fillna(len(self.levels[name]))
            if name in self.levels
            else frame[name]
            for name in frame
        ]
        return np.column_stack([np.asarray(column, dtype=float) for column in columns])

    def p_values(self, frame: pd.DataFrame) -> list[float]:
        rows, found = self._numbers(frame), []
        for stop in range(WINDOW, len(rows) + 1, STEP):
            window = rows[stop - WINDOW : stop]
            found.append(
                min(
                    ks_2samp(window[:, j], self.reference[:, j], method="asymp").pvalue
                    for j in range(rows.shape[1])
                )
            )
        return found


def first(alarms: list[bool], n_rows: int) -> int:
    """Changed rows until the first alarm."""
    return STEP * (alarms.index(True) + 1) if any(alarms) else n_rows


def measured(name: str, repeats: int, n_rows: int) -> dict:
    frame, rare = load(name)
    order = np.random.default_rng(0).permutation(len(frame))
    model = KernelEmbedding(8, n_landmarks=300, random_state=0).fit(frame.iloc[order[:MODEL_ROWS]])
    rest = order[MODEL_ROWS:]
    changes = ["mean", "scale", "permuted", "mixture"]
    changes += ["category"] if len(frame.select_dtypes(exclude="number").columns) else []
    ours: dict[str, list] = {change: [] for change in changes}
    columns: dict[str, list] = {change: [] for change in changes}
    quiet: dict[str, list[float]] = {"krepes": [], "columns": []}
    for repeat in range(repeats):
        rng = np.random.default_rng(1000 + repeat)
        rows = rng.permutation(rest)
        reference, before = frame.iloc[rows[:REFERENCE_ROWS]], frame.iloc[rows[REFERENCE_ROWS:][:n_rows]]
        after = frame.iloc[rows[REFERENCE_ROWS + n_rows :][:n_rows]]
        settings = {"window": WINDOW, "block_rows": STEP, "average_run_length": RUN_LENGTH}
        tests = ColumnTests(reference)
        monitor = DriftMonitor(model, random_state=repeat, **settings).fit(reference)
        quiet["krepes"] += [reading.p_value for reading in monitor.add(before)]
        quiet["columns"] += tests.p_values(before)
        for change in changes:
            stream = changed(change, after, frame, rare, rng)
            monitor = DriftMonitor(model, random_state=repeat, **settings).fit(reference)
            monitor.add(before.iloc[-WINDOW:])
            alarms: list[bool] = []
            for start in range(0, n_rows, STEP):
                alarms += [reading.alarm for reading in monitor.add(stream.iloc[start : start + STEP])]
                if alarms[-1]:
                    break
            ours[change].append(first(alarms, n_rows))
            joined = pd.concat([before.iloc[-WINDOW:].astype(stream.dtypes.to_dict()), stream])
            columns[change].append(tests.p_values(joined)[1:])
    threshold = float(np.quantile(quiet["columns"], ALPHA))
    bonferroni = ALPHA / frame.shape[1]
    rate = float(np.mean(np.array(quiet["krepes"]) <= ALPHA))
    figures = {
        "false alarms, nominal": ALPHA,
        "false alarms, krepes": rate,
        "false alarms, columns with Bonferroni": float(np.mean(np.array(quiet["columns"]) <= bonferroni)),
        "rows per false alarm, krepes": STEP / rate if rate else None,
        "comparisons without a change": len(quiet["krepes"]),
        "threshold of columns": threshold,
    }
    for change in changes:
        theirs = [first([p <= threshold for p in run], n_rows) for run in columns[change]]
        for who, delays in (("krepes", ours[change]), ("columns", theirs)):
            figures[f"{change}, {who}: median delay"] = float(np.median(delays))
            figures[f"{change}, {who}: mean delay"] = float(np.mean(delays))
            figures[f"{change}, {who}: seen"] = float(np.mean(np.array(delays) < n_rows))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["magic", "adult"])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.data:
        figures = measured(name, arguments.repeats, arguments.rows)
        record(f"drift_{name}", figures)


if __name__ == "__main__":
    main()
