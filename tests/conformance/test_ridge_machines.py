"""The kernel ridge machines keep scikit-learn's contract, and work with its tools."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes.kernels import Gaussian, Laplacian
from krepes.machines import Cells, KernelRidgeClassifier, KernelRidgeRegressor

WEIGHTS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "a row that is there twice is left out once, so that errors of "
    "rows left out, and what is chosen by them, are not those of a row of weight two; test_kernel_ridge.py compares "
    "fits whose kernel and penalty are given",
)


@parametrize_with_checks(
    [
        KernelRidgeRegressor(kernel="gaussian"),
        KernelRidgeClassifier(kernel="gaussian"),
        KernelRidgeRegressor(kernel="gaussian", local=Cells(size=20)),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [
        KernelRidgeRegressor(),
        KernelRidgeClassifier(kernel="gaussian", local=Cells(size=20, directions="columns", landmarks=True)),
        KernelRidgeClassifier(kernel=Laplacian(1.0), input_metric=None, class_weight="balanced"),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_checks_in_other_settings(estimator, check):
    check(estimator)


X, y = load_iris(return_X_y=True)
_order = np.random.default_rng(0).permutation(len(X))  # folds of scikit-learn's are rows in a row
X, y = X[_order], y[_order]
FIXED = {"kernel": "gaussian", "input_metric": None, "random_state": 0}


def test_what_it_is():
    assert is_regressor(KernelRidgeRegressor())
    assert is_classifier(KernelRidgeClassifier())


def test_grid_search_over_penalty_and_kernel():
    grid = {"kernel": ["gaussian", Laplacian(norm=1)], "penalty": [1e-3, 10.0]}
    search = GridSearchCV(KernelRidgeClassifier(**FIXED), grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.penalty_ == search.best_params_["penalty"]
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) > 1
    inside = {"kernel__lengthscale": [0.01, 2.0]}
    search = GridSearchCV(KernelRidgeRegressor(**FIXED), inside, cv=3, error_score="raise").fit(
        X[:, :3], X[:, 3]
    )
    assert search.best_params_ == {"kernel__lengthscale": 2.0}
    assert search.best_estimator_.kernel_.lengthscale == 2.0


def test_in_pipelines_and_other_estimators():
    pipeline = make_pipeline(StandardScaler(), KernelRidgeClassifier(**FIXED))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.9
    assert cross_val_score(pipeline, X, y, cv=3, scoring="neg_log_loss").min() > -0.4
    regression = make_pipeline(StandardScaler(), KernelRidgeRegressor(**FIXED))
    assert cross_val_score(regression, X[:, :3], X[:, 3], cv=3, scoring="r2").mean() > 0.3
    assert OneVsRestClassifier(KernelRidgeClassifier(**FIXED)).fit(X, y).score(X, y) > 0.9


def test_sample_weights_are_routed():
    w = np.where(y == 2, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = KernelRidgeClassifier(**FIXED).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, machine).fit(X, y, sample_weight=w)
    assert 2 not in pipeline.predict(X)


@pytest.mark.parametrize(
    "model",
    [
        KernelRidgeRegressor(**FIXED),
        KernelRidgeClassifier(**FIXED),
        KernelRidgeClassifier(**FIXED, local=Cells(size=40)),
    ],
)
def test_clones_and_pickles(model):
    model = clone(model).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.partial_fit(X, y).n_samples_seen_ == 300
    assert not hasattr(clone(model), "space_")
    assert np.array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


def test_fit_does_not_touch_its_arguments():
    kernel = Gaussian()
    rows, targets, weight = X.copy(), y.copy(), np.linspace(0.5, 2, 150)
    model = KernelRidgeClassifier(kernel=[kernel, "laplacian"], random_state=0, class_weight={0: 2.0})
    before = repr(model)
    model.fit(rows, targets, sample_weight=weight)
    assert repr(model) == before
    assert kernel.lengthscale == "median"
    assert np.array_equal(rows, X)
    assert np.array_equal(targets, y)


def test_the_same_seed_gives_the_same_bits():
    first, second = (KernelRidgeRegressor(random_state=3, n_landmarks=30).fit(X, y) for _ in range(2))
    assert np.array_equal(first.dual_coef_, second.dual_coef_)
    assert str(first.choice_) == str(second.choice_)


def test_the_settings_of_cells_are_parameters():
    model = KernelRidgeClassifier(**FIXED, local=Cells(size=40))
    given = model.local
    assert model.get_params()["local__size"] == 40
    copy = clone(model).set_params(local__size=20, local__directions="columns")
    assert (given.size, copy.local.size, copy.local.directions) == (40, 20, "columns")
    cells = [each.fit(X, y).local_.partitions[0].n_cells for each in (model, copy)]
    assert cells[1] > cells[0] > 1
    search = GridSearchCV(model, {"local__size": [20, 60]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.9
