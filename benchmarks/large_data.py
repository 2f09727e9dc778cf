"""The tables of large_tables.py, each with rows to learn from and rows to test on.

| name | what it is | target |
|---|---|---|
| covertype, covertype2 | CoverType, 581 012 rows, 54 columns | seven classes; class 2 against the rest |
| higgs | 26 071 rows, 28 columns | two classes |
| adult | 32 561 + 16 281 rows (the published split), 14 columns, 8 of them categories | two classes |
| letter, magic | KEEL, 20 000 rows, 16 columns; 19 020 rows, 10 columns | 26 and two classes |
| elevation | CoverType without its first column | that column, in metres |
| length | magic without its first column | that column |
| friedman1, friedman2, friedman3 | 20 000 rows by Friedman's formulas (scikit-learn), noise 1, 100 and 0.1 | a number |

A tenth of the rows, drawn at random, is for testing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from recording import data_file
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

CLASSES = ("covertype", "covertype2", "higgs", "adult", "letter", "magic")
NUMBERS = ("elevation", "length", "friedman1", "friedman2", "friedman3")
GENERATED = {
    "friedman1": lambda: make_friedman1(20_000, noise=1.0, random_state=0),
    "friedman2": lambda: make_friedman2(20_000, noise=100.0, random_state=0),
    "friedman3": lambda: make_friedman3(20_000, noise=0.1, random_state=0),
}
Rows = np.ndarray | pd.DataFrame
Categories = make_column_selector(dtype_exclude="number")


@dataclass(frozen=True)
class Table:
    """Rows to learn from and to test on; classes are codes 0, 1, ..."""

    X: Rows
    y: np.ndarray
    X_test: Rows
    y_test: np.ndarray

    @property
    def has_classes(self) -> bool:
        return self.y.dtype.kind == "i"

    def encoded(self, one_hot: bool) -> Table:
        """Numbers alone. One-hot: for distances, every column standardised; else as trees take them."""
        if isinstance(self.X, np.ndarray):
            if not one_hot:
                return self
            encoder: Any = StandardScaler()
        elif one_hot:
            hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
            columns = make_column_transformer((hot, Categories), remainder="passthrough")
            encoder = make_pipeline(columns, StandardScaler())
        else:
            codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
            encoder = make_column_transformer((codes, Categories), remainder="passthrough")
        X, X_test = encoder.fit_transform(self.X), encoder.transform(self.X_test)
        return Table(X.astype(np.float32), self.y, X_test.astype(np.float32), self.y_test)


def load(name: str, most_rows: int | None = None, test_rows: int = 20_000, seed: int = 0) -> Table:
    """At most this many rows of each kind."""
    X, y, is_test = _all_rows(name)
    order = np.random.default_rng(seed).permutation(len(y))
    if is_test is None:
        train, test = np.split(order, [int(0.9 * len(order))])
    else:
        train, test = order[~is_test[order]], order[is_test[order]]
    train, test = train[:most_rows], test[:test_rows]
    return Table(_taken(X, train), y[train], _taken(X, test), y[test])


def _taken(X: Rows, rows: np.ndarray) -> Rows:
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def _all_rows(name: str) -> tuple[Rows, np.ndarray, np.ndarray | None]:
    """Rows, targets, and which rows a published split tests on."""
    if name in GENERATED:
        X, y = GENERATED[name]()
        return X.astype(np.float32), y, None
    if name == "adult":
        frame = pd.read_parquet(data_file("adult.parquet"))
        is_test = (frame.pop("split") == "test").to_numpy()
        return frame, _codes(frame.pop("income").to_numpy().astype(str)), is_test
    if name in ("letter", "magic", "length"):
        frame = pd.read_parquet(data_file(f"tables/{'letter' if name == 'letter' else 'magic'}.parquet"))
        y = _codes(frame.pop("target").to_numpy().astype(str))
        X = frame.to_numpy(np.float32)
        return (X[:, 1:], X[:, 0].astype(float), None) if name == "length" else (X, y, None)
    stored = np.load(data_file("higgs_26k.npz" if name == "higgs" else "covtype.npz"))
    X, y = stored["X"].astype(np.float32), stored["y"]
    if name == "elevation":
        return X[:, 1:], X[:, 0].astype(float), None
    return X, _codes(y == 2 if name == "covertype2" else y), None


def _codes(y: np.ndarray) -> np.ndarray:
    return np.unique(y, return_inverse=True)[1].astype(np.int64)
