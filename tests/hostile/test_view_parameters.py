"""Views with parameters or data that make no sense say so, and say what to do."""

from __future__ import annotations

import math

import pytest
import torch

from krepes.base.components import resolve
from krepes.kernels import Gaussian, Laplacian
from krepes.views import Image, Paired, Tabular, Views
from refusals import refuses

ROWS = torch.arange(4)


@pytest.mark.parametrize(
    "params",
    [
        {"drop": 1.5},
        {"drop": 1.0},
        {"drop": -0.1},
        {"drop": "0.2"},
        {"replace": 1.0},
        {"replace": math.nan},
        {"noise": -0.1},
        {"noise": math.inf},
        {"noise": None},
        {"fill": "median"},
        {"fill": math.nan},
        {"fill": None},
        {"n_views": 1},
        {"n_views": 2.0},
    ],
)
def test_tabular_parameters_are_checked(params):
    views, name = Tabular(**params), next(iter(params))
    with refuses(ValueError, f"{name}="):
        views.fitted(torch.rand(4, 2))
    with refuses(ValueError, f"{name}="):
        views(torch.rand(4, 2), ROWS, seed=0)


@pytest.mark.parametrize(
    "params",
    [
        {"crop": (0, 2)},
        {"crop": (0.0, 1.0)},
        {"crop": (0.9, 0.5)},
        {"crop": 0.5},
        {"crop": ("a", "b")},
        {"ratio": (0.0, 1.0)},
        {"ratio": (1.0, math.inf)},
        {"ratio": (2.0,)},
        {"flip": 1.5},
        {"flip": True + 1},
        {"shift": -0.1},
        {"shift": (0.1, 2.0)},
        {"shift": (0.1, 0.1, 0.1)},
        {"rotation": -5},
        {"rotation": 400},
        {"rotation": math.nan},
        {"zoom": 0.9},
        {"zoom": math.inf},
        {"shear": 90},
        {"shear": -1},
        {"padding": "wrap"},
        {"shape": (28,)},
        {"shape": (0, 28)},
        {"shape": (2, 2, 1, 1)},
        {"shape": 784},
        {"n_views": 0},
    ],
)
def test_image_parameters_are_checked(params):
    views, name = Image(**params), next(iter(params))
    with refuses(ValueError, f"{name}="):
        views.fitted(torch.rand(4, 28, 28))
    with refuses(ValueError, f"{name}="):
        views(torch.rand(4, 28, 28), ROWS, seed=0)


def test_flattened_images_need_a_shape():
    for call in (lambda X: Image().fitted(X), lambda X: Image()(X, ROWS, seed=0)):
        with refuses(ValueError, "shape="):
            call(torch.rand(4, 784))


def test_a_shape_that_does_not_fit_is_refused():
    with refuses(ValueError, "shape=(28", "(700,)"):
        Image(shape=(28, 28)).fitted(torch.rand(4, 700))
    with refuses(ValueError, "shape=(4", "does not fit"):
        Image(shape=(4, 4)).fitted(torch.rand(4, 28, 28))


@pytest.mark.parametrize("views", [Image(), Tabular()])
def test_integers_and_arrays_are_refused_with_the_remedy(views):
    with refuses(TypeError, "torch.uint8", "X", "255"):
        views(torch.zeros(4, 8, 8, dtype=torch.uint8), ROWS, seed=0)
    with refuses(TypeError, "ndarray"):
        views(torch.zeros(4, 8, 8).numpy(), ROWS, seed=0)


def test_rows_and_indices_must_be_as_many():
    with refuses(ValueError, "4 rows", "3 row"):
        Image()(torch.rand(4, 8, 8), ROWS[:3], seed=0)


def test_views_that_need_the_data_ask_for_it():
    for use in (
        lambda v: v(torch.rand(4, 2), ROWS, seed=0),
        lambda v: v.expected(Gaussian(1.0), torch.rand(4, 2), torch.rand(4, 2)),
        lambda v: v.expected_cost(Gaussian(1.0), 2),
    ):
        with refuses(ValueError, "views.fitted(X)"):
            use(Tabular())


def test_another_width_than_fitted_is_refused():
    views = Tabular(drop=0.2).fitted(torch.rand(9, 3))
    for use in (
        lambda X: views(X, ROWS, seed=0),
        lambda X: views.expected(Gaussian(1.0), X, torch.rand(5, 3)),
        lambda X: views.expected(Gaussian(1.0), X, X),
    ):
        with refuses(ValueError, "X", "2 features", "3"):
            use(torch.rand(4, 2))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0, 5]], ("column 5", "3")),
        ([[-1]], "column -1"),
        ([[0, 1], [1, 2]], "Column 1"),
    ],
)
def test_groups_must_be_columns_each_in_one_group(groups, message):
    with refuses(ValueError, message):
        Tabular().fitted(torch.rand(9, 3), groups=groups)


def test_views_cannot_be_fitted_on_nothing():
    with refuses(ValueError, "zero", "rows"):
        Tabular().fitted(torch.rand(0, 3))


def test_pairs_are_given_and_not_drawn():
    with refuses(TypeError, "fit(X, positives=P)"):
        Paired()(torch.rand(4, 3), ROWS, seed=0)


def test_an_unknown_name_lists_the_known_ones():
    with refuses(ValueError, "'tabular'"):
        resolve(Views, "tabluar")


@pytest.mark.parametrize("kernel", [Gaussian(1e-3), Gaussian(1e6), Laplacian(1e-3, norm=1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_lengthscales_give_finite_kernels_between_zero_and_one(kernel, dtype):
    X = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)).to(dtype) * 10
    for views in (Tabular(drop=0.2), Tabular(noise=0.0, drop=0.2), Tabular(drop=0.2, replace=0.5)):
        K = views.fitted(X).expected(kernel, X[:20], X[:30])
        assert bool(((K >= 0) & (K <= 1 + 1e-5)).all())


def test_one_row_and_constant_columns_are_ordinary_inputs():
    """Every outcome is the row itself: the expectation is the kernel, and the view is the row."""
    X = torch.full((1, 3), 0.1)
    views = Tabular(noise=0.5, drop=0.5, replace=0.5).fitted(X)
    assert torch.allclose(views.expected(Gaussian(1.0), X, X + 1), Gaussian(1.0)(X, X + 1))
    assert torch.equal(views(X, torch.tensor([0]), seed=0)[0], X)
