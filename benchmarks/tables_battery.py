"""Twenty tables, labels on a share of the training rows: the default beside what a user would pick instead.

python benchmarks/tables_battery.py                       20 splits of tables under 1000 rows, 5 of the others
python benchmarks/tables_battery.py --labels 0.1,0.3,1 --columns raw,forest,ridge
python benchmarks/tables_battery.py --splits 2 --columns raw,pca,default --study

One probe for all representations (`krepes.evaluation.linear_probe`), which is what the columns raw, pca and default
differ in. The model sees the training rows and no label. The other columns are classifiers of the labelled rows; xrfm
needs the package of that name, which may be installed in another environment: runs add to one file.
`--study` adds settings that the defaults were chosen among.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes with one thread each, not two that fight

import numpy as np
import pandas as pd
from recording import HERE, data_file, record
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.svm import SVC

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.kernels import Gaussian, Laplacian
from krepes.preprocessing import TableEncoder

MOST_ROWS, FEW_ROWS, LEAST_LABELS = 6000, 1000, 40
N_COMPONENTS, N_LANDMARKS = 64, 1000


class Split:
    """One split of one table: rows to learn from, some of them with labels, and rows to test on."""

    def __init__(self, table: str, seed: int, labels: float = 0.1):
        frame = pd.read_parquet(data_file(f"tables/{table}.parquet"))
        y = np.unique(frame.pop("target").to_numpy().astype(str), return_inverse=True)[1]
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(frame))[:MOST_ROWS]
        cut = int(0.7 * len(rows))
        self.train, self.test = frame.iloc[rows[:cut]], frame.iloc[rows[cut:]]
        self.y, self.y_test = y[rows[:cut]], y[rows[cut:]]
        n_labels = min(cut, max(LEAST_LABELS, int(labels * cut)))
        self.labelled = rng.permutation(cut)[:n_labels]
        encoder = TableEncoder(dtype="float64").fit(self.train)
        self.X, self.X_test = encoder.transform(self.train), encoder.transform(self.test)
        self.seed = seed

    def probe(self, Z: np.ndarray, Z_test: np.ndarray) -> float:
        """Accuracy in % of the one probe."""
        labelled = self.labelled
        return 100 * linear_probe(Z[labelled], self.y[labelled], Z_test, self.y_test).accuracy

    def embedded(self, *, select: bool = False, **parameters: Any) -> float:
        """The probe on a model; with `select`, on the refit of it that the labels choose."""
        given = {"n_components": N_COMPONENTS, "n_landmarks": N_LANDMARKS, "random_state": self.seed}
        model = KernelEmbedding(**{**given, **parameters}).fit(self.train)
        if select:
            model = model.select(self.train.iloc[self.labelled], self.y[self.labelled])
        return self.probe(model.transform(self.train), model.transform(self.test))

    def classified(self, model: Any) -> float:
        labelled = self.labelled
        fitted = clone(model).fit(self.X[labelled], self.y[labelled])
        return 100 * fitted.score(self.X_test, self.y_test)


def tuned_svm(split: Split) -> float:
    """C and gamma by cross-validation on the labels."""
    width = split.X.shape[1]
    fewest = np.bincount(split.y[split.labelled]).min()
    folds = StratifiedKFold(3) if fewest >= 3 else 3
    grid = {"C": [0.1, 1, 10, 100, 1000], "gamma": [scale / width for scale in (0.01, 0.1, 1, 10)]}
    return split.classified(GridSearchCV(SVC(), grid, cv=folds))


def xrfm(split: Split) -> float:
    """xRFM as it comes, with a fifth of the labels to choose its step by."""
    from xrfm import xRFM

    y = split.y[split.labelled]
    n_held = int(np.ceil(0.2 * len(y)))
    counts = np.unique(y, return_counts=True)[1]
    stratify = y if counts.min() >= 2 and n_held >= len(counts) else None
    parts = train_test_split(
        split.X[split.labelled], y, test_size=n_held, stratify=stratify, random_state=split.seed
    )
    X, X_held, y, y_held = parts
    model = xRFM(device="cpu", random_state=split.seed, verbose=False)
    model.fit(X, y, X_held, y_held)
    return 100 * float(np.mean(model.predict(split.X_test) == split.y_test))


def ridge(split: Split, unlabelled: bool = False) -> float:
    """The kernel machine; with `unlabelled`, columns are scaled by all training rows, as for the other classifiers."""
    from krepes.machines import KernelRidgeClassifier

    model, rest = KernelRidgeClassifier(random_state=split.seed), split.train if unlabelled else None
    model.fit(split.train.iloc[split.labelled], split.y[split.labelled], X_unlabelled=rest)
    return 100 * float(np.mean(model.predict(split.test) == split.y_test))


COLUMNS = {
    "raw": lambda split: split.probe(split.X, split.X_test),
    "pca": lambda split: split.embedded(loss="kernel_pca"),
    "default": lambda split: split.embedded(),
    "select": lambda split: split.embedded(select=True),
    "boosting": lambda split: split.classified(HistGradientBoostingClassifier(random_state=0)),
    "forest": lambda split: split.classified(RandomForestClassifier(300, random_state=0)),
    "svm": tuned_svm,
    "xrfm": xrfm,
    "ridge": ridge,
    "ridge all rows": lambda split: ridge(split, unlabelled=True),
}


def setting(**parameters: Any) -> Callable[[Split], float]:
    return lambda split: split.embedded(**parameters)


KERNELS = {"Gaussian": Gaussian(), "L1": Laplacian(norm=1)}
STUDY = (
    {
        "default 16": setting(n_components=16),
        "pca 16": setting(n_components=16, loss="kernel_pca"),
    }
    | {f"{name} pca": setting(kernel=kernel, loss="kernel_pca") for name, kernel in KERNELS.items()}
    | {
        f"{name} {scale}": setting(kernel=kernel, scale=scale)
        for name, kernel in KERNELS.items()
        for scale in ("kernel", "orthonormal", "loss", "unit")
    }
)


def n_splits(table: str, given: int | None) -> int:
    if given is not None:
        return given
    return (
        20 if len(pd.read_parquet(data_file(f"tables/{table}.parquet"), columns=["target"])) < FEW_ROWS else 5
    )


Cell = tuple[float, str, int, str]
CELL, FOUND = ["labels", "table", "split", "column"], ["accuracy", "seconds"]
split_of = lru_cache(1)(Split)


class TookTooLong(BaseException):
    """Not an Exception, because a grid search goes on after those."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """End the block after so many seconds, as soon as it is back in Python; 0 is no limit."""

    def give_up(*_: Any) -> None:
        raise TookTooLong

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        with suppress(TookTooLong):
            yield
    finally:
        signal.alarm(0)


def run(cell: Cell, file: Path, limit: int) -> None:
    """Append accuracy in % and seconds of fit and prediction; no accuracy where it took too long."""
    import torch

    torch.set_num_threads(1)
    labels, table, seed, name = cell
    split = split_of(table, seed, labels)
    accuracy, start = np.nan, time.perf_counter()
    with warnings.catch_warnings(), time_limit(limit):
        warnings.simplefilter("ignore")
        accuracy = (COLUMNS | STUDY)[name](split)
    row = [*cell, round(accuracy, 4), round(time.perf_counter() - start, 3)]
    pd.DataFrame([row]).to_csv(file, mode="a", header=False, index=False)


def run_missing(cells: list[Cell], file: Path, jobs: int, limit: int) -> pd.DataFrame:
    """Run what the file lacks, apart from columns that took too long in another split of the table."""
    if not file.exists():
        pd.DataFrame(columns=CELL + FOUND).to_csv(file, index=False)
    runs = pd.read_csv(file)
    known = set(runs[CELL].itertuples(index=False, name=None))
    slow = runs[runs["accuracy"].isna()]
    too_long = set(zip(slow["labels"], slow["table"], slow["column"]))
    todo = [cell for cell in cells if cell not in known and (cell[0], cell[1], cell[3]) not in too_long]
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(partial(run, file=file, limit=limit), todo))
    runs = pd.read_csv(file).drop_duplicates(CELL, keep="last")
    return runs.merge(pd.DataFrame(cells, columns=CELL))


def below(results: pd.DataFrame, name: str, other: str) -> dict[str, float]:
    """Tables on which a column is below another by more than 2 points and 2 paired standard errors."""
    found = {}
    for table, rows in results.groupby("table"):
        difference = rows[name] - rows[other]
        error = difference.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else 0.0
        if difference.mean() < -2 - 2 * error:
            found[str(table)] = round(float(difference.mean()), 1)
    return found


def summary(runs: pd.DataFrame, names: list[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Mean accuracy by table, and figures over the tables that every column has in every split."""
    wide = runs.pivot(index=["table", "split"], columns="column", values=FOUND)
    accuracy, seconds = (wide[found].reindex(columns=names) for found in FOUND)
    complete = accuracy.notna().groupby("table").all()
    means = accuracy.groupby("table").mean().where(complete)
    shared = means.dropna()
    figures: dict[str, Any] = {
        "tables": len(shared),
        "mean accuracy": shared.mean().round(2).to_dict(),
        "mean rank": shared.round(2).rank(axis=1, ascending=False).mean().round(2).to_dict(),
        "seconds": seconds.groupby("table").mean().loc[shared.index].mean().round(2).to_dict(),
    }
    if {"default", "pca", "raw"} <= set(names):
        figures["default below kernel PCA"] = below(accuracy, "default", "pca")
        figures["default below raw"] = below(accuracy, "default", "raw")
    return means, figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Twenty tables with few labels.")
    parser.add_argument("--labels", default="0.1", help="shares of the training rows, separated by commas")
    parser.add_argument("--splits", type=int, default=None, help="of every table")
    parser.add_argument("--tables", default="", help="names, separated by commas; all by default")
    columns = ",".join(name for name in COLUMNS if name != "xrfm")
    parser.add_argument("--columns", default=columns, help="what to run; xrfm needs the package xrfm")
    parser.add_argument(
        "--study", action="store_true", help="the settings that the defaults were chosen among"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=HERE / "results" / "tables_battery_runs.csv",
        help="every result is added to this file at once, and what is there is not run again: a stopped run goes "
        "on where it was. Delete lines of it to run them again, for example after a change of the library",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes, with one thread each")
    parser.add_argument(
        "--limit",
        type=int,
        default=0,
        help="seconds after which a fit is given up; it leaves a line without accuracy, and a later run skips the "
        "column for that table. No limit by default",
    )
    options = parser.parse_args()
    tables = [name for name in options.tables.split(",") if name] or sorted(
        p.stem for p in data_file("tables").glob("*.parquet")
    )
    names = [*options.columns.split(","), *(STUDY if options.study else ())]
    shares = [float(share) for share in options.labels.split(",")]
    splits = {table: n_splits(table, options.splits) for table in tables}
    cells = [
        (share, table, seed, name)
        for seed in range(max(splits.values()))
        for share in shares
        for table in tables
        if seed < splits[table]
        for name in names
    ]
    (HERE / "results").mkdir(exist_ok=True)
    runs = run_missing(cells, options.runs, options.jobs, options.limit)
    means, figures = {}, {}
    for share in shares:
        means[share], found = summary(runs[runs["labels"] == share], names)
        print(f"labels on {share:g} of the training rows\n{means[share].round(1).to_string()}\n")
        figures |= {f"labels {share:g}: {key}": value for key, value in found.items()}
    pd.concat(means, names=["labels"]).round(2).to_csv(HERE / "results" / "tables_battery.csv")
    record("tables_battery", figures)


if __name__ == "__main__":
    main()
