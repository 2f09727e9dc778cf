"""What machines with cells choose, and how often their intervals and sets are right."""

from __future__ import annotations

import numpy as np
import pytest

from krepes.machines import Cells, KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.cells.choosing import ENOUGH

_draws = np.random.default_rng(0)
PLAIN = {"kernel": "gaussian", "input_metric": None, "random_state": 0}


def checkered(n: int, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """More bumps than there are landmarks."""
    X = _draws.uniform(size=(n, 2))
    return X, np.sin(40 * X[:, 0]) * np.sin(40 * X[:, 1]) + noise * _draws.normal(size=n)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_and_sets_cover_what_they_say(confidence):
    """Within four standard errors, of the calibration and of the new rows."""
    X, y = checkered(3000)
    train, test = slice(1500), slice(1500, None)
    error = np.sqrt(confidence * (1 - confidence) * 2 / 1500)
    machine = KernelRidgeRegressor(local=Cells(size=200), **PLAIN).fit(X[train], y[train])
    low, high = machine.predict_interval(X[test], confidence=confidence).T
    assert abs(np.mean((low <= y[test]) & (y[test] <= high)) - confidence) < 4 * error
    assert np.isfinite(low).all()
    names = np.array(["low", "middle", "high"])[np.digitize(y, [-0.3, 0.3])]
    classifier = KernelRidgeClassifier(local=Cells(size=200), **PLAIN).fit(X[train], names[train])
    sets = classifier.predict_set(X[test], confidence=confidence)
    inside = sets[np.arange(1500), np.searchsorted(classifier.classes_, names[test])]
    assert abs(inside.mean() - confidence) < 4 * error


def test_the_interval_is_the_quantile_of_the_errors_of_rows_left_out():
    X, y = checkered(600)
    machine = KernelRidgeRegressor(local=Cells(size=100), random_state=0).fit(X, y)
    left = np.abs(y[machine.held_out_rows_] - np.asarray(machine.held_out_predictions_))
    k = int(np.ceil(0.9 * (len(left) + 1)))
    low, high = machine.predict_interval(X[:20], confidence=0.9).T
    np.testing.assert_allclose((high - low) / 2, np.sort(left)[k - 1], rtol=1e-5)
    np.testing.assert_allclose((high + low) / 2, machine.predict(X[:20]), atol=1e-5)


def test_small_tables_are_as_before():
    """Below two cells of rows nothing is compared, and the bits are those of landmarks."""
    X, y = checkered(ENOUGH * Cells().size - 1)
    few = {"n_landmarks": 30, **PLAIN}
    machine = KernelRidgeRegressor(**few).fit(X, y)
    assert machine.local_ is None
    assert np.array_equal(machine.predict(X), KernelRidgeRegressor(**few, local=False).fit(X, y).predict(X))


def test_local_structure_is_learned_in_cells():
    X, y = checkered(5000)
    machine = KernelRidgeRegressor(n_landmarks=50, **PLAIN).fit(X[:4000], y[:4000])
    plan = machine.local_
    assert plan.in_cells
    assert plan.errors[plan.kind] < plan.errors["landmarks"]
    assert "<- chosen" in str(plan)
    landmarks = KernelRidgeRegressor(n_landmarks=50, **PLAIN, local=False).fit(X[:4000], y[:4000])
    assert machine.score(X[4000:], y[4000:]) > landmarks.score(X[4000:], y[4000:]) + 0.2


def test_noise_stays_with_landmarks():
    """The predictions are then those of landmarks alone."""
    X = _draws.normal(size=(4000, 3))
    y = X[:, 0] + 3 * _draws.normal(size=4000)
    machine = KernelRidgeRegressor(n_landmarks=50, **PLAIN).fit(X, y)
    assert machine.local_.kind == "landmarks"
    assert set(machine.local_.errors) == {"landmarks", "cells", "landmarks and cells", "mean of both"}
    landmarks = KernelRidgeRegressor(n_landmarks=50, **PLAIN, local=False).fit(X, y)
    assert np.array_equal(machine.predict(X[:200]), landmarks.predict(X[:200]))


def test_columns_of_noise_lose_their_weight():
    """The metric of cells is learned from the gradients of their functions."""
    X = _draws.uniform(size=(1500, 6))
    y = np.sin(12 * X[:, 0]) + 0.1 * _draws.normal(size=1500)
    machine = KernelRidgeRegressor(kernel="gaussian", local=Cells(size=200), random_state=0).fit(X, y)
    weights = np.asarray(machine.local_.kernel.M)
    assert weights[0] > 10 * weights[1:].max()
    plain = KernelRidgeRegressor(kernel="gaussian", local=Cells(size=200), random_state=0, input_metric=None)
    assert machine.held_out_score_.value > plain.fit(X, y).held_out_score_.value
