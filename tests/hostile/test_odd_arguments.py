"""Arguments that fuzzing found: numbers that are none, precisions that a loop does not have, frames of series."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from krepes import KernelEmbedding
from krepes.alignment import prune_ensemble
from krepes.evaluation import estimator_probe, ridge_probe
from krepes.explain import explain
from krepes.features import learn_patches
from krepes.kernels import EmpiricalNTK, Gaussian, GlobalAlignment, Gower, Laplacian, NGrams, Patches
from krepes.machines import KernelRidgeRegressor, NoveltyDetector
from krepes.networks import MLP
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


def test_noise_of_any_size_has_an_expectation():
    """E exp(-|t + s g| / l) goes to sqrt(2 / pi) l / s."""
    kernel = Laplacian(1.0, norm=1)
    t, z = torch.tensor([[0.5]], dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    for noise in (1e6, 1e300):
        expected = (2 / np.pi) ** 0.5 / noise
        assert kernel.coordinate_product([0], t, z, [noise]).item() == pytest.approx(expected, rel=1e-5)


def test_kernels_on_objects_refuse_a_table():
    """Iterating over it would compare the names of its columns."""
    with refuses(TypeError, "column", "X[name]"):
        NGrams()(pd.DataFrame({"text": ["a b", "c"]}))


def test_a_network_takes_numbers_in_an_array_of_objects():
    kernel = EmpiricalNTK(MLP(widths=(3,)), seed=0).fitted(Z.astype(object), torch.Generator())
    torch.testing.assert_close(kernel(Z.astype(object)), kernel(Z))
    with refuses(TypeError, "number"):
        kernel(np.array([["a", 1.0, 2.0]], dtype=object))


PICTURES = np.random.default_rng(0).random((20, 12, 12))


@pytest.mark.parametrize("n_patches", [8193, 10**9])
def test_dictionaries_that_never_end_are_refused(n_patches):
    """All patches were taken, and the root of their kernel matrix took minutes that nothing could interrupt."""
    with refuses(ValueError, f"n_patches={n_patches}", "8192"):
        Patches(n_patches).fitted(PICTURES)


def test_pictures_of_another_kind_than_the_fit_are_named():
    kernel = Patches(8).fitted(PICTURES)
    assert kernel(PICTURES[:2], PICTURES).shape == (2, 20)
    with refuses(ValueError, "(8, 8, 1)", "32 features", "72"):
        kernel(PICTURES[:2, :8, :8, None], PICTURES)
    with refuses(ValueError, "1 × 12 pixels", "side 3"):
        kernel(PICTURES[:2, :1], PICTURES)
    with refuses(ValueError, "NaN"):
        kernel(np.where(PICTURES > 0.9, np.nan, PICTURES), PICTURES)
    with refuses(ValueError, "(4,)", "(5,)", "(5, 3)"):
        kernel.contributions(PICTURES[:3], PICTURES[:5], torch.ones(4))


@pytest.mark.parametrize("kernel", ["patches", Gaussian(), Patches])
def test_only_patches_are_learned(kernel):
    with refuses(TypeError, "kernel=", "Patches(...)"):
        learn_patches(PICTURES, kernel)


@pytest.mark.parametrize("seed", [None, "a", -1, np.random.default_rng(0)])
def test_patches_are_learned_from_a_seed(seed):
    with refuses(ValueError, "random_state=", "integer"):
        learn_patches(PICTURES, Patches(8), random_state=seed)


def test_a_class_is_for_classifiers():
    """It was passed over in silence."""
    for model in (KernelEmbedding(2, n_landmarks=5), NoveltyDetector(n_landmarks=5)):
        with refuses(ValueError, "label=1", type(model).__name__):
            explain(model.fit(np.tile(Z, (3, 1))), Z, label=1)


@pytest.mark.parametrize("rows", [Z.tolist(), None, Z])
def test_a_module_takes_tensors(rows):
    module = KernelRidgeRegressor(local=False).fit(Z, Z[:, 0]).as_module()
    with refuses(TypeError, type(rows).__name__, "tensor"):
        module(rows)


def test_members_of_one_name_are_refused():
    """They were kept, and `predict` raised an error of another package."""
    frame = pd.DataFrame(Z, columns=["a", "b", "a"])
    with refuses(ValueError, "several columns", "'a'"):
        prune_ensemble(frame, y=Z[:, 0])
