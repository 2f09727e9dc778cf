"""Tabular views: each strength means what it says, and the columns are summarised rightly."""

from __future__ import annotations

import math

import pytest
import torch

from krepes.views import Tabular
from krepes.views.columns import TABLE_ROWS, number_units
from tolerances import assert_frequencies, assert_same

N = 5000
ROWS = torch.arange(N)


def constant_rows(row: list[float]) -> torch.Tensor:
    return torch.tensor([row], dtype=torch.float64).expand(N, -1)


def test_noise_has_its_share_of_the_columns_deviation(generator):
    X = torch.randn(1000, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 100.0, 0.0])
    views = Tabular(noise=0.2, drop=0.0).fitted(X, generator)
    view = views(constant_rows([0.0, 0.0, 0.0]), ROWS, seed=0)[0]
    deviation = view[:, :2].std(0, correction=0) / X[:, :2].std(0, correction=0)
    assert bool(((deviation - 0.2).abs() < 4 * 0.2 / math.sqrt(2 * N)).all())
    assert bool((view[:, 2] == 0).all())  # a constant column gets no noise


def test_features_are_dropped_and_replaced_with_their_probabilities(generator):
    X = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    views = Tabular(noise=0.0, drop=0.4, replace=0.25, fill=-1.0).fitted(X, generator)
    view = views(constant_rows([7.0]), ROWS, seed=0)[1].flatten().tolist()
    counts = {value: view.count(value) for value in set(view)}
    assert_frequencies(counts, {7.0: 0.75 * 0.6, -1.0: 0.75 * 0.4, 1.0: 0.125, 2.0: 0.125})


def test_columns_are_dropped_independently_of_one_another_and_of_the_other_view(generator):
    X = torch.randn(100, 4, generator=generator, dtype=torch.float64)
    first, second = Tabular(noise=0.0, drop=0.3).fitted(X, generator)(constant_rows([9.0] * 4), ROWS, seed=0)
    dropped = torch.cat([first != 9, second != 9], dim=1).double() - 0.3
    C = dropped.T @ dropped / N
    off_diagonal = C - torch.diag(C.diagonal())
    assert off_diagonal.abs().max() < 4.5 * 0.21 / math.sqrt(N)  # the largest of 28
    assert bool(((C.diagonal() - 0.21).abs() < 4 * 0.4 * 0.21 / math.sqrt(N) + 0.01).all())


def test_a_dropped_feature_takes_the_mean(generator):
    X = torch.randn(100, 2, generator=generator, dtype=torch.float64) + 5
    views = Tabular(noise=0.0, drop=0.5).fitted(X, generator)
    view = views(constant_rows([99.0, 99.0]), ROWS, seed=0)[0]
    for j in range(2):
        assert_same(view[view[:, j] != 99, j].unique(), X[:, j].mean()[None])


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 1000])
def test_the_table_holds_rows_of_the_data(n, generator):
    X = torch.randn(n, 3, generator=generator)
    table = Tabular(replace=0.1).fitted(X, generator).table_
    assert table.shape == (min(n, TABLE_ROWS), 3)
    assert {tuple(row) for row in table.tolist()} <= {tuple(row) for row in X.double().tolist()}
    assert len(table.unique(dim=0)) == len(table)


def test_fitting_leaves_the_rows_alone_and_returns_a_copy(generator):
    X = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    before, views = X.clone(), Tabular(replace=0.1)
    assert views.fitted(X, generator) is not views
    assert not hasattr(views, "scale_")
    assert torch.equal(X, before)


def test_moments_of_columns_far_from_zero_are_those_of_the_columns(generator):
    X = (torch.randn(9000, 2, generator=generator) + 1e4).float()
    views = Tabular().fitted(X, generator)
    assert_same(views.mean_, X.double().mean(0))
    assert_same(views.scale_, X.double().std(0, correction=0), torch.float64)


@pytest.mark.parametrize("n", [3, 10, 5000])
def test_a_constant_column_has_its_value_as_mean_and_no_deviation(n):
    """Although the sum of n times 0.1, divided by n, may be another number."""
    views = Tabular().fitted(torch.full((n, 1), 0.1, dtype=torch.float64))
    assert views.mean_.item() == 0.1
    assert views.scale_.item() == 0


def test_images_of_rows_are_augmented_as_their_flattened_rows(generator):
    X = torch.rand(30, 4, 5, generator=generator)
    rows = torch.arange(30)
    cubes = Tabular().fitted(X, generator)(X, rows, seed=0)
    flat = Tabular().fitted(X.reshape(30, 20), generator)(X.reshape(30, 20), rows, seed=0)
    assert all(torch.equal(a.reshape(30, 20), b) for a, b in zip(cubes, flat))


def test_units_are_numbered_once_for_each_column():
    assert number_units(5, [[4, 0], [2]]).tolist() == [0, 2, 1, 3, 0]
    assert number_units(3, None).tolist() == [0, 1, 2]
    assert number_units(3, [[], [1]]).tolist() == [1, 0, 2]
