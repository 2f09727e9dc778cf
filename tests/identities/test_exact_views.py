"""Expected kernels under augmentation: equal to the sum over all outcomes, and to what sampling converges to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from krepes.kernels import Gaussian, Laplacian, Matern, Polynomial
from krepes.views import NoViews, Paired, Tabular
from krepes.views.columns import columns_by_unit, number_units
from krepes.views.expectation import ProductExpectation
from tolerances import assert_same
from view_oracles import expected_kernel

KERNELS = {
    "gaussian": (Gaussian(1.5), lambda t: math.exp(-(t**2) / (2 * 1.5**2))),
    "laplacian_l1": (Laplacian(1.5, norm=1), lambda t: math.exp(-abs(t) / 1.5)),
}
SETTINGS = {
    "noise": {"noise": 0.3, "drop": 0.0},
    "drop": {"noise": 0.0, "drop": 0.4},
    "replace": {"noise": 0.0, "drop": 0.0, "replace": 0.3},
    "noise and drop": {"noise": 0.3, "drop": 0.4},
    "noise and replace": {"noise": 0.3, "drop": 0.0, "replace": 0.3},
    "all": {"noise": 0.3, "drop": 0.4, "replace": 0.3},
    "all, fill 0.7": {"noise": 0.3, "drop": 0.4, "replace": 0.3, "fill": 0.7},
}
GROUPS = {"columns": None, "category": [[1, 2]]}


def mixed_rows(n: int, generator: torch.Generator, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A continuous column, a category of two levels as one-hot columns, and a binary column."""
    level = torch.randint(0, 2, (n,), generator=generator)
    one_hot = torch.nn.functional.one_hot(level, 2).double()
    binary = (torch.rand(n, 1, generator=generator) < 0.3).double() * 2 - 1
    continuous = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    return torch.cat([continuous, one_hot, binary], dim=1).to(dtype)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_expectation_is_the_sum_over_all_outcomes(kernel, groups, setting, generator):
    kernel, kappa = KERNELS[kernel]
    X, Z = mixed_rows(4, generator), mixed_rows(2, generator)
    views = Tabular(**SETTINGS[setting]).fitted(X, generator, GROUPS[groups])
    fill = X.mean(0).numpy() if views.fill == "mean" else np.full(4, views.fill)
    table = X.numpy() if views.replace > 0 else []  # four candidates: all of them are in the table
    units = columns_by_unit(number_units(4, GROUPS[groups]))
    noise = views.noise * X.std(0, correction=0).numpy()
    expected = expected_kernel(
        kappa, X[:2].numpy(), Z.numpy(), units, noise, fill, table, views.drop, views.replace
    )
    assert_same(views.expected(kernel, X[:2], Z), torch.from_numpy(expected))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_sampled_views_average_to_the_expectation(kernel, groups, setting, generator):
    """Within 4 standard errors of the mean over 20 000 sampled views of one row."""
    n, kernel = 20_000, KERNELS[kernel][0]
    X, Z = mixed_rows(300, generator), mixed_rows(4, generator)
    views = Tabular(**SETTINGS[setting]).fitted(X, generator, GROUPS[groups])
    samples = kernel(views(X[:1].expand(n, -1), torch.arange(n), seed=0)[1], Z)
    error = samples.mean(0) - views.expected(kernel, X[:1], Z)[0]
    assert bool((error.abs() <= 4 * samples.std(0) / math.sqrt(n)).all())


