"""Importances of columns, the held-out score, and explanations of kernel ridge machines, against naive computations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from krepes import load
from krepes.explain import attribution, class_direction, target_direction
from krepes.kernels import Reweighted
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.fold_choices import stratified_folds
from refusals import refuses

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 4))
Y = np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=150)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [-0.4, 0.4])]


@pytest.fixture(scope="module")
def regressor() -> KernelRidgeRegressor:
    return KernelRidgeRegressor(kernel="gaussian", random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def classifier() -> KernelRidgeClassifier:
    return KernelRidgeClassifier(kernel="gaussian", n_landmarks=50, random_state=0).fit(X, LABELS)


def test_the_column_that_matters_is_the_important_one(regressor):
    found = regressor.column_importances()
    assert found.names == ["x0", "x1", "x2", "x3"]
    assert found.shares.sum() == pytest.approx(1)
    assert found.shares[1] > 0.8
    assert found.errors is not None
    assert found.without_folds.shape == (5, 4)
    assert found.order[0] == 1
    assert "x1" in str(found).splitlines()[0]


def test_a_share_is_the_part_of_the_mean_squared_distance(regressor):
    """share_j = mean over pairs of M_j (x_j - x'_j)^2 / mean over pairs of the squared distance in the metric."""
    kernel = regressor.kernel_
    assert isinstance(kernel, Reweighted)
    squares = np.square(X[:, None] - X[None]) * np.asarray(kernel.M)
    expected = squares.mean((0, 1)) / squares.sum(2).mean()
    np.testing.assert_allclose(regressor.column_importances(0).shares, expected, rtol=1e-6)


def test_the_error_is_that_of_a_jackknife(regressor):
    found = regressor.column_importances(4)
    s, k = found.without_folds, 4
    expected = [
        ((k - 1) / k * sum((s[f, j] - s[:, j].mean()) ** 2 for f in range(k))) ** 0.5 for j in range(4)
    ]
    np.testing.assert_allclose(found.errors, expected)


def test_encoded_columns_add_up_to_their_column():
    noise = {f"noise {j}": rng.normal(size=150) for j in range(5)}
    frame = pd.DataFrame(noise | {"group": LABELS, "y": (LABELS == "a") + 0.1 * X[:, 2]})
    machine = KernelRidgeRegressor(kernel="gaussian", random_state=0).fit(frame, "y")
    found = machine.column_importances(2)
    assert found.names == [*noise, "group"]
    assert found.shares[5] > 0.5
    encoded = machine.input_space_.encoder.transform(frame)
    weights = np.asarray(machine.kernel_.M) * encoded.var(axis=0)
    assert found.shares[5] == pytest.approx(weights[5:].sum() / weights.sum())


def test_a_machine_without_a_learned_metric_has_no_importances(tmp_path, regressor):
    plain = KernelRidgeRegressor(kernel="gaussian", input_metric=None, random_state=0).fit(X, Y)
    with refuses(ValueError, "learned", "metric"):
        plain.column_importances()
    regressor.save(tmp_path / "m", sums=False)
    with refuses(ValueError, "sums=True"):
        KernelRidgeRegressor.load(tmp_path / "m").column_importances()
    with refuses(ValueError, "n_folds=1"):
        regressor.column_importances(1)


def test_importances_survive_a_file(tmp_path, regressor):
    regressor.save(tmp_path / "m")
    same = KernelRidgeRegressor.load(tmp_path / "m")
    assert same.metric_ == regressor.metric_
    np.testing.assert_allclose(same.column_importances().shares, regressor.column_importances().shares)


def test_the_held_out_score_is_that_of_refits_without_each_row():
    rows, y = X[:25], Y[:25]
    machine = KernelRidgeRegressor(kernel="gaussian", random_state=0).fit(rows, y)
    predicted = []
    for i in range(25):
        others = np.delete(np.arange(25), i)
        refit = KernelRidgeRegressor(penalty=machine.penalty_, random_state=0).fit(
            rows[others], (y[others] - machine.targets_.shift) / machine.targets_.scale, space=machine.space_
        )
        predicted.append(refit.predict(rows[[i]])[0] * machine.targets_.scale[0] + machine.targets_.shift[0])
    np.testing.assert_allclose(
        machine.held_out_predictions_, np.array(predicted)[machine.held_out_rows_], rtol=1e-4
    )


def test_the_held_out_score_of_few_rows_is_that_of_machines_without_each_fold():
    """M3: kernel, metric and penalty are chosen without the rows that they are judged by."""
    rows, y = X[:40], Y[:40]
    machine = KernelRidgeRegressor(kernel="gaussian", random_state=0).fit(rows, y)
    score = machine.held_out_score_
    kept = machine.held_out_rows_
    folds = stratified_folds(machine.held_out_.y, 10, machine.seed_)
    predicted = np.empty(40)
    for fold in range(10):
        inside, outside = kept[folds == fold], np.sort(kept[folds != fold])
        refit = KernelRidgeRegressor(kernel="gaussian", random_state=0).fit(rows[outside], y[outside])
        predicted[inside] = refit.predict(rows[inside])
    left, spread = np.square(y - predicted), np.square(y - y.mean())
    assert score.value == pytest.approx(1 - left.sum() / spread.sum(), rel=0.02)
    parts = (left - left.sum() / spread.sum() * spread) / spread.mean()
    assert score.error == pytest.approx(parts.std() / 40**0.5, rel=0.1)
    assert (score.metric, score.by) == ("r2", "nested folds")


@pytest.mark.parametrize("balanced", [True, False])
def test_the_held_out_accuracy_of_noise_is_a_half(balanced):
    """M3, M3b: 40 rows of noise were reported to have .607; with 20 rows of each class, .334."""
    reported = []
    for seed in range(8):
        draws = np.random.default_rng(seed)
        labels = np.arange(40) % 2 if balanced else draws.integers(0, 2, 40)
        machine = KernelRidgeClassifier(kernel="gaussian", random_state=0)
        reported.append(machine.fit(draws.normal(size=(40, 10)), labels).held_out_score_.value)
    error = 0.5 / (8 * 40) ** 0.5
    assert abs(np.mean(reported) - 0.5) < 4 * error


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_held_out_score_of_few_rows_survives_a_file_without_sums(tmp_path, loss):
    machine = KernelRidgeClassifier(loss=loss, kernel="gaussian", random_state=0).fit(X[:40], LABELS[:40])
    machine.save(tmp_path / "m", sums=False)
    assert load(tmp_path / "m").held_out_score_ == machine.held_out_score_
    assert machine.held_out_score_.by == "nested folds"


def test_the_held_out_accuracy_counts_weights():
    weight = 1.0 + np.arange(150) % 3
    classifier = KernelRidgeClassifier(kernel="gaussian", random_state=0)
    classifier.fit(X, LABELS, sample_weight=weight)
    score, held = classifier.held_out_score_, classifier.held_out_
    right = held.nested.numpy().argmax(1) == held.y
    w = weight[classifier.held_out_rows_]
    assert score.value == pytest.approx((w * right).sum() / w.sum())
    assert score.floor == pytest.approx(np.bincount(held.y, w).max() / w.sum())


@pytest.mark.parametrize(("rows", "y"), [(np.ones((40, 3)), Y[:40]), (X[:40], np.ones(40))])
def test_the_held_out_score_of_constants_is_a_number(rows, y):
    """R5: of constant columns, and of a constant target, which has no spread to explain."""
    score = KernelRidgeRegressor(kernel="gaussian", random_state=0).fit(rows, y).held_out_score_
    assert np.isfinite([score.value, score.error]).all()
    assert score.value <= 0


def test_the_held_out_score_of_many_rows_is_by_single_rows():
    rows = np.random.default_rng(0).normal(size=(201, 2))
    machine = KernelRidgeClassifier(kernel="gaussian", random_state=0).fit(rows, rows[:, 0] > 0)
    right = machine.held_out_predictions_ == (rows[:, 0] > 0)[machine.held_out_rows_]
    assert machine.held_out_score_.by == "leave one out"
    assert machine.held_out_score_.value == pytest.approx(right.mean())


def test_contributions_add_up_to_the_scores(classifier, regressor):
    v = class_direction(classifier, "b")
    parts = attribution(classifier, X[:5], v)
    scores = classifier.decision_function(X[:5])
    np.testing.assert_allclose(
        parts.sum(1) + classifier.intercept_ @ v, scores[:, 1] - (scores[:, 0] + scores[:, 2]) / 2, atol=1e-8
    )
    v = target_direction(regressor)
    parts = attribution(regressor, X[:5], v)
    total = parts.sum(1) + regressor.intercept_ @ v + regressor.targets_.shift[0]
    np.testing.assert_allclose(total, regressor.predict(X[:5]), atol=1e-8)
    with refuses(ValueError, "output=1"):
        target_direction(regressor, 1)


def test_two_classes_are_explained_as_they_are_decided():
    machine = KernelRidgeClassifier(kernel="gaussian", random_state=0).fit(X, Y > 0)
    v = class_direction(machine, True)
    total = attribution(machine, X[:5], v).sum(1) + machine.intercept_ @ v
    np.testing.assert_allclose(total, machine.decision_function(X[:5]), atol=1e-8)
