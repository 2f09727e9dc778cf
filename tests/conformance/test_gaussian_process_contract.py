"""Gaussian processes keep scikit-learn's contract, and work with its tools."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes.kernels import Gaussian, Matern
from krepes.machines import GaussianProcessClassifier, GaussianProcessRegressor
from refusals import refuses

WEIGHTS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "a sample of rows and landmarks are drawn among the rows, so that "
    "those of repeated rows are others; test_gaussian_process.py compares fits whose kernel and landmarks are given",
)


@parametrize_with_checks(
    [
        GaussianProcessRegressor(kernel="gaussian"),
        GaussianProcessClassifier(kernel=Gaussian(1.0), amplitude=5.0),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS if estimator.amplitude == "auto" else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [
        GaussianProcessRegressor(kernel=Matern(), input_metric=None, n_landmarks=50),
        GaussianProcessClassifier(kernel="gaussian", input_metric=None),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_checks_in_other_settings(estimator, check):
    check(estimator)


X, y = load_iris(return_X_y=True)
_order = np.random.default_rng(0).permutation(len(X))
X, y = X[_order], y[_order]
FIXED = {"kernel": "gaussian", "input_metric": None, "random_state": 0}
MACHINES = [GaussianProcessRegressor, GaussianProcessClassifier]


def test_what_it_is():
    assert is_regressor(GaussianProcessRegressor())
    assert is_classifier(GaussianProcessClassifier())
    for name in ("partial_fit", "merge", "empty_copy"):
        assert hasattr(GaussianProcessRegressor(), name)
        assert not hasattr(GaussianProcessClassifier(), name)
    with refuses(AttributeError, "GaussianProcessClassifier", "merge", "times"):
        GaussianProcessClassifier().merge  # noqa: B018


def test_grid_search_and_pipelines():
    grid = {"kernel__lengthscale": [0.01, 2.0]}
    search = GridSearchCV(GaussianProcessRegressor(**FIXED), grid, cv=3, error_score="raise")
    assert search.fit(X[:, :3], X[:, 3]).best_params_ == {"kernel__lengthscale": 2.0}
    pipeline = make_pipeline(StandardScaler(), GaussianProcessClassifier(**FIXED))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.9
    assert cross_val_score(pipeline, X, y, cv=3, scoring="neg_log_loss").min() > -0.5


@pytest.mark.parametrize("machine", MACHINES)
def test_clones_pickles_and_seeds(machine):
    model = machine(n_landmarks=40, **FIXED).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert not hasattr(clone(model), "space_")
    assert np.array_equal(clone(model).fit(X, y).dual_coef_, model.dual_coef_)
    assert str(clone(model).fit(X, y).choice_) == str(model.choice_)


@pytest.mark.parametrize("machine", MACHINES)
def test_fit_does_not_touch_its_arguments(machine):
    kernel, rows, weight = Gaussian(), X.copy(), np.linspace(0.5, 2, 150)
    model = machine(kernel=[kernel, "matern"], random_state=0)
    before = repr(model)
    model.fit(rows, y, sample_weight=weight)
    assert repr(model) == before
    assert kernel.lengthscale == "median"
    assert np.array_equal(rows, X)


@pytest.mark.parametrize("machine", MACHINES)
def test_prepare_gives_the_space_and_the_choice_of_a_fit(machine):
    model = machine(**FIXED, n_landmarks=40)
    space = model.prepare(X, y)
    model.fit(X, y, space=space)
    assert model.space_ is space
    assert model.choice_ is not None
    assert np.array_equal(model.predict(X), clone(model).fit(X, y).predict(X))


def test_tables_with_a_named_target():
    frame = load_iris(as_frame=True).frame
    rows = frame.drop(columns="target")
    regressor = GaussianProcessRegressor(random_state=0).fit(rows, "petal width (cm)")
    assert regressor.label_ == "petal width (cm)"
    assert regressor.score(rows, frame["petal width (cm)"]) > 0.9
    classifier = GaussianProcessClassifier(random_state=0, n_landmarks=60).fit(frame, "target")
    assert classifier.score(frame, frame["target"]) > 0.9
