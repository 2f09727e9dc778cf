"""Ridge regression with unlabelled rows: the closed forms against refitting everything, guesses included."""

from __future__ import annotations

import numpy as np
import pytest

from krepes.regression import LeaveOneOutRidge, TransductiveRidge
from refusals import refuses


def naive(Phi, Y, free, penalty, weight):
    """Ridge with an unpenalised intercept on labelled rows, guesses, then weighted ridge on both, as least squares."""

    def ridge(X, T, weights):
        r = X.shape[1]
        rows = np.vstack(
            [np.column_stack([X, np.ones(len(X))]) * np.sqrt(weights)[:, None], np.zeros((r, r + 1))]
        )
        rows[len(X) :, :r] = penalty**0.5 * np.eye(r)
        W = np.linalg.lstsq(
            rows, np.vstack([T * np.sqrt(weights)[:, None], np.zeros((r, T.shape[1]))]), rcond=None
        )[0]
        return W[:-1], W[-1]

    W, b = ridge(Phi, Y, np.ones(len(Phi)))
    guesses = (free @ W + b).argmax(axis=1)
    weights = np.concatenate([np.ones(len(Phi)), np.full(len(free), weight)])
    return *ridge(np.vstack([Phi, free]), np.vstack([Y, np.eye(Y.shape[1])[guesses]]), weights), guesses


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    centers = 1.2 * rng.normal(size=(3, 4))
    codes, hidden = rng.integers(0, 3, 14), rng.integers(0, 3, 60)
    return (
        centers[codes] + rng.normal(size=(14, 4)) + 5,
        np.eye(3)[codes],
        centers[hidden] + rng.normal(size=(60, 4)) + 5,
    )


def test_the_fit_is_weighted_ridge_regression_on_labelled_and_guessed_rows(task):
    Phi, Y, free = task
    model = TransductiveRidge(alphas=(0.3,), betas=(0.5,)).fit(Phi, Y, free)
    W, b, guesses = naive(Phi, Y, free, 0.3 * model.unit_, 0.5 * len(Phi) / len(free))
    assert np.array_equal(model.guesses_, guesses)
    assert np.allclose(model.coef_, W, rtol=1e-9)
    assert np.allclose(model.predict(free), free @ W + b, rtol=1e-9)


def test_leaving_a_row_out_leaves_it_out_of_the_guesses_too(task):
    Phi, Y, free = task
    alpha, betas = 0.02, (0.0, 0.2, 2.0)
    model = TransductiveRidge((alpha,), betas).fit(Phi, Y, free)
    changed = 0
    for k, beta in enumerate(betas):
        held = np.empty_like(Y)
        for i in range(len(Phi)):
            rest = np.delete(np.arange(len(Phi)), i)
            W, b, guesses = naive(Phi[rest], Y[rest], free, alpha * model.unit_, beta * len(Phi) / len(free))
            changed += (guesses != model.guesses_).sum()
            held[i] = Phi[i] @ W + b
        assert model.errors_[k] == pytest.approx(np.square(held - Y).mean(), rel=1e-9)
        if beta == model.beta_:
            assert np.allclose(model.loo_predictions_, held, rtol=1e-9)
    assert changed > 0  # otherwise nothing was tested


def test_an_unlabelled_row_is_predicted_without_the_class_guessed_for_it(task):
    """f_(-j)(x'_j) is the prediction of a fit on all rows but j, at the same weight of each."""
    Phi, Y, free = task
    model = TransductiveRidge(alphas=(0.1,), betas=(0.5,)).fit(Phi, Y, free)
    weight = 0.5 * len(Phi) / len(free)
    for j in range(len(free)):
        W, b, _ = naive(Phi, Y, np.delete(free, j, axis=0), 0.1 * model.unit_, weight)
        assert np.allclose(model.unlabelled_predictions_[j], free[j] @ W + b, rtol=1e-8)


def test_without_weight_it_is_ridge_regression(task):
    Phi, Y, free = task
    plain, other = LeaveOneOutRidge().fit(Phi, Y), TransductiveRidge(betas=(0.0,)).fit(Phi, Y, free)
    assert other.alpha_ == plain.alpha_
    assert np.allclose(other.coef_, plain.coef_, rtol=1e-7)
    assert np.allclose(other.intercept_, plain.intercept_, rtol=1e-7)
    assert np.allclose(other.loo_predictions_, plain.loo_predictions_, rtol=1e-7)


def test_wrong_input_is_named(task):
    Phi, Y, free = task
    for call, message in (
        (lambda: TransductiveRidge().fit(Phi, Y, free[:, :2]), "(60, 2)"),
        (lambda: TransductiveRidge().fit(Phi, Y, np.full((2, 4), np.nan)), "finite"),
        (lambda: TransductiveRidge(betas=(-1.0,)).fit(Phi, Y, free), "betas"),
        (lambda: TransductiveRidge(betas="small").fit(Phi, Y, free), "betas"),
        (lambda: TransductiveRidge().predict(Phi), "predict"),
    ):
        with refuses(ValueError, message):
            call()
