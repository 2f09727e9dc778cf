"""Kernel ridge regression beside what a user would pick instead, on tables with a numeric target: R^2 and seconds.

python benchmarks/regression.py               10 splits each, 70 % of at most 2000 rows for learning

Diabetes, Friedman's three functions with noise (scikit-learn), and three columns of real tables, predicted from the
others. All see the same rows; trees see columns as they are, the others standardised ones.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from recording import data_file, record
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from krepes.machines import KernelRidgeRegressor

MOST_ROWS, GP_ROWS = 2000, 700
TABLES = ("magic", "satimage", "phoneme")  # whose first column is predicted


def first_column(table: str) -> tuple[np.ndarray, np.ndarray]:
    """The first column of a table as the target, the other numeric ones as features."""
    frame = pd.read_parquet(data_file(f"tables/{table}.parquet")).drop(columns="target")
    numbers = frame.select_dtypes("number").to_numpy(float)
    return numbers[:, 1:], numbers[:, 0]


def datasets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        "diabetes": load_diabetes(return_X_y=True),
        "Friedman 1": make_friedman1(MOST_ROWS, noise=1.0, random_state=0),
        "Friedman 2": make_friedman2(MOST_ROWS, noise=100.0, random_state=0),
        "Friedman 3": make_friedman3(MOST_ROWS, noise=0.1, random_state=0),
        **{table: first_column(table) for table in TABLES},
    }


class LimitedGP:
    """scikit-learn's Gaussian process on standardised columns, its kernel learned; at most 700 rows, for its cost."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> LimitedGP:
        kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
        self.model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True))
        self.model.fit(X[:GP_ROWS], y[:GP_ROWS])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)


MODELS: dict[str, Any] = {
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
    "boosting": lambda: HistGradientBoostingRegressor(random_state=0),
    "forest": lambda: RandomForestRegressor(300, random_state=0),
    "SVR": lambda: make_pipeline(StandardScaler(), SVR(C=10)),
    "GP": LimitedGP,
    "krepes": lambda: KernelRidgeRegressor(random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Regression on seven data sets.")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    options = parser.parse_args()
    names = options.models.split(",")
    rows = []
    for data, (X, y) in datasets().items():
        for seed in range(options.splits):
            order = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
            train, test = np.split(order, [int(0.7 * len(order))])
            for name in names:
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = MODELS[name]().fit(X[train], y[train])
                score = r2_score(y[test], model.predict(X[test]))
                rows.append(
                    {"data": data, "model": name, "R2": score, "seconds": time.perf_counter() - start}
                )
    results = pd.DataFrame(rows)
    table = results.pivot_table(index="data", columns="model", values="R2", sort=False)[names]
    print(table.round(3).to_string())
    print(results.groupby("model").seconds.mean()[names].round(2).to_string())
    figures = {f"{data}: {name}": round(table.loc[data, name], 4) for data in table.index for name in names}
    record("regression", figures | {f"mean: {name}": round(table[name].mean(), 4) for name in names})


if __name__ == "__main__":
    main()
