"""Twenty tables, labels on a tenth of the training rows: the default beside what a user would pick instead.

python benchmarks/tables_battery.py                       20 splits of tables under 1000 rows, 5 of the others
python benchmarks/tables_battery.py --splits 2 --columns raw,pca,default --study

One probe for all representations (`krepes.evaluation.linear_probe`), which is what the columns raw, pca and default
differ in. The model sees the training rows and no label. `--study` adds settings that the defaults were chosen among.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes with one thread each, not two that fight

import numpy as np
import pandas as pd
from recording import HERE, data_file, record
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.kernels import Gaussian, Laplacian
from krepes.preprocessing import TableEncoder

MOST_ROWS, FEW_ROWS, LEAST_LABELS = 6000, 1000, 40
N_COMPONENTS, N_LANDMARKS = 64, 1000


class Split:
    """One split of one table: rows to learn from, some of them with labels, and rows to test on."""

    def __init__(self, table: str, seed: int):
        frame = pd.read_parquet(data_file(f"tables/{table}.parquet"))
        y = np.unique(frame.pop("target").to_numpy().astype(str), return_inverse=True)[1]
        rng = np.random.default_rng(seed)
        rows = rng.permutation(len(frame))[:MOST_ROWS]
        cut = int(0.7 * len(rows))
        self.train, self.test = frame.iloc[rows[:cut]], frame.iloc[rows[cut:]]
        self.y, self.y_test = y[rows[:cut]], y[rows[cut:]]
        n_labels = min(cut, max(LEAST_LABELS, cut // 10))
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


COLUMNS = {
    "raw": lambda split: split.probe(split.X, split.X_test),
    "pca": lambda split: split.embedded(loss="kernel_pca"),
    "default": lambda split: split.embedded(),
    "select": lambda split: split.embedded(select=True),
    "boosting": lambda split: split.classified(HistGradientBoostingClassifier(random_state=0)),
    "forest": lambda split: split.classified(RandomForestClassifier(300, random_state=0)),
    "svm": tuned_svm,
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


def run(job: tuple[str, int, list[str]]) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    table, seed, names = job
    split = Split(table, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"table": table, "split": seed} | {name: (COLUMNS | STUDY)[name](split) for name in names}


def below(results: pd.DataFrame, name: str, other: str) -> dict[str, float]:
    """Tables on which a column is below another by more than 2 points and 2 paired standard errors."""
    found = {}
    for table, rows in results.groupby("table"):
        difference = rows[name] - rows[other]
        error = difference.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else 0.0
        if difference.mean() < -2 - 2 * error:
            found[str(table)] = round(float(difference.mean()), 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Twenty tables with few labels.")
    parser.add_argument("--splits", type=int, default=None, help="of every table")
    parser.add_argument("--tables", default="", help="names, separated by commas; all by default")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="what to run")
    parser.add_argument(
        "--study", action="store_true", help="the settings that the defaults were chosen among"
    )
    options = parser.parse_args()
    folder = data_file("tables")
    tables = [name for name in options.tables.split(",") if name] or sorted(
        p.stem for p in folder.glob("*.parquet")
    )
    names = [*options.columns.split(","), *(STUDY if options.study else ())]
    jobs = [(table, seed, names) for table in tables for seed in range(n_splits(table, options.splits))]
    with ProcessPoolExecutor(2) as pool:
        results = pd.DataFrame(pool.map(run, jobs))
    means = results.drop(columns="split").groupby("table").mean()
    print(means.round(1).to_string())
    (HERE / "results").mkdir(exist_ok=True)
    means.round(2).to_csv(Path(HERE) / "results" / "tables_battery.csv")
    figures: dict[str, Any] = {f"mean: {name}": round(means[name].mean(), 2) for name in names}
    if {"default", "pca", "raw"} <= set(names):
        figures["default below kernel PCA"] = below(results, "default", "pca")
        figures["default below raw"] = below(results, "default", "raw")
    record("tables_battery", figures)


if __name__ == "__main__":
    main()
