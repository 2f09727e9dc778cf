"""What could be trained on the raw columns instead: gradient boosting, a random forest, a support vector machine.

All three are scikit-learn's, and see the labels of the draws that the probes see. Boosting and forest have its default
settings, apart from smaller leaves where labels are few (20 rows in a leaf of 50 would leave stumps). The machine
chooses C and gamma on parts of the labels.

Cost of a draw with n labels, d columns and K classes: boosting O(100 K n d), forest O(300 n log n sqrt d), machine
O(n^2 d) 45 times with at most 2,000 labels, then once with at most 10,000; fewer where columns are more than 100.

Kernel PCA in the feature space of a model: the same preprocessing, kernel and landmarks, without views.

What a loss and its views have learned is the difference between the two. Cost: one pass over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if

from krepes.base.estimators import Predictor
from krepes.embedding import KernelEmbedding
from krepes.evaluation.probe_inputs import draw_count, validation_splits
from krepes.evaluation.probe_result import CLASSIFIER, REGRESSOR
from krepes.losses import KernelPCA
from krepes.views import NoViews

BOOSTING, FOREST, MACHINE = "gradient boosting", "random forest", "RBF SVM"
N_TREES = 300
SEARCH_LABELS, MOST_LABELS, USUAL_COLUMNS = 2000, 10_000, 100
C_VALUES = (1.0, 10.0, 100.0)
GAMMAS = (0.1, 1.0, 10.0)  # times 1 / d, of columns of unit variance


def baseline_estimators(task: str, n_labels: int) -> dict[str, Predictor]:
    """Unfitted estimators by name, for "classification" or "regression" with about `n_labels` labels."""
    leaf = int(np.clip(n_labels // 20, 1, 20))
    threads = torch.get_num_threads()  # because --threads sets them
    quantity = task == "regression"
    boosting = HistGradientBoostingRegressor if quantity else HistGradientBoostingClassifier
    forest = RandomForestRegressor if quantity else RandomForestClassifier
    return {
        BOOSTING: boosting(min_samples_leaf=leaf, early_stopping=False),
        FOREST: forest(N_TREES, n_jobs=threads),
        MACHINE: TunedMachine(task),
    }


@dataclass(eq=False, repr=False)
class TunedMachine(BaseEstimator):
    """An RBF support vector machine on standardised columns; C and gamma chosen on parts of the labels.

    Parameters
    ----------
    task : "classification" or "regression"
    search_labels : the most labels used for the choice, of 100 columns; fewer with more columns, at the same cost.
    most_labels : the most labels used for the fit, likewise; `notes_` says if there were more.
    random_state : seed of the parts.
    """

    task: str = "classification"
    search_labels: int = SEARCH_LABELS
    most_labels: int = MOST_LABELS
    random_state: int | None = 0

    def fit(self, X: np.ndarray, y: np.ndarray) -> TunedMachine:
        generator = np.random.default_rng(self.random_state)
        self.notes_: list[str] = []
        fewer = min(1.0, (USUAL_COLUMNS / X.shape[1]) ** 0.5)
        rows = self._some(y, int(fewer * self.most_labels), generator)
        if len(rows) < len(y):
            self.notes_ = [f"the {MACHINE} was fitted on {len(rows):,} of the {len(y):,} labels"]
        X, y = X[rows], y[rows]
        few = self._some(y, int(fewer * self.search_labels), generator)
        splits = validation_splits(self._strata(y[few]), 0.2, generator)
        machine, prefix = self._machine()
        gammas = [gamma / X.shape[1] for gamma in GAMMAS]
        grid = {f"{prefix}__C": C_VALUES, f"{prefix}__gamma": gammas}
        self.best_params_: dict[str, float] = {}
        if splits:
            found = GridSearchCV(machine, grid, cv=splits, refit=False).fit(X[few], y[few])
            self.best_params_ = found.best_params_
        self.machine_ = machine.set_params(**self.best_params_).fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.machine_.predict(X)

    @available_if(lambda self: self.task == "classification")
    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self.machine_.decision_function(X)

    @property
    def classes_(self) -> np.ndarray:
        return self.machine_.classes_

    def _machine(self) -> tuple[Predictor, str]:
        """On standardised columns, and for a quantity on a standardised target; and where C and gamma are set."""
        if self.task == "classification":
            return make_pipeline(StandardScaler(), SVC()), "svc"
        pipeline = make_pipeline(StandardScaler(), SVR())
        return TransformedTargetRegressor(pipeline, transformer=StandardScaler()), "regressor__svr"

    def _strata(self, y: np.ndarray) -> np.ndarray:
        if self.task == "regression":
            return np.zeros(len(y), dtype=np.int64)
        return np.unique(y, return_inverse=True)[1]

    def _some(self, y: np.ndarray, most: int, generator: np.random.Generator) -> np.ndarray:
        return np.arange(len(y)) if len(y) <= most else draw_count(self._strata(y), most, generator)

    def __sklearn_tags__(self) -> Tags:
        return CLASSIFIER if self.task == "classification" else REGRESSOR


def is_kernel_pca(model: KernelEmbedding) -> bool:
    """Whether a model is kernel PCA itself."""
    return isinstance(model.loss_, KernelPCA)


def same_kernel_pca(model: KernelEmbedding, X: Any, *, verbose: int = 0) -> KernelEmbedding:
    """Kernel PCA of X, as wide as a fitted model, with its kernel and its landmarks.

    Parameters
    ----------
    model : a fitted KernelEmbedding
    X : the rows that the model was fitted on, or the training rows of an evaluation, as `fit` takes them.
    verbose : 1 shows progress on a terminal.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = KernelEmbedding(3, n_landmarks=50, random_state=0).fit(X)
    >>> other = same_kernel_pca(model, X)
    >>> other.loss_, bool((other.landmarks_ == model.landmarks_).all())
    (KernelPCA(), True)
    """
    space = replace(model.space_, views=NoViews(), exact_views=False)
    shared: dict[str, Any] = {name: getattr(model, name) for name in ("device", "dtype", "engine")}
    pca = KernelEmbedding(len(model.intercept_), loss="kernel_pca", views=None, verbose=verbose, **shared)
    return pca.fit(X, space=space)
