"""Conformal intervals and sets: against loops over rows and refits, and coverage as the theorem states it."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy.special import softmax

from krepes.base.blocks import Block
from krepes.base.split import ByFold
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.machines.kernel_ridge.conformal import HeldScores
from refusals import warns_of

OPTIONS = {"kernel": "gaussian", "input_metric": None, "n_landmarks": 30, "n_folds": 4, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    Y = np.column_stack([X[:, 0] + X[:, 1] ** 2, np.sin(2 * X[:, 2])]) + 0.3 * rng.normal(size=(160, 2))
    return X, 50 + 10 * Y


def features(model, X):
    return model.features_(torch.as_tensor(X, dtype=torch.float64)).numpy()


def ridge(Phi, Y, weight, penalty):
    """Weighted ridge regression with an intercept, as least squares."""
    root = np.sqrt(weight)[:, None]
    r = Phi.shape[1]
    left = np.vstack([np.column_stack([Phi, np.ones(len(Phi))]) * root, np.zeros((r, r + 1))])
    left[len(Phi) :, :r] = math.sqrt(penalty) * np.eye(r)
    W = np.linalg.lstsq(left, np.vstack([Y * root, np.zeros((r, Y.shape[1]))]), rcond=None)[0]
    return lambda rows: rows @ W[:-1] + W[-1]


def refits(model, X, Y, weight):
    """{fold: fit without it}, and the fold of every row."""
    Phi, rows = features(model, X), torch.arange(len(X))
    folds = ByFold(model.n_folds, model.seed_)(Block(rows, (rows,)))
    fits = {f: ridge(Phi[folds != f], Y[folds != f], weight[folds != f], model.penalty_) for f in set(folds)}
    return fits, folds


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.93])
@pytest.mark.parametrize("n_kept", [20_000, 60])
def test_intervals_are_cv_plus(data, confidence, n_kept):
    """The bounds are order statistics of f_(-S(i))(x) -+ |y_i - f_(-S(i))(x_i)| over kept rows [barber, Sec. 3]."""
    X, Y = data
    weight = np.random.default_rng(1).uniform(0.5, 2, size=120)
    model = KernelRidgeRegressor(n_kept=n_kept, **OPTIONS).fit(X[:120], Y[:120], sample_weight=weight)
    fits, folds = refits(model, X[:120], Y[:120], weight)
    Phi, kept = features(model, X), model.held_out_rows_
    assert len(kept) == min(120, n_kept)
    found = model.predict_interval(X[120:], confidence)
    assert found.shape == (40, 2, 2)
    rank = math.ceil(confidence * (len(kept) + 1))
    for j in range(40):
        for c in range(2):
            low, high = [], []
            for i in kept:
                fit = fits[folds[i]]
                residual = abs(Y[i, c] - fit(Phi[i])[c])
                low.append(fit(Phi[120 + j])[c] - residual)
                high.append(fit(Phi[120 + j])[c] + residual)
            expected = sorted(low, reverse=True)[rank - 1], sorted(high)[rank - 1]
            assert np.allclose(found[j, c], expected, rtol=1e-7)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.93])
def test_sets_are_cross_conformal(data, confidence):
    """A class is in the set if its p-value, (1 + rows that are as odd) / (n + 1), is above 1 - confidence [vovk]."""
    X, Y = data
    y = np.array(["low", "middle", "top"])[np.digitize(Y[:, 0], [50, 65])]
    model = KernelRidgeClassifier(**OPTIONS).fit(X[:120], y[:120])
    codes, one_hot = np.searchsorted(model.classes_, y), np.eye(3)
    fits, folds = refits(model, X[:120], one_hot[codes[:120]], np.ones(120))
    found = model.predict_set(X[120:], confidence)
    P = {f: softmax(fit(features(model, X)) / model.temperature_, axis=1) for f, fit in fits.items()}
    sizes = set()
    for j in range(40):
        for c in range(3):
            odd = 0
            for i in range(120):
                without = P[folds[i]]
                odd += 1 - without[i, codes[i]] >= 1 - without[120 + j, c]
            assert found[j, c] == ((1 + odd) / 121 > 1 - confidence)
        sizes.add(found[j].sum())
    assert len(sizes) > 1  # otherwise nothing was tested


def test_calibration_rows_give_split_conformal_prediction(data):
    """The bound is the ceil(confidence (n + 1))-th smallest score of the calibration rows."""
    X, Y = data
    model = KernelRidgeRegressor(**OPTIONS).fit(X[:80], Y[:80, 0])
    residuals = sorted(abs(Y[80:120, 0] - model.predict(X[80:120])))
    found = model.predict_interval(X[120:], 0.8, calibration=(X[80:120], Y[80:120, 0]))
    width = residuals[math.ceil(0.8 * 41) - 1]
    assert np.allclose(found, model.predict(X[120:])[:, None] + [-width, width], rtol=1e-9)
    y = (Y[:, 0] > 55).astype(int)
    model = KernelRidgeClassifier(**OPTIONS).fit(X[:80], y[:80])
    scores = sorted(1 - model.predict_proba(X[80:120])[np.arange(40), y[80:120]])
    found = model.predict_set(X[120:], 0.8, calibration=(X[80:120], y[80:120]))
    assert np.array_equal(found, 1 - model.predict_proba(X[120:]) <= scores[math.ceil(0.8 * 41) - 1])


@pytest.mark.parametrize("confidence", [0.6, 0.9])
def test_split_conformal_prediction_covers_what_it_says(confidence):
    """Over draws of n calibration rows and new ones, coverage is k / (n + 1) with k = ceil(confidence (n + 1))."""
    rng, n, draws = np.random.default_rng(3), 24, 150

    def rows(size):
        X = rng.normal(size=(size, 2))
        return X, X[:, 0] * X[:, 1] + (0.2 + abs(X[:, 0])) * rng.normal(size=size)

    X, y = rows(60)
    quantity = KernelRidgeRegressor(**OPTIONS).fit(X, y)
    kind = KernelRidgeClassifier(**OPTIONS).fit(X, y > 0)
    covered = np.empty((draws, 2))
    for draw in range(draws):
        (X_held, y_held), (X_new, y_new) = rows(n), rows(50)
        bounds = quantity.predict_interval(X_new, confidence, calibration=(X_held, y_held))
        covered[draw, 0] = np.mean((bounds[:, 0] <= y_new) & (y_new <= bounds[:, 1]))
        chosen = kind.predict_set(X_new, confidence, calibration=(X_held, y_held > 0))
        covered[draw, 1] = chosen[np.arange(50), (y_new > 0).astype(int)].mean()
    expected = math.ceil(confidence * (n + 1)) / (n + 1)
    assert expected >= confidence
    error = covered.std(axis=0, ddof=1) / math.sqrt(draws)
    assert (abs(covered.mean(axis=0) - expected) < 4 * error).all()


def test_bounds_are_order_statistics_whatever_the_scores():
    """Ties, empty folds, huge and tiny numbers: the same as sorting all sums."""
    rng = np.random.default_rng(0)
    for scale, shift in ((1.0, 0.0), (1e-12, 5.0), (1e9, -1e12)):
        scores, fits = scale * abs(rng.normal(size=50).round(1)), rng.choice([0, 2, 3], size=50)
        held = HeldScores.of(scores, fits, 4)
        new = shift + scale * rng.normal(size=(7, 4))
        sums = np.sort(new[:, fits] + scores, axis=1)
        for rank in (1, 2, 25, 50):
            assert np.allclose(held.bound(new, rank), sums[:, rank - 1], rtol=1e-14, atol=1e-14 * scale)
        assert np.isinf(held.bound(new, 51)).all()
        below = [np.sum(scores < row[fits]) for row in new]
        assert held.below(new).tolist() == below


def test_rounding_does_not_raise_the_rank():
    held = HeldScores.of(np.arange(99.0), np.zeros(99, int), 1)
    assert 0.55 * 100 > 55
    assert [held.rank(confidence) for confidence in (0.55, 0.9, 0.901)] == [55, 90, 91]


def test_many_rows_against_many_scores_take_little_memory():
    """20 000 rows against 20 000 scores: their table would take 3.2 GB."""
    rng = np.random.default_rng(0)
    held = HeldScores.of(rng.random(20_000), rng.integers(0, 5, 20_000), 5)
    new = rng.random((20_000, 5))
    tracemalloc.start()
    held.bound(new, 18_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6


def test_few_rows_are_judged_by_machines_that_chose_without_them(data):
    """Up to 100 rows the bounds are f(x) -+ the k-th smallest error of predictions with a choice in each fold."""
    X, Y = data
    model = KernelRidgeRegressor(random_state=0).fit(X[:40], Y[:40, 0])
    bounds, centre = model.predict_interval(X[40:], 0.9), model.predict(X[40:])
    held = model.held_out_
    errors = np.sort(np.abs(held.y - held.nested.numpy())[:, 0]) * model.targets_.scale
    np.testing.assert_allclose(bounds.T - centre, np.outer([-1, 1], np.full(120, errors[36])), rtol=1e-9)


def test_few_rows_give_the_same_sets_whatever_was_asked_before(data):
    X, Y = data
    y = (Y[:, 0] > 55).astype(int)
    for n in (40, 120):
        asked, fresh = (KernelRidgeClassifier(random_state=0).fit(X[:n], y[:n]) for _ in range(2))
        assert asked.held_out_score_.by == "nested folds"
        np.testing.assert_array_equal(asked.predict_set(X), fresh.predict_set(X))


def test_too_few_rows_for_the_confidence_are_named(data):
    X, Y = data
    model = KernelRidgeRegressor(**OPTIONS).fit(X[:80], Y[:80])
    with warns_of(UserWarning, "99", "80", "held-out"):
        assert np.isinf(model.predict_interval(X[:3], 0.99)).all()
    with warns_of(UserWarning, "19", "18", "held-out"):
        model.predict_interval(X[:3], 0.95, calibration=(X[80:98], Y[80:98]))
    assert np.isfinite(model.predict_interval(X[:3], 0.95, calibration=(X[80:99], Y[80:99]))).all()
    kind = KernelRidgeClassifier(**OPTIONS).fit(X[:80], Y[:80, 0] > 55)
    with warns_of(UserWarning, "set", "classes"):
        assert kind.predict_set(X[:3], 0.99).all()


def test_intervals_and_sets_come_out_of_a_file_without_sums(data, tmp_path):
    X, Y = data
    for model, name in (
        (KernelRidgeRegressor(**OPTIONS).fit(X, Y[:, 0]), "predict_interval"),
        (KernelRidgeClassifier(**OPTIONS).fit(X, Y[:, 0] > 55), "predict_set"),
    ):
        model.save(tmp_path / name, sums=False)
        again = type(model).load(tmp_path / name)
        assert np.allclose(getattr(again, name)(X, 0.8), getattr(model, name)(X, 0.8))


def test_held_out_predictions_are_those_of_refitting_without_the_row(data):
    X, Y = data
    model = KernelRidgeRegressor(**OPTIONS).fit(X, Y)
    Phi = features(model, X)
    for place in (0, 7, 100):
        row = model.held_out_rows_[place]
        rest = np.delete(np.arange(len(X)), row)
        fit = ridge(Phi[rest], Y[rest], np.ones(len(rest)), model.penalty_)
        assert np.allclose(model.held_out_predictions_[place], fit(Phi[row]), rtol=1e-7)
    kind = KernelRidgeClassifier(**OPTIONS).fit(X, Y[:, 0] > 55)
    P = kind.held_out_probabilities_
    assert np.allclose(P.sum(axis=1), 1)
    assert np.array_equal(kind.held_out_predictions_, kind.classes_[P.argmax(axis=1)])
