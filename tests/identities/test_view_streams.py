"""Draws that belong to a row are independent and have the distribution they claim."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from krepes.base.random_streams import normal, uniform

N, WIDTH = 4000, 10
ROWS = torch.arange(N)


@pytest.mark.parametrize(("draw", "cdf"), [(uniform, "uniform"), (normal, "norm")])
@pytest.mark.parametrize("rows", [ROWS, ROWS * 1024, ROWS + 2**40])
def test_draws_have_their_distribution(draw, cdf, rows):
    """Kolmogorov-Smirnov, at the level of four standard errors."""
    assert stats.kstest(draw(rows, WIDTH, 0, 1).flatten().double().numpy(), cdf).pvalue > 6e-5


def standardised(draws: torch.Tensor) -> torch.Tensor:
    return (draws.double() - 0.5) * math.sqrt(12)


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """In standard errors."""
    return abs((a * b).mean().item()) * math.sqrt(a.numel())


@pytest.mark.parametrize("lag", [1, 2, 7, 64, 1024])
def test_neighbouring_rows_are_uncorrelated(lag):
    u = standardised(uniform(ROWS, WIDTH, 0))
    assert correlation(u[lag:], u[:-lag]) < 4
    assert correlation(u[lag:, 1:], u[:-lag, :-1]) < 4


def test_columns_are_uncorrelated():
    u = standardised(uniform(ROWS, WIDTH, 0))
    C = (u.T @ u / N - torch.eye(WIDTH)) * math.sqrt(N)
    assert C.fill_diagonal_(0).abs().max() < 4.5  # the largest of 45


def test_normal_draws_of_a_pair_are_independent():
    """Box-Muller makes two draws from one radius: neither they nor their squares are correlated."""
    g = normal(ROWS, WIDTH, 3).double()
    assert correlation(g[:, 0::2], g[:, 1::2]) < 4
    assert correlation(g[:, 0::2].square() - 1, (g[:, 1::2].square() - 1) / 2) < 4


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((1, 0), (0, 1)), ((0,), (2**64,)), ((5,), (-5,))],
)
def test_seeds_and_keys_give_unrelated_streams(first, second):
    a, b = (standardised(uniform(ROWS, WIDTH, *key)) for key in (first, second))
    assert correlation(a, b) < 4
    for lag in (1, 2):  # nor is one a shifted copy of the other
        assert correlation(a[lag:], b[:-lag]) < 4


def test_the_first_draws_do_not_depend_on_the_width():
    assert torch.equal(uniform(ROWS, 9, 0)[:, :4], uniform(ROWS, 4, 0))
    assert torch.equal(normal(ROWS, 9, 0)[:, :4], normal(ROWS, 4, 0))


def test_uniform_draws_never_reach_one():
    """So that floor(u * n) is always an index below n."""
    u = uniform(torch.arange(200_000), 10, 0)
    assert 0 <= u.min() < 1e-5
    assert 1 - 1e-5 < u.max() < 1