def multiplied_out(views: Tabular, kernel, X, Z) -> torch.Tensor:
    """The product over units, one factor after the other, in float64."""
    product = torch.ones(len(X), len(Z), dtype=torch.float64)
    noise, mean = views.noise * views.scale_, views.mean_
    X, Z = X.double(), Z.double()
    for columns in columns_by_unit(views.units_):

        def factor(values, columns=columns):
            parts = [
                kernel.coordinate_product([j], values[:, [j]], Z[:, [j]], [noise[j].item()]) for j in columns
            ]
            return torch.stack(parts).prod(0)

        keep, drop = (1 - views.replace) * (1 - views.drop), (1 - views.replace) * views.drop
        mixed = keep * factor(X) + drop * factor(mean[None])
        if views.replace:
            mixed += views.replace * factor(views.table_).mean(0)
        product *= mixed
    return product


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", [Gaussian(4.0), Gaussian(0.7), Laplacian(9.0, norm=1)])
@pytest.mark.parametrize("setting", ["drop", "replace", "all"])
def test_the_matrix_product_form_equals_the_product_multiplied_out(kernel, dtype, setting, generator):
    """Smooth, binary, constant and many-valued columns, a number with its missing-indicator, categories seen
    and unseen, rows far outside."""
    continuous = torch.randn(400, 5, generator=generator) * torch.tensor([1.0, 0.01, 30.0, 1.0, 1.0])
    continuous[:, 4] = continuous[:, 4].round()
    category = torch.nn.functional.one_hot(torch.randint(0, 5, (400,), generator=generator), 6)
    constant, binary = torch.full((400, 1), 0.1), (torch.rand(400, 1, generator=generator) < 0.2) * 3.0
    missing = (torch.rand(400, 1, generator=generator) < 0.3).float()
    number = torch.randn(400, 1, generator=generator) * (1 - missing)
    X = torch.cat([continuous, category, constant, binary, number, missing], dim=1).to(dtype)
    groups = [[5, 6, 7, 8, 9, 10], [13, 14]]
    views = Tabular(**SETTINGS[setting]).fitted(X, generator, groups)
    rows, Z = X[:30].clone(), X[100:150]
    rows[3, 0], rows[4, 2], rows[10, 13] = 20.0, -500.0, 40.0  # outside the range of the candidates
    rows[5, 5:11], rows[6, 5:11] = torch.eye(6, dtype=dtype)[5], 0.0  # a level never seen, and none
    rows[7, 5:11], rows[8, 11], rows[9, 12], rows[11, 14] = 0.25, 0.3, 1.0, 0.5  # values never seen
    assert_same(views.expected(kernel, rows, Z), multiplied_out(views, kernel, rows, Z), dtype)


def test_smooth_kernels_of_ordinary_columns_are_one_matrix_product(generator):
    """No factor is left to be multiplied in, and few features are needed."""
    X = torch.randn(400, 8, generator=generator)
    X[:, 6] = (X[:, 6] > 0).float()
    X[:, 7] *= X[:, 6]
    views = Tabular(drop=0.2, replace=0.1).fitted(X, generator, groups=[[7, 6]])
    product = ProductExpectation(Gaussian(4.0), views._units(), X[:50])
    assert product.direct == []
    assert len(product.C) < 8 * 15
    assert bool(product._features(X)[1].all())  # it serves every row the views were fitted on


def test_many_columns_are_as_safe_as_the_kernel_itself(generator):
    """With 1000 columns and float32 the relative error stays that of a few hundred roundings."""
    X = torch.randn(300, 1000, generator=generator)
    kernel, views = Gaussian().fitted(X, generator), Tabular(drop=0.2).fitted(X, generator)
    K = views.expected(kernel, X[:20], X[:50])
    expected = multiplied_out(views, kernel, X[:20], X[:50])
    assert ((K - expected).abs() / expected).max() < 1e-4


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Laplacian(2.0), Matern(2.0), Polynomial(2, 1.0, 1.0)])
def test_without_augmentation_every_kernel_is_its_own_expectation(kernel, generator):
    X = mixed_rows(20, generator)
    for views in (Tabular(noise=0.0, drop=0.0), NoViews()):
        assert views.exact(kernel)
        assert torch.equal(views.expected(kernel, X, X[:5]), kernel(X, X[:5]))


