"""Conformal prediction and forgetting refuse what cannot be, and say why."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from refusals import refuses

OPTIONS = {"kernel": "gaussian", "input_metric": None, "n_landmarks": 20, "random_state": 0}
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 3))
y = X[:, 0] + 0.1 * rng.normal(size=100)


@pytest.fixture(scope="module")
def model():
    return KernelRidgeRegressor(**OPTIONS).fit(X, y)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 90, "0.9", None, float("nan")])
def test_a_confidence_lies_between_0_and_1(model, confidence):
    with refuses(ValueError, "confidence="):
        model.predict_interval(X, confidence)
    with refuses(ValueError, "confidence="):
        KernelRidgeClassifier(**OPTIONS).fit(X, y > 0).predict_set(X, confidence)


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        (X, "pair"),
        ((X,), "pair"),
        ((X, None), "y"),
        ((X, y[:5]), ("5 rows", "100")),
        ((X[:, :2], y), "2"),
        ((X, np.full(100, np.nan)), "NaN"),
        ((X[:0], y[:0]), "0 sample"),
    ],
)
def test_calibration_is_a_pair_of_rows_and_targets(model, calibration, message):
    with refuses(ValueError, message):
        model.predict_interval(X, calibration=calibration)


def test_calibration_rows_have_known_classes():
    kind = KernelRidgeClassifier(**OPTIONS).fit(X, y > 0)
    with refuses(ValueError, "'yes'"):
        kind.predict_set(X, calibration=(X[:2], ["yes", "no"]))


def test_a_model_that_is_not_fitted_predicts_no_interval():
    for call in (
        KernelRidgeRegressor().predict_interval,
        KernelRidgeClassifier().predict_set,
    ):
        with pytest.raises(NotFittedError):
            call(X)
    with pytest.raises(NotFittedError):
        KernelRidgeRegressor().forget(X, y, rows=range(100))


def test_rows_in_one_fold_need_calibration():
    """More than 100 rows whose indices fall into the same fold: there is no fit without them."""
    first = KernelRidgeRegressor(n_folds=3, **OPTIONS | {"n_landmarks": 3}).fit(X[:30], y[:30])
    fold = first.total_.equations
    model = first.empty_copy()
    for row in range(400):
        part = first.empty_copy().partial_fit(X[:1], y[:1], first_row=row)
        if list(part.total_.equations) == [next(iter(fold))]:
            model.merge(part)
    with refuses(ValueError, "fold"):
        model.predict_interval(X)
    assert np.isfinite(model.predict_interval(X, calibration=(X, y))).all()


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        ([0], slice(0, 2), "2 rows"),
        ([0.0, 1.0], slice(0, 2), "2 rows"),
        ([-1, 1], slice(0, 2), ("0", "counted")),
        ([5, 5], slice(5, 7), "twice"),
        ([500], slice(0, 1), ("never", "added")),
        (np.arange(100), slice(0, 100), "rows"),
    ],
)
def test_rows_to_forget_are_indices(model, rows, given, message):
    before = model.predict(X), model.n_samples_seen_
    with refuses(ValueError, message):
        model.forget(X[given], y[given], rows=rows)
    assert np.array_equal(model.predict(X), before[0])
    assert model.n_samples_seen_ == before[1]


def test_landmarks_cannot_be_forgotten(model):
    row = int(model.landmark_indices_[0])
    with refuses(ValueError, f"row {row}", "landmarks"):
        model.forget(X[[row]], y[[row]], rows=[row])


def test_landmarks_are_known_by_their_global_index():
    model = KernelRidgeRegressor(**OPTIONS).partial_fit(X, y, first_row=1000)
    row = int(model.landmark_indices_[0])
    assert row >= 1000
    assert np.allclose(X[model.landmark_indices_ - 1000], model.landmarks_)
    with refuses(ValueError, "landmarks"):
        model.forget(X[[row - 1000]], y[[row - 1000]], rows=[row])


@pytest.mark.parametrize("n_kept", [20_000, 40])
def test_kept_rows_with_other_values_and_rows_forgotten_before_are_refused(n_kept):
    model = KernelRidgeRegressor(n_kept=n_kept, **OPTIONS).fit(X, y)
    free = np.setdiff1d(model.held_out_rows_, model.landmark_indices_)[:3]
    before = model.predict(X)
    for change in (
        {"X": X[free] + 0.1},
        {"y": y[free] + 0.1},
        {"sample_weight": np.full(3, 2.0)},
    ):
        with refuses(ValueError, "X", "y"):
            model.forget(**{"X": X[free], "y": y[free], "rows": free} | change)
    assert np.array_equal(model.predict(X), before)
    model.forget(X[free], y[free], rows=free)
    with refuses(ValueError, "forgotten"):
        model.forget(X[free], y[free], rows=free)


def test_more_weight_than_a_fold_has_cannot_be_forgotten():
    model = KernelRidgeRegressor(n_kept=5, **OPTIONS).fit(X, y)
    known = np.concatenate([model.held_out_rows_, model.landmark_indices_])
    row = np.setdiff1d(np.arange(100), known)[:1]
    with refuses(ValueError, "rows=", "sample_weight="):
        model.forget(X[row], y[row], rows=row, sample_weight=[1000.0])


def test_a_model_saved_without_sums_cannot_forget(model, tmp_path):
    model.save(tmp_path / "m", sums=False)
    with refuses(ValueError, "sums"):
        KernelRidgeRegressor.load(tmp_path / "m").forget(X[:1], y[:1], rows=[0])
