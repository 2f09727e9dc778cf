"""Ridge regression with leave-one-out: every closed form against refitting; calibration against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from krepes.kernels import Spectrum
from krepes.machines import KernelRidgeRegressor
from krepes.regression import LeaveOneOutRidge, expected_calibration_error, temperature
from refusals import refuses


def naive_ridge(Phi: np.ndarray, Y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    center, mean = Phi.mean(0), Y.mean(0)
    A = (Phi - center).T @ (Phi - center) + penalty * np.eye(Phi.shape[1])
    W = np.linalg.solve(A, (Phi - center).T @ (Y - mean))
    return W, mean - center @ W


@pytest.mark.parametrize("shape", [(25, 4), (12, 30)])
def test_leave_one_out_errors_are_those_of_refitting(shape):
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=shape) + 3
    Y = Phi[:, :2] + rng.normal(size=(shape[0], 2))
    alphas = (0.01, 0.3, 5.0)
    model = LeaveOneOutRidge(alphas).fit(Phi, Y)
    expected, held = [], {}
    for alpha in alphas:
        rows = []
        for i in range(len(Phi)):
            rest = np.delete(np.arange(len(Phi)), i)
            W, b = naive_ridge(Phi[rest], Y[rest], alpha * model.unit_)
            rows.append(Phi[i] @ W + b)
        held[alpha] = np.array(rows)
        expected.append(np.square(held[alpha] - Y).mean())
    assert np.allclose(model.errors_, expected, rtol=1e-9)
    assert model.alpha_ == alphas[int(np.argmin(expected))]
    assert np.allclose(model.loo_predictions_, held[model.alpha_], rtol=1e-9)
    W, b = naive_ridge(Phi, Y, model.alpha_ * model.unit_)
    assert np.allclose(model.predict(Phi), Phi @ W + b, rtol=1e-9)


def test_the_scale_of_the_features_does_not_matter():
    rng = np.random.default_rng(0)
    Phi, y = rng.normal(size=(30, 5)), rng.normal(size=30)
    models = [LeaveOneOutRidge().fit(scale * Phi, y) for scale in (1.0, 1e5)]
    assert models[0].alpha_ == models[1].alpha_
    assert np.allclose(models[0].predict(Phi), models[1].predict(1e5 * Phi), rtol=1e-8)


def test_constant_features_predict_the_mean():
    model = LeaveOneOutRidge().fit(np.ones((4, 2)), np.array([1.0, 2.0, 3.0, 6.0]))
    assert model.predict(np.ones((1, 2))) == pytest.approx(np.array([3.0]))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_the_temperature_is_the_most_likely(scale):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 200)
    Z = (2 * np.eye(3)[codes] + rng.normal(size=(200, 3))) * scale

    def loss(T: float) -> float:
        return -log_softmax(Z / (T * scale), axis=1)[np.arange(200), codes].mean()

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    assert temperature(Z, codes) == pytest.approx(best.x * scale, rel=1e-5)


def test_doubt_keeps_scores_that_are_always_right_from_certainty():
    """With gap g and doubt s the best sharpness has p = 1 - s/2 for two classes: T = g / log((1 - s/2) / (s/2))."""
    scores, codes = np.array([[1.0, 0.0], [0.0, 1.0]]), [0, 1]
    assert temperature(scores, codes, doubt=0.1) == pytest.approx(1 / np.log(0.95 / 0.05), rel=1e-5)
    assert temperature(scores, codes) < 0.05


def test_calibration_error_by_hand_and_by_loop():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 500)
    codes = rng.integers(0, 4, 500)
    expected = 0.0
    for b in range(10):
        inside = (P.max(1) > b / 10) & (P.max(1) <= (b + 1) / 10)
        if inside.any():
            expected += inside.mean() * abs((P.argmax(1) == codes)[inside].mean() - P.max(1)[inside].mean())
    assert expected_calibration_error(P, codes, 10) == pytest.approx(expected, abs=1e-12)
    honest = np.repeat([[0.75, 0.25]], 4, axis=0)
    assert expected_calibration_error(honest, [0, 0, 0, 1]) == pytest.approx(0.0)


def test_wrong_input_is_named():
    for call, message in (
        (
            lambda: LeaveOneOutRidge().fit(np.ones((3, 1)), np.ones(2)),
            ("y", "2 rows", "X", "3"),
        ),
        (lambda: LeaveOneOutRidge((0.0,)).fit(np.ones((3, 1)), np.ones(3)), "positive"),
        (lambda: LeaveOneOutRidge().predict(np.ones((3, 1))), "predict"),
        (lambda: temperature(np.ones(3), [0, 1, 0]), "(3,)"),
        (
            lambda: expected_calibration_error(np.ones((2, 2)), [0]),
            ("(1,)", "(2,)"),
        ),
    ):
        with refuses(ValueError, message):
            call()


def test_kernels_on_objects_are_chosen_by_leave_one_out_errors():
    """error = mean of |y_i - k_i (K + penalty I)^-1 y|^2, where row i is in neither K nor y."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), 9)) for _ in range(60)]
    y = np.array([word.count("ab") for word in words], dtype=float)
    kernels = [Spectrum(1), Spectrum(2), Spectrum(4)]
    machine = KernelRidgeRegressor(kernel=kernels, fit_intercept=False, random_state=0).fit(words, y)
    assert repr(machine.kernel_) == repr(Spectrum(2))
    coded = machine.targets_.matrix(machine.targets_.encoded(y)).numpy()[:, 0]
    for kernel, tried in zip(kernels, machine.choice_.tried, strict=True):
        K, errors = kernel(words).double().numpy(), []
        for i in range(len(words)):
            rest = np.delete(np.arange(len(words)), i)
            a = np.linalg.solve(K[np.ix_(rest, rest)] + tried.penalty * np.eye(len(rest)), coded[rest])
            errors.append((coded[i] - K[i, rest] @ a) ** 2)
        assert tried.error == pytest.approx(np.mean(errors), rel=1e-6)
