"""NoveltyDetector keeps scikit-learn's contract, and works with its tools."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_outlier_detector
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes.kernels import Gaussian
from krepes.machines import NoveltyDetector

WEIGHTS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "a row that is there twice may calibrate, by its index, where one "
    "of weight two is learned; test_novelty.py compares weights in a given space",
)


@parametrize_with_checks([NoveltyDetector()], expected_failed_checks=lambda estimator: WEIGHTS)
@pytest.mark.filterwarnings("ignore:With .* calibration rows no alarm")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [
        NoveltyDetector(measure="regression", kernel="gaussian"),
        NoveltyDetector(measure="distance", kernel=Gaussian(1.0)),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
@pytest.mark.filterwarnings("ignore:With .* calibration rows no alarm")
def test_scikit_learn_checks_in_other_settings(estimator, check):
    check(estimator)


X, y = load_iris(return_X_y=True)
SETOSA, OTHERS = X[y == 0], X[y > 0]


def test_what_it_is():
    assert is_outlier_detector(NoveltyDetector())


def test_in_pipelines_and_grid_search():
    pipeline = make_pipeline(StandardScaler(), NoveltyDetector(random_state=0)).fit(SETOSA)
    assert (pipeline.predict(OTHERS) == -1).mean() > 0.9
    assert NoveltyDetector(random_state=0).fit_predict(SETOSA).shape == (50,)

    def auc(model, rows, targets):
        return roc_auc_score(targets, model.decision_function(rows))

    truth = np.where(y == 0, 1, 0)
    grid = {"measure": ["variance", "distance"], "kernel__lengthscale": [0.5, 2.0]}
    search = GridSearchCV(NoveltyDetector(kernel="gaussian", random_state=0), grid, scoring=auc, cv=2)
    order = np.random.default_rng(0).permutation(150)
    assert hasattr(search.fit(X[order], truth[order]), "best_params_")


def test_clones_and_pickles():
    model = NoveltyDetector(random_state=0).fit(SETOSA)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.p_values(X), model.p_values(X))
    assert again.partial_fit(SETOSA).n_samples_seen_ == 100
    assert not hasattr(clone(model), "space_")
    assert np.array_equal(clone(model).fit(SETOSA).p_values(X), model.p_values(X))
