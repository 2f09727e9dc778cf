"""All ridge regressions from one decomposition, and predictions of rows left out: against refits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ridge_oracles as oracles
from krepes.regression.ridge_algebra import LeaveOneOut

PENALTIES = (1e-3, 0.4, 30.0)


def problem(n: int, r: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features far from zero, two targets, and weights."""
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, r)) + 3
    Y = Phi[:, :1] * [1.0, -2.0] + rng.normal(size=(n, 2)) + 5
    return Phi, Y, rng.uniform(0.2, 3, n)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(25, 4), (12, 30), (10, 10)])
@pytest.mark.parametrize("form", ["features", "kernel"])
def test_predictions_and_coefficients_are_those_of_refits(form, shape, weighted, intercept):
    Phi, Y, w = problem(*shape)
    weight = w if weighted else None
    given = Phi if form == "features" else Phi @ Phi.T
    make = LeaveOneOut.of_features if form == "features" else LeaveOneOut.of_kernel
    fit = make(*map(torch.from_numpy, (given, Y)), torch.from_numpy(w) if weighted else None, intercept)
    errors = fit.errors(PENALTIES)
    for penalty, error in zip(PENALTIES, errors):
        expected = oracles.left_out(Phi, Y, penalty, np.arange(len(Y)), weight, intercept)
        np.testing.assert_allclose(fit.predictions(penalty).numpy(), expected, rtol=1e-9, atol=1e-9)
        squares = np.square(Y - expected).sum(1)
        assert error == pytest.approx(np.average(squares, weights=weight), rel=1e-9)
        W, b = oracles.ridge(Phi, Y, penalty, weight, intercept)
        coefficients, constant = fit.coefficients(penalty)
        found = given @ coefficients.numpy() + constant.numpy()
        np.testing.assert_allclose(found, Phi @ W + b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(9, 4), (7, 12)])
def test_features_and_their_kernel_are_one_machine(shape, intercept):
    """The weight space and the function space view, also at rows that were not fitted."""
    Phi, Y, w = problem(*shape)
    new = problem(5, shape[1], seed=1)[0]
    tensors = [torch.from_numpy(each) for each in (Y, w)]
    features = LeaveOneOut.of_features(torch.from_numpy(Phi), *tensors, intercept)
    kernel = LeaveOneOut.of_kernel(torch.from_numpy(Phi @ Phi.T), *tensors, intercept)
    (W, b), (v, c) = features.coefficients(0.3), kernel.coefficients(0.3)
    np.testing.assert_allclose(new @ W.numpy() + b.numpy(), new @ Phi.T @ v.numpy() + c.numpy(), rtol=1e-9)
    np.testing.assert_allclose(features.errors(PENALTIES), kernel.errors(PENALTIES), rtol=1e-8)


def test_whole_weights_fit_as_repetitions():
    """Of the fit on all rows; a row left out leaves out all its repetitions."""
    Phi, Y, _ = problem(10, 3)
    w = np.array([1, 2, 3, 1, 2, 1, 1, 4, 1, 2])
    weighted = LeaveOneOut.of_features(*map(torch.from_numpy, (Phi, Y, w.astype(float))))
    repeated = LeaveOneOut.of_features(*(torch.from_numpy(np.repeat(a, w, axis=0)) for a in (Phi, Y)))
    for mine, theirs in zip(weighted.coefficients(0.5), repeated.coefficients(0.5)):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)
    groups = np.repeat(np.arange(10), w)
    expected = oracles.left_out(np.repeat(Phi, w, 0), np.repeat(Y, w, 0), 0.5, groups)
    np.testing.assert_allclose(np.repeat(weighted.predictions(0.5).numpy(), w, 0), expected, rtol=1e-9)


@pytest.mark.parametrize("form", ["features", "kernel"])
def test_constant_rows_predict_the_mean_of_the_others(form):
    Phi, Y = torch.ones(4, 2, dtype=torch.float64), torch.tensor([[1.0], [2.0], [3.0], [6.0]]).double()
    fit = LeaveOneOut.of_features(Phi, Y) if form == "features" else LeaveOneOut.of_kernel(Phi @ Phi.mT, Y)
    torch.testing.assert_close(fit.predictions(1e-3), (12 - Y) / 3, rtol=1e-9, atol=1e-9)


def test_scale_of_the_features_scales_the_penalty():
    Phi, Y, _ = (torch.from_numpy(a) for a in problem(15, 4))
    small, large = LeaveOneOut.of_features(Phi, Y), LeaveOneOut.of_features(1e6 * Phi, Y)
    torch.testing.assert_close(small.predictions(0.7), large.predictions(0.7e12), rtol=1e-8, atol=1e-8)
