"""The streaming pass equals moments computed from all features at once."""

from __future__ import annotations

import pytest
import torch

from krepes.engines import MomentPass, block_rows, run
from krepes.engines.local import add_halving, prefetched
from krepes.features.nystrom import NystromMap
from krepes.kernels import Gaussian, Polynomial
from krepes.moments import Moments
from krepes.views import NoViews, Paired, Tabular

N = 100


@pytest.fixture
def X(generator):
    return torch.randn(N, 4, generator=generator, dtype=torch.float64)


@pytest.fixture
def features(X):
    return NystromMap(Gaussian(2.0), X[:20], torch.float64)


def streamed(features, views, inputs, size=17, exact=False):
    moment_pass = MomentPass(features, views, seed=3, exact=exact)
    batches = [(i, tuple(None if x is None else x[i : i + 30] for x in inputs)) for i in range(0, N, 30)]
    run(moment_pass, batches, N, size=size)
    return moment_pass.result()


def assert_same(found: Moments, expected: Moments):
    for name in ("S_aa", "S_bb", "mean_a", "mean_b", "mean_norm"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-12)
    if expected.paired:
        torch.testing.assert_close(found.S_ab, expected.S_ab, rtol=1e-10, atol=1e-12)
    assert found.n == expected.n


def test_rows(features, X):
    expected = Moments.of_rows(features(X), trace=float(N))
    assert_same(streamed(features, NoViews(), (X, None, None)), expected)


@pytest.mark.parametrize("n_views", [2, 5])
def test_views(features, X, n_views):
    views = Tabular(n_views=n_views).fitted(X, torch.Generator().manual_seed(0))
    drawn = views(X, torch.arange(N), 3)
    expected = Moments.of_views(*[features(view) for view in drawn])
    found = streamed(features, views, (X, None, None))
    expected = Moments(**{**vars(expected), "trace": float(N)})  # k(x, x) = 1, not |phi|^2
    expected = Moments(**{**vars(expected), "gram_bb": expected.gram_aa})
    assert_same(found, expected)


def test_pairs_with_negatives(features, X, generator):
    P, Q = X + 0.1, X[torch.randperm(N, generator=generator)]
    found = streamed(features, Paired(), (X, P, Q))
    expected = Moments.of_pairs(features(X), features(P), features(Q))
    assert_same(found, Moments(**{**vars(expected), "trace": float(N)}))
    torch.testing.assert_close(found.S_minus, expected.S_minus, rtol=1e-10, atol=1e-12)


def test_trace_of_a_kernel_that_is_not_normalised(X):
    kernel = Polynomial(2, 1.0, 1.0)
    found = streamed(NystromMap(kernel, X[:20], torch.float64), NoViews(), (X, None, None))
    assert found.mean_norm == pytest.approx(kernel.diag(X).mean().item())


def test_out_of_memory_halves_the_block(features, X):
    expected = streamed(features, NoViews(), (X, None, None))
    moment_pass = MomentPass(features, NoViews(), seed=3)
    original, sizes = moment_pass.add, []

    def small_machine(X, rows, *rest):
        sizes.append(len(rows))
        if len(rows) > 30:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        original(X, rows, *rest)

    moment_pass.add = small_machine
    add_halving(moment_pass, (X, None, None), torch.arange(N))
    assert sizes[0] == N
    assert max(sizes[2:]) <= N // 2
    assert_same(moment_pass.result(), expected)


def test_other_errors_are_not_swallowed(features):
    moment_pass = MomentPass(features, NoViews(), seed=3)
    with pytest.raises(ValueError, match="features"):
        add_halving(moment_pass, (torch.ones(40, 7, dtype=torch.float64), None, None), torch.arange(40))


def test_block_sizes_follow_the_budget():
    assert block_rows(2000, 2000, 2, 28) == 2048
    assert block_rows(2000, 2000, 2, 28, budget=10**6) == 16
    assert block_rows(20_000, 20_000, 2, 784) < 2048


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
