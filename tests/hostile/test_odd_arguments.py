"""Arguments that fuzzing found: numbers that are none, precisions that a loop does not have, frames of series."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from krepes.evaluation import estimator_probe, ridge_probe
from krepes.kernels import Gaussian, GlobalAlignment, Gower, Laplacian
from krepes.machines import KernelRidgeRegressor
from refusals import refuses

Z = np.random.default_rng(0).normal(size=(12, 3))


@pytest.mark.parametrize("alphas", ["all", (), (-1.0,), None])
def test_strengths_that_are_no_positive_numbers_are_refused(alphas):
    with refuses(ValueError, "alphas"):
        ridge_probe(Z, Z[:, 0], Z, Z[:, 0], alphas=alphas)


def test_rows_in_reverse_order_are_fitted():
    """torch does not take arrays with negative strides."""
    backwards = ridge_probe(Z[::-1], Z[::-1, 0], Z, Z[:, 0]).metrics
    assert backwards == pytest.approx(ridge_probe(Z, Z[:, 0], Z, Z[:, 0]).metrics)


@pytest.mark.parametrize("estimator", [None, "svm", Gaussian()])
def test_what_is_no_estimator_is_refused(estimator):
    with refuses(TypeError, "estimator=", "classifier"):
        estimator_probe(Z, Z[:, 0] > 0, Z, Z[:, 0] > 0, estimator=estimator)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_kernels_refuse_rows_with_holes(value):
    with refuses(ValueError, "NaN"):
        Gaussian(1.0)(np.array([[1.0, value]]))


@pytest.mark.parametrize("kernel", [Gower(1.0), Laplacian(1.0, norm=1)], ids=str)
def test_compiled_kernels_take_short_floats(kernel):
    rows = torch.tensor(Z)
    found = kernel(rows.bfloat16()).double()
    torch.testing.assert_close(found, kernel(rows), atol=0.1, rtol=0.1)


def test_a_lengthscale_whose_square_is_zero_makes_all_rows_different():
    K = Gower(1e-300, profile="gaussian")(Z)
    np.testing.assert_array_equal(K.numpy(), np.eye(len(Z)))


def test_the_rows_of_a_frame_are_the_series():
    np.testing.assert_allclose(GlobalAlignment(1.0)(pl.DataFrame(Z)), GlobalAlignment(1.0)(Z))


def test_a_kernel_matrix_of_short_floats_is_fitted():
    K = torch.tensor(Z @ Z.T).bfloat16()
    K = (K + K.T) / 2 + 3 * torch.eye(len(K))
    model = KernelRidgeRegressor(kernel="precomputed", penalty=1.0).fit(K, Z[:, 0])
    assert np.isfinite(model.predict(K)).all()