def test_noise_alone_is_a_smoother_kernel(generator):
    """E k(x + noise, y) is a Gaussian kernel of lengthscale sqrt(l^2 + s^2) times (l^2 / (l^2 + s^2))^(d/2)."""
    X = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    X = (X - X.mean(0)) / X.std(0, correction=0)
    views = Tabular(noise=0.5, drop=0.0).fitted(X, generator)
    expected = (4 / 4.25) ** 1.5 * Gaussian(math.sqrt(4.25))(X, X[:7])
    assert_same(views.expected(Gaussian(2.0), X, X[:7]), expected)


def test_the_smoothed_kernel_and_the_product_of_factors_agree(generator):
    X = mixed_rows(60, generator)
    views = Tabular(noise=0.5, drop=0.0).fitted(X, generator)
    kernel = Gaussian(np.array([0.5, 1.0, 2.0, 4.0]))
    assert_same(views.expected(kernel, X, X[:9]), multiplied_out(views, kernel, X, X[:9]))


def test_expectations_of_sums_and_multiples_are_sums_and_multiples(generator):
    X = mixed_rows(40, generator)
    views = Tabular(drop=0.2, replace=0.2).fitted(X, generator, GROUPS["category"])
    left, right = Gaussian(1.0), Laplacian(2.0, norm=1)
    parts = 3 * views.expected(left, X, X[:8]) + views.expected(right, X, X[:8])
    assert_same(views.expected(3 * left + right, X, X[:8]), parts)


def test_blocks_and_preparation_do_not_matter(generator):
    X = mixed_rows(200, generator)
    views = Tabular(drop=0.2, replace=0.1).fitted(X, generator, GROUPS["category"])
    prepared = views.expected_against(Gaussian(1.0), X[:30])
    parts = torch.cat([prepared(X[:7]), prepared(X[7:8]), prepared(X[8:8]), prepared(X[8:])])
    assert_same(parts, views.expected(Gaussian(1.0), X, X[:30]))


def test_the_expectation_leaves_rows_and_landmarks_alone(generator):
    X, Z = mixed_rows(50, generator), mixed_rows(9, generator)
    before = X.clone(), Z.clone()
    views = Tabular(drop=0.2, replace=0.2).fitted(X, generator)
    for kernel in (Gaussian(1.0), Laplacian(1.0, norm=1)):
        views.expected(kernel, X, Z)
    assert torch.equal(X, before[0])
    assert torch.equal(Z, before[1])


@pytest.mark.parametrize("kernel", [Laplacian(1.0), Matern(1.0), Gaussian(1.0) * Gaussian(1.0)])
def test_no_formula_is_no_answer(kernel, generator):
    X = mixed_rows(20, generator)
    for views in (Tabular(drop=0.2).fitted(X, generator), Tabular().fitted(X, generator), Paired()):
        assert not views.exact(kernel)
        assert views.expected(kernel, X, X) is None
        assert views.expected_cost(kernel, 4) == math.inf


def test_cost_grows_with_what_has_to_be_computed(generator):
    X = torch.randn(300, 20, generator=generator)
    kernel, rough = Gaussian().fitted(X, generator), Laplacian(norm=1).fitted(X, generator)
    cost = {
        name: Tabular(**SETTINGS[name]).fitted(X, generator).expected_cost(kernel, 20)
        for name in ("noise", "drop")
    }
    assert cost["noise"] < cost["drop"] < math.inf
    assert Tabular(noise=0.0, drop=0.2).fitted(X, generator).expected_cost(rough, 20) > cost["drop"]


def test_a_category_is_dropped_and_replaced_as_a_whole(generator):
    X = mixed_rows(500, generator)
    views = Tabular(noise=0.0, drop=0.3, replace=0.3, fill=0.5).fitted(X, generator, GROUPS["category"])
    category = views(X, torch.arange(500), seed=0)[0][:, 1:3]
    dropped = (category == 0.5).all(1)
    assert bool((dropped | (category.sum(1) == 1)).all())
    assert 0 < dropped.sum() < 500
