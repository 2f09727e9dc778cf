"""The models of large_tables.py by name: krepes and what a user would pick instead.

Boosting has its defaults; "long" is 1000 rounds that end 50 rounds after the lowest loss on a tenth of the training
rows, kept apart for it. lightgbm, xgboost, catboost and xrfm are packages that may be missing.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import numpy as np
from large_data import Table
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline

ROUNDS, PATIENCE = 1000, 50
PACKAGES = {"LightGBM": "lightgbm", "XGBoost": "xgboost", "CatBoost": "catboost", "xRFM": "xrfm"}
BOOSTING = ("HistGradientBoosting", "LightGBM", "XGBoost", "CatBoost")
PROCESS = "krepes process"
KREPES = ("krepes", "krepes cells", "krepes landmarks")
MODELS = (
    *KREPES,
    *BOOSTING,
    *(f"{name} long" for name in BOOSTING),
    "random forest",
    "nearest neighbour",
    "xRFM",
    "Nystroem",
)
BY_DISTANCE = ("nearest neighbour", "xRFM", "Nystroem")  # see standardised, one-hot columns


def missing_package(name: str) -> str | None:
    """The package that a model needs, if it is not installed."""
    package = PACKAGES.get(name.removesuffix(" long"))
    return package if package is not None and importlib.util.find_spec(package) is None else None


def rows_for(name: str, table: Table) -> Table:
    """What a model is given: krepes the table as it is."""
    return table if name.startswith("krepes") else table.encoded(one_hot=name in BY_DISTANCE)


def model_of(name: str, classes: bool, xrfm_rows: int) -> Any:
    """A model with fit, predict and, for classes, maybe predict_proba."""
    if name.startswith("krepes"):
        return krepes_of(name, classes)
    if name.endswith(" long"):
        return Long(name.removesuffix(" long"), classes)
    if name in BOOSTING:
        return boosting(name, classes)
    if name == "random forest":
        return (RandomForestClassifier if classes else RandomForestRegressor)(n_jobs=-1, random_state=0)
    if name == "nearest neighbour":
        return (KNeighborsClassifier if classes else KNeighborsRegressor)(1, n_jobs=-1)
    return Xrfm(classes, xrfm_rows) if name == "xRFM" else NystroemRidge(classes)


def krepes_of(name: str, classes: bool) -> Any:
    """`krepes`, `krepes landmarks`, or `krepes cells` with settings: "krepes cells size=500 n_cells=4"; processes."""
    from krepes.machines import Cells, GaussianProcessRegressor, KernelRidgeClassifier, KernelRidgeRegressor
    from krepes.machines.cells import choosing

    if name.startswith(PROCESS):
        return GaussianProcessRegressor(local=name.endswith("cells"), random_state=0)
    _, *kind = name.split()
    local: Any = "auto"
    if kind:
        given = dict(setting.split("=") for setting in kind[1:])
        if "n_cells" in given:  # cells that settings are compared in, which is no parameter
            choosing.CellSearch = partial(choosing.CellSearch, n_cells=int(given.pop("n_cells")))
        settings = {key: int(value) if value.isdigit() else value for key, value in given.items()}
        local = Cells(**settings) if kind[0] == "cells" else False
    return (KernelRidgeClassifier if classes else KernelRidgeRegressor)(local=local, random_state=0)


def boosting(name: str, classes: bool, **settings: Any) -> Any:
    if name == "HistGradientBoosting":
        kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        return kind(random_state=0, **settings)
    if name == "LightGBM":
        import lightgbm

        kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        return kind(random_state=0, n_jobs=-1, verbose=-1, **settings)
    if name == "XGBoost":
        import xgboost

        kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
        return kind(random_state=0, n_jobs=-1, **settings)
    import catboost

    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    return kind(random_seed=0, verbose=False, allow_writing_files=False, **settings)


class Long:
    """Boosting of many rounds that stops early."""

    def __init__(self, name: str, classes: bool):
        self.name, self.classes = name, classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """The fitted model itself."""
        if self.name == "HistGradientBoosting":
            settings = {"early_stopping": True, "validation_fraction": 0.1, "n_iter_no_change": PATIENCE}
            return boosting(self.name, self.classes, max_iter=ROUNDS, **settings).fit(X, y)
        parts = train_test_split(X, y, test_size=0.1, stratify=y if self.classes else None, random_state=0)
        X, X_held, y, y_held = parts
        if self.name == "LightGBM":
            import lightgbm

            stop = [lightgbm.early_stopping(PATIENCE, verbose=False)]
            model = boosting(self.name, self.classes, n_estimators=ROUNDS)
            return model.fit(X, y, eval_set=[(X_held, y_held)], callbacks=stop)
        if self.name == "XGBoost":
            model = boosting(self.name, self.classes, n_estimators=ROUNDS, early_stopping_rounds=PATIENCE)
            return model.fit(X, y, eval_set=[(X_held, y_held)], verbose=False)
        model = boosting(self.name, self.classes, iterations=ROUNDS, early_stopping_rounds=PATIENCE)
        return model.fit(X, y, eval_set=(X_held, y_held))


class NystroemRidge:
    """2000 Nyström features of a Gaussian kernel at the median, and ridge regression, in float32."""

    def __init__(self, classes: bool):
        self.classes = classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """The fitted pipeline."""
        some = X[np.random.default_rng(0).permutation(len(X))[:1000]]
        distances = np.square(some[:, None] - some[None]).sum(-1)
        gamma = 1 / np.median(distances[np.triu_indices(len(some), 1)])
        features = Nystroem(gamma=gamma, n_components=min(2000, len(X)), random_state=0)
        ridge = (RidgeClassifier if self.classes else Ridge)(1e-3)
        return make_pipeline(features, ridge).fit(X, y)


class Xrfm:
    """xRFM as it comes, in leaves of at most 15 000, with a fifth of its rows for validation."""

    def __init__(self, classes: bool, most_rows: int):
        self.classes, self.most_rows = classes, most_rows

    def fit(self, X: np.ndarray, y: np.ndarray) -> Xrfm:
        from xrfm import xRFM

        rows = np.random.default_rng(0).permutation(len(X))[: self.most_rows]
        train, held = np.split(rows, [int(0.8 * len(rows))])
        metric = "accuracy" if self.classes else "mse"
        self.model = xRFM(max_leaf_size=15_000, device="cpu", tuning_metric=metric, verbose=False)
        self.mean, self.scale = (0.0, 1.0) if self.classes else (y[train].mean(), y[train].std())
        y = y if self.classes else ((y - self.mean) / self.scale).astype(np.float32)
        self.model.fit(X[train], y[train], X[held], y[held])
        if self.classes:
            self.predict_proba = self.model.predict_proba
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(X)).ravel() * self.scale + self.mean
