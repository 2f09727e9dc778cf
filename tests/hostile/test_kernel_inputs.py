"""Bad parameters and bad input for kernels: an exception that says what was given and what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes.base.components import resolve
from krepes.kernels import (
    ArcCosine,
    Custom,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Product,
    Reweighted,
    Scaled,
    Sigmoid,
    Sum,
    as_kernel,
)
from refusals import refuses

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

BAD_PARAMETERS = [
    (Gaussian(0.0), "positive"),
    (Gaussian(-1.0), "-1.0"),
    (Gaussian(float("nan")), "nan"),
    (Gaussian(float("inf")), "inf"),
    (Gaussian(None), "None"),
    (Gaussian([1.0, 2.0]), "(2,)"),
    (Gaussian([1.0, 0.0, 1.0]), "positive"),
    (Gaussian("median"), "fitted"),
    (Gaussian("mean"), "'mean'"),
    (Laplacian(1.0, norm=3), "norm=3"),
    (Matern(1.0, nu=2.0), "nu=2.0"),
    (Polynomial(degree=0, scale=1.0), "degree=0"),
    (Polynomial(degree=1.5, scale=1.0), "degree=1.5"),
    (Polynomial(offset=-1.0, scale=1.0), "offset=-1.0"),
    (Polynomial(), "fitted"),
    (Polynomial(scale=0.0), "scale=0.0"),
    (Sigmoid(scale=-1.0), "scale=-1.0"),
    (ArcCosine(degree=2), "degree=2"),
    (ArcCosine(depth=0), "depth=0"),
    (Scaled(Linear(), -1.0), "-1.0"),
    (Scaled(Linear(), float("inf")), "inf"),
    (Scaled(), "2.0"),
    (Sum(Linear()), ("two", "kernels")),
    (Product(), ("two", "kernels")),
    (Custom(), "function"),
]


@pytest.mark.parametrize(("kernel", "message"), BAD_PARAMETERS, ids=lambda v: repr(v))
def test_bad_parameters_are_named_when_the_kernel_is_used(kernel, message):
    with refuses(ValueError, message):
        kernel(X)


def test_an_unknown_rule_is_an_error_when_fitted():
    with refuses(ValueError, "'mean'"):
        Gaussian("mean").fitted(X)


def test_widths_must_agree():
    with refuses(ValueError, "2 features", "3"):
        Gaussian(1.0)(X[:, :2], X)


def test_one_dimension_is_not_rows():
    with refuses(ValueError, "(n, d)"):
        Gaussian(1.0)(X[0])


def test_names_are_resolved_or_corrected():
    assert isinstance(as_kernel("laplacian"), Laplacian)
    with refuses(ValueError, "'gaussian'"):
        resolve(Kernel, "gausian")
    with refuses(TypeError, "3"):
        as_kernel(3)


def test_a_kernel_is_multiplied_by_numbers_and_kernels_only():
    with pytest.raises(TypeError):
        Linear() * "2"
    with pytest.raises(TypeError):
        Linear() + 1
    assert (np.float32(2.0) * Linear())(X).equal(2 * Linear()(X))


def test_a_function_of_one_pair_is_recognised():
    with refuses(ValueError, "pairwise=True"):
        Custom(lambda x, y: 1.0)(X)


def test_a_function_that_returns_nan_is_named():
    with refuses(ValueError, "NaN"):
        Custom(lambda A, B: np.full((len(A), len(B)), np.nan))(X)


def test_an_array_that_a_function_keeps_is_not_changed():
    kept = torch.eye(4, dtype=torch.float64)
    kept_array = np.eye(4)
    for function in (lambda A, B: kept, lambda A, B: kept_array):
        ((Custom(function) + Linear()) * Linear() * 2.0)(X)
    assert torch.equal(kept, torch.eye(4, dtype=torch.float64))
    assert np.array_equal(kept_array, np.eye(4))


def test_constant_data_and_single_rows_have_a_right_answer():
    constant = torch.full((5, 3), 2.0)
    for kernel in (Gaussian(), Laplacian(), Laplacian(norm=1), Matern()):
        fitted = kernel.fitted(constant)
        assert 0 < fitted.lengthscale < float("inf")  # any length gives the same kernel
        assert torch.equal(fitted(constant), torch.ones(5, 5))
        assert kernel.fitted(constant[:1])(constant[:1]).item() == 1.0
    assert Polynomial().fitted(torch.zeros(5, 3)).scale == 1.0


def test_integers_become_float32():
    pixels = torch.tensor([[0, 255], [255, 0]], dtype=torch.uint8)
    assert Linear()(pixels).tolist() == [[255.0**2, 0.0], [0.0, 255.0**2]]
    assert Gaussian(100.0)(pixels.numpy()).dtype == torch.float32


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern"])
@pytest.mark.parametrize("far", [1e100, 1e200, 1e308])
def test_rows_whose_squares_overflow_are_unlike_all_others(name, far):
    kernel = as_kernel(name).set_params(lengthscale=1.0)
    rows = far * torch.tensor([[1, -1, 1], [0, 1, 0]], dtype=torch.float64)
    assert not kernel(rows, torch.eye(3, dtype=torch.float64)).any()


def test_an_empty_metric_is_refused():
    with refuses(ValueError, "M", "weights"):
        Reweighted(Gaussian(1.0), np.empty((0, 0)))(np.ones((2, 3)), np.ones((2, 3)))
