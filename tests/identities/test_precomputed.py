"""A model of a kernel matrix is the model of the rows that the matrix was computed from."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from krepes import KernelEmbedding, load
from krepes.kernels import Gaussian, Precomputed
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
)
from refusals import refuses

ORDER = np.random.default_rng(0).permutation(150)
X = load_iris().data[ORDER] + 1e-3 * np.random.default_rng(1).normal(size=(150, 4))
y = load_iris().target[ORDER]
KERNEL = Gaussian(1.5)
K = KERNEL(X).numpy()
TRAIN, TEST = np.arange(100), np.arange(100, 150)
K_TRAIN, K_TEST = K[np.ix_(TRAIN, TRAIN)], K[np.ix_(TEST, TRAIN)]
PCA = {"loss": "kernel_pca", "dtype": "float64", "regularization": 0.0, "random_state": 0}


@pytest.mark.parametrize("n_landmarks", [30, 100])
def test_kernel_pca_of_a_matrix_is_that_of_its_rows(n_landmarks, tmp_path):
    model = KernelEmbedding(5, kernel="precomputed", n_landmarks=n_landmarks, **PCA).fit(K_TRAIN)
    rows = KernelEmbedding(5, kernel=KERNEL, n_landmarks=n_landmarks, **PCA).fit(X[TRAIN])
    assert np.array_equal(model.landmark_indices_, rows.landmark_indices_)
    Z = model.transform(K_TEST)
    assert np.abs(Z - rows.transform(X[TEST])).max() < 1e-10
    assert model.n_features_in_ == 100
    model.save(tmp_path / "m.krepes")
    assert np.array_equal(load(tmp_path / "m.krepes").transform(K_TEST), Z)


def test_with_all_rows_it_is_that_of_scikit_learn():
    Z = KernelEmbedding(5, kernel=Precomputed(), n_landmarks=100, **PCA).fit(K_TRAIN).transform(K_TEST)
    theirs = KernelPCA(5, kernel="precomputed").fit(K_TRAIN).transform(K_TEST)
    assert np.abs(np.abs(Z) - np.abs(theirs)).max() < 1e-10


@pytest.mark.parametrize("solver", ["direct", "conjugate_gradients"])
def test_ridge_of_a_matrix_is_kernel_ridge(solver, tmp_path):
    machine = KernelRidgeRegressor(
        kernel="precomputed", penalty=0.1, fit_intercept=False, solver=solver, random_state=0
    ).fit(K_TRAIN, y[TRAIN])
    theirs = KernelRidge(alpha=0.1, kernel="precomputed").fit(K_TRAIN, y[TRAIN]).predict(K_TEST)
    found = machine.predict(K_TEST)
    assert np.abs(found - theirs).max() < (1e-10 if solver == "direct" else 1e-5)
    machine.save(tmp_path / "r.krepes")
    assert np.array_equal(load(tmp_path / "r.krepes").predict(K_TEST), found)


def test_cross_validation_takes_rows_and_columns():
    machine = KernelRidgeClassifier(kernel="precomputed", random_state=0)
    assert get_tags(machine).input_tags.pairwise
    assert not get_tags(KernelRidgeClassifier()).input_tags.pairwise
    rows = KernelRidgeClassifier(kernel=KERNEL, lengthscale=1.5, input_metric=None, random_state=0)
    assert np.array_equal(cross_val_score(machine, K, y), cross_val_score(rows, X, y))
    search = GridSearchCV(machine, {"n_landmarks": [3, 30]}, cv=3, error_score="raise").fit(K, y)
    assert search.best_params_["n_landmarks"] == 30
    pipeline = make_pipeline(KernelEmbedding(5, kernel="precomputed", **PCA), LogisticRegression())
    assert cross_val_score(pipeline, K, y, cv=3, error_score="raise").mean() > 0.9


def test_rows_of_weight_zero_are_not_used():
    weight = (np.arange(100) % 2).astype(float)
    kept = np.flatnonzero(weight)
    settings = {"kernel": "precomputed", "penalty": 0.1, "n_landmarks": 50, "random_state": 0}
    weighted = KernelRidgeRegressor(**settings).fit(K_TRAIN, y[TRAIN], sample_weight=weight)
    assert set(weighted.landmark_indices_) == set(kept)
    only = KernelRidgeRegressor(**settings).fit(K_TRAIN[np.ix_(kept, kept)], y[kept])
    assert np.abs(weighted.predict(K_TEST) - only.predict(K_TEST[:, kept])).max() < 1e-8


def test_a_space_and_a_first_part_of_rows():
    model = KernelEmbedding(3, kernel="precomputed", n_landmarks=20, **PCA)
    space = model.prepare(K_TRAIN)
    Z = model.fit(K_TRAIN).transform(K_TEST)
    again = KernelEmbedding(3, **PCA).fit(K_TRAIN, space=space)
    assert np.abs(again.transform(K_TEST) - Z).max() < 1e-10
    first = KernelEmbedding(3, kernel="precomputed", n_landmarks=20, **PCA).partial_fit(K_TRAIN)
    assert np.abs(first.transform(K_TEST) - Z).max() < 1e-10


def test_variances_and_coverage_of_a_matrix_are_those_of_its_rows():
    """k(x, x) of new rows is a last column; without it they are refused, and means are not."""
    given = {"amplitude": 1.0, "noise": 0.1, "n_landmarks": 60, "random_state": 0}
    wide = np.column_stack([K_TEST, KERNEL.diag(X[TEST]).numpy()])
    rows = GaussianProcessRegressor(kernel=KERNEL, preprocess=None, **given).fit(X[TRAIN], y[TRAIN])
    matrix = GaussianProcessRegressor(kernel="precomputed", **given).fit(K_TRAIN, y[TRAIN])
    for theirs, ours in zip(rows.predict(X[TEST], return_std=True), matrix.predict(wide, return_std=True)):
        assert np.abs(theirs - ours).max() < 1e-8
    assert np.array_equal(matrix.predict(K_TEST), matrix.predict(wide))
    with refuses(ValueError, "k(x, x)", "last column"):
        matrix.predict(K_TEST, return_std=True)
    with refuses(ValueError, "k(x, x)", "negative"):
        matrix.predict(np.column_stack([K_TEST, -np.ones(50)]))
    some = KernelEmbedding(5, kernel="precomputed", n_landmarks=30, **PCA).fit(K_TRAIN)
    same = KernelEmbedding(5, kernel=KERNEL, n_landmarks=30, **PCA).fit(X[TRAIN])
    assert np.abs(some.coverage(wide) - same.coverage(X[TEST])).max() < 1e-8


def test_probabilities_of_a_matrix_are_those_of_its_rows():
    given = {"amplitude": 1.0, "n_landmarks": 60, "random_state": 0}
    wide = np.column_stack([K_TEST, np.ones(50)])
    rows = GaussianProcessClassifier(kernel=KERNEL, preprocess=None, **given).fit(X[TRAIN], y[TRAIN])
    matrix = GaussianProcessClassifier(kernel="precomputed", **given).fit(K_TRAIN, y[TRAIN])
    assert np.abs(rows.predict_proba(X[TEST]) - matrix.predict_proba(wide)).max() < 1e-6
