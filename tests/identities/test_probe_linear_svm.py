"""The probes' classifiers are what they claim to be: LIBLINEAR's machine, and a plain vote."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from krepes.evaluation import knn_probe, linear_probe
from krepes.evaluation.linear import centre_and_scale
from krepes.regression import squared_hinge
from krepes.regression.squared_hinge import svm_path
from refusals import refuses


def clouds(
    n: int, d: int, n_classes: int, seed: int = 0, spread: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    return spread * rng.normal(size=(n_classes, d))[codes] + rng.normal(size=(n, d)), codes


def objective(w: np.ndarray, b: float, X: np.ndarray, y: np.ndarray, C: float) -> float:
    """|w|^2 / 2 + b^2 / 2 + C sum max(0, 1 - y (w x + b))^2, as a loop."""
    total = 0.5 * (sum(v * v for v in w) + b * b)
    for x, sign in zip(X, y):
        total += C * max(0.0, 1 - sign * (float(np.dot(w, x)) + b)) ** 2
    return total


@pytest.mark.parametrize(("n", "d", "n_classes"), [(120, 5, 2), (150, 8, 4), (30, 60, 3), (20, 40, 2)])
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
def test_the_path_ends_at_liblinears_minimiser(n, d, n_classes, C):
    """Weights along a path of C are those of LinearSVC(dual=False), also with more columns than rows."""
    X, codes = clouds(n, d, n_classes)
    *_, (W, b) = svm_path(X, codes, n_classes, [C / 100, C / 10, C])
    expected = LinearSVC(C=C, dual=False, tol=1e-12, max_iter=100_000).fit(X, codes)
    np.testing.assert_allclose(W, expected.coef_, rtol=1e-3, atol=1e-4 * np.abs(expected.coef_).max())
    np.testing.assert_allclose(b, expected.intercept_, atol=1e-3 * np.abs(expected.coef_).max())


@given(seed=st.integers(0, 10**6), C=st.sampled_from([1e-4, 0.03, 1.0, 300.0]), n=st.integers(4, 60))
def test_no_nearby_weights_are_better(seed, C, n):
    """The minimiser of a strictly convex objective: every perturbation raises it."""
    X, codes = clouds(n, 3, 2, seed, spread=0.5)
    ((W, b),) = svm_path(X, codes, 2, [C])
    y = np.where(codes == 1, 1.0, -1.0)
    least = objective(W[0], b[0], X, y, C)
    rng = np.random.default_rng(seed)
    for size in (1e-1, 1e-2, 1e-3):
        step = size * rng.normal(size=4)
        assert least <= objective(W[0] + step[:3], b[0] + step[3], X, y, C) + 1e-9 * abs(least)


def test_kept_and_recomputed_matrices_give_the_same_machine(monkeypatch):
    """Beyond the memory budget G is computed anew for every C; the result is the same."""
    X, codes = clouds(200, 6, 5)
    kept = list(svm_path(X, codes, 5, [1e-3, 0.1, 10.0]))
    monkeypatch.setattr(squared_hinge, "KEPT_BYTES", 0)
    for (W, b), (W_again, b_again) in zip(kept, svm_path(X, codes, 5, [1e-3, 0.1, 10.0])):
        np.testing.assert_allclose(W, W_again, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(b, b_again, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("classifier", ["logistic", "svm"])
def test_both_classifiers_find_what_separates(classifier):
    X, codes = clouds(400, 6, 4, spread=3.0)
    result = linear_probe(X[:200], codes[:200], X[200:], codes[200:], classifier=classifier)
    assert result.accuracy > 0.9
    with refuses(ValueError, "'logistic'", "'svm'"):
        linear_probe(X[:200], codes[:200], X[200:], codes[200:], classifier="tree")


def test_a_rescaled_and_shifted_representation_gives_the_same_probe():
    """Only the common scale is normalised, so 1000 Z + 7 has the predictions and the C of Z."""
    X, codes = clouds(300, 6, 3)
    Z = X * np.array([5.0, 3.0, 1.0, 0.5, 0.2, 0.1])
    first = linear_probe(Z[:200], codes[:200], Z[200:], codes[200:])
    second = linear_probe(1000 * Z[:200] + 7, codes[:200], 1000 * Z[200:] + 7, codes[200:])
    assert first.chosen["C"] == second.chosen["C"]
    assert first.accuracy == second.accuracy


def test_columns_keep_their_relative_scale():
    """A probe that brought every column to unit variance would give equal weights to equal columns; this one
    favours the wide column."""
    rng = np.random.default_rng(0)
    codes = np.arange(200) % 2
    signal = (2.0 * codes - 1)[:, None] + 0.5 * rng.normal(size=(200, 2))
    Z = signal * np.array([10.0, 0.1])
    result = linear_probe(Z[:100], codes[:100], Z[100:], codes[100:], C_grid=[0.01])
    contribution = np.abs(result.model.coef[0]) * np.array([10.0, 0.1])
    assert contribution[0] > 20 * contribution[1]


def test_the_classifier_reproduces_the_reported_accuracy():
    X, codes = clouds(300, 6, 4)
    y = np.array(["ant", "bee", "cat", "dog"])[codes]
    for result in (
        linear_probe(X[:200], y[:200], X[200:], y[200:]),
        knn_probe(X[:200], y[:200], X[200:], y[200:]),
    ):
        predicted = result.model.predict(X[200:])
        assert result.accuracy == np.mean(predicted == y[200:])
        recalls = [np.mean(predicted[y[200:] == c] == c) for c in np.unique(y[200:])]
        assert result.balanced_accuracy == pytest.approx(np.mean(recalls))
        assert list(result.recall.values()) == pytest.approx(recalls)


def test_the_test_rows_take_no_part_in_the_choice():
    """Whatever the test rows and their labels are, C and the classifier stay the same."""
    X, codes = clouds(300, 6, 3, spread=0.5)
    rng = np.random.default_rng(1)
    one = linear_probe(X[:200], codes[:200], X[200:], codes[200:])
    other = linear_probe(X[:200], codes[:200], rng.normal(size=(50, 6)) * 100, rng.integers(3, size=50))
    assert one.chosen["C"] == other.chosen["C"]
    np.testing.assert_array_equal(one.model.coef, other.model.coef)


def test_the_choice_is_the_best_on_a_validation_part():
    """Noise columns punish a large C, and separable classes with tiny signal punish a small one."""
    rng = np.random.default_rng(0)
    codes = np.arange(400) % 2
    noisy = np.column_stack([(2.0 * codes - 1) + rng.normal(size=400), rng.normal(size=(400, 150))])
    fine = np.column_stack([30 * rng.normal(size=(400, 1)), 0.3 * (2.0 * codes - 1)])
    assert linear_probe(noisy[:200], codes[:200], noisy[200:], codes[200:]).chosen["C"] < 0.1
    assert linear_probe(fine[:200], codes[:200], fine[200:], codes[200:]).chosen["C"] > 0.1


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_one_neighbour_is_scikit_learns(metric):
    X, codes = clouds(300, 4, 3)
    result = knn_probe(X[:200], codes[:200], X[200:], codes[200:], k_grid=[1], metric=metric)
    mean, _ = centre_and_scale(X[:200])
    expected = KNeighborsClassifier(1, metric=metric, algorithm="brute").fit(X[:200] - mean, codes[:200])
    assert (result.model.predict(X[200:]) == expected.predict(X[200:] - mean)).mean() > 0.99


def test_k_is_chosen_on_the_labels():
    """With a tenth of the labels wrong at random, one neighbour is worse than many."""
    X, codes = clouds(600, 4, 2, spread=3.0)
    rng = np.random.default_rng(0)
    wrong = np.where(rng.random(600) < 0.2, 1 - codes, codes)
    result = knn_probe(X[:400], wrong[:400], X[400:], codes[400:])
    assert result.chosen["k"] > 1
    assert result.accuracy > 0.9
