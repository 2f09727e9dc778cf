"""The streaming pass equals moments computed from all features at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from krepes.base.blocks import Block
from krepes.engines import Local, block_rows
from krepes.engines.engine import add_halving, prefetched
from krepes.features import FeatureSpace, FitData, MomentPass
from krepes.kernels import Gaussian, Polynomial
from krepes.moments import Moments
from krepes.views import NoViews, Paired, Tabular
from refusals import refuses

N = 100


@pytest.fixture
def X(generator):
    return torch.randn(N, 4, generator=generator, dtype=torch.float64)


@pytest.fixture
def space(X):
    return FeatureSpace.on(Gaussian(2.0), X[:20], seed=3)


def streamed(space, views, inputs, exact=False):
    space = replace(space, views=views, exact_views=exact)
    reader = FitData.open(*inputs).reader(space.inputs, space.placement)
    return Local(17).reduce(MomentPass(space), reader)


def assert_same(found: Moments, expected: Moments):
    for name in ("S_11", "S_22", "mean_1", "mean_2", "mean_norm_sq"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-12)
    if expected.paired:
        torch.testing.assert_close(found.S_12, expected.S_12, rtol=1e-10, atol=1e-12)
    assert found.n == expected.n


def test_rows(space, X):
    expected = Moments.of_rows(space.features(X), trace=float(N))
    assert_same(streamed(space, NoViews(), (X,)), expected)


@pytest.mark.parametrize("n_views", [2, 5])
def test_views(space, X, n_views):
    views = Tabular(n_views=n_views).fitted(X, torch.Generator().manual_seed(0))
    drawn = views(X, torch.arange(N), 3)
    expected = Moments.of_views(*[space.features(view) for view in drawn])
    found = streamed(space, views, (X,))
    expected = Moments(**{**vars(expected), "trace": float(N)})  # k(x, x) = 1, not |phi|^2
    expected = Moments(**{**vars(expected), "sum_22": expected.sum_11})
    assert_same(found, expected)


def test_pairs_with_negatives(space, X, generator):
    P, Q = X + 0.1, X[torch.randperm(N, generator=generator)]
    found = streamed(space, Paired(), (X, P, Q))
    expected = Moments.of_pairs(space.features(X), space.features(P), space.features(Q))
    assert_same(found, Moments(**{**vars(expected), "trace": float(N)}))
    torch.testing.assert_close(found.S_minus, expected.S_minus, rtol=1e-10, atol=1e-12)


def test_trace_of_a_kernel_that_is_not_normalised(X):
    kernel = Polynomial(2, 1.0, 1.0)
    found = streamed(FeatureSpace.on(kernel, X[:20]), NoViews(), (X,))
    assert found.mean_norm_sq == pytest.approx(kernel.diag(X).mean().item())


def test_out_of_memory_halves_the_block(space, X):
    expected = streamed(space, NoViews(), (X,))
    moment_pass = MomentPass(space)
    original, sizes = moment_pass.plus, []

    def small_machine(sums, block):
        sizes.append(len(block))
        if len(block) > 30:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(sums, block)

    moment_pass.plus = small_machine
    add_halving(moment_pass, Block(torch.arange(N), (X,)))
    assert sizes[0] == N
    assert max(sizes[2:]) <= N // 2
    assert_same(moment_pass.result(), expected)


def test_other_errors_are_not_swallowed(space):
    block = Block(torch.arange(40), (torch.ones(40, 7, dtype=torch.float64),))
    with refuses(ValueError, "features"):
        add_halving(MomentPass(space), block)


def test_block_sizes_follow_the_budget():
    assert block_rows(40_000) == 2048
    assert block_rows(40_000, budget=10**6) == 16
    assert block_rows(10**6) < 2048


def test_prefetching_passes_errors_on_and_stops():
    def failing():
        yield 1
        raise OSError("disk")

    with prefetched(failing()) as items:
        assert next(items) == 1
        with pytest.raises(OSError, match="disk"):
            next(items)
    endless = iter(int, 1)
    with prefetched(endless) as items:
        next(items)  # leaving the block must not hang
