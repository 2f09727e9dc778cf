"""Moments add up, come apart again, and equal what a loop over samples finds."""

from __future__ import annotations

import itertools

import pytest
import torch

from krepes.base.linalg import descending_eigh, inverse_sqrt, truncated_eigh
from krepes.base.storage.codec import decode, encode
from krepes.moments import Moments
from krepes.moments.moments import OuterSum
from refusals import refuses


def draw(n: int, r: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, r, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(a: Moments, b: Moments) -> bool:
    mine, theirs = (
        {
            name: torch.as_tensor(part, dtype=torch.float64)
            for name, part in encode(x).items()
            if part is not None
        }
        for x in (a, b)
    )
    return mine.keys() == theirs.keys() and all(torch.allclose(mine[k], theirs[k], rtol=1e-12) for k in mine)


def test_merge_of_parts_is_the_whole():
    Phi1, Phi2, Phi3 = draw(50, 4, 1), draw(50, 4, 2), draw(50, 4, 3)
    whole = Moments.of_pairs(Phi1, Phi2, Phi3)
    parts = [Moments.of_pairs(Phi1[s], Phi2[s], Phi3[s]) for s in (slice(0, 13), slice(13, 50))]
    assert close(parts[0] + parts[1], whole)
    assert close(whole - parts[1], parts[0])


def test_pairs_equal_a_loop_over_samples():
    Phi1, Phi2 = draw(20, 3, 1), draw(20, 3, 2)
    moments = Moments.of_pairs(Phi1, Phi2)
    loop = sum(torch.outer(a, b) for a, b in zip(Phi1, Phi2)) / 20
    assert torch.allclose(moments.S_12, loop)
    assert torch.allclose(moments.S, (Phi1.T @ Phi1 + Phi2.T @ Phi2) / 40)
    assert torch.allclose(moments.S_minus, (moments.S_minus + moments.S_minus.T) / 2)


@pytest.mark.parametrize("n_views", [2, 3, 5])
def test_views_equal_a_loop_over_all_ordered_pairs(n_views):
    views = [draw(11, 3, seed) for seed in range(n_views)]
    moments = Moments.of_views(*views)
    pairs = list(itertools.permutations(range(n_views), 2))
    loop = sum(views[i].T @ views[j] for i, j in pairs) / (len(pairs) * 11)
    assert torch.allclose(moments.S_12, loop, rtol=1e-12, atol=1e-14)
    assert moments.exchangeable
    assert (moments + moments).exchangeable


def test_state_round_trip_keeps_everything():
    for moments in (Moments.of_rows(draw(5, 3)), Moments.of_views(draw(5, 3, 1), draw(5, 3, 2))):
        again = decode(Moments, encode(moments))
        assert close(again, moments)
        assert again.exchangeable == moments.exchangeable


def test_moments_that_do_not_fit_are_refused():
    rows, pairs = Moments.of_rows(draw(5, 3)), Moments.of_pairs(draw(5, 3), draw(5, 3))
    with refuses(ValueError, "sum_12"):
        rows + pairs
    with refuses(ValueError, "3", "4 features"):
        rows + Moments.of_rows(draw(5, 4))
    with refuses(ValueError, "leaves", "none"):
        rows - rows
    with refuses(ValueError, "view", "sample"):
        _ = rows.S_12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("flush_rows", [1, 7, 1000])
def test_gram_sum_is_the_gram_of_all_rows(dtype, flush_rows, monkeypatch):
    monkeypatch.setattr("krepes.moments.moments.FLUSH_ROWS", flush_rows)
    X = draw(60, 5).to(dtype)
    total = OuterSum.zero(5)
    for rows in X.split(9):
        total = total.plus(*rows.split(4))
    exact = X.double().T @ X.double()
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    assert (total.result() - exact).abs().max() <= tolerance * exact.abs().max()
    assert torch.equal(total.result(), total.result().T)


def test_float32_blocks_keep_small_directions():
    """Graded features keep the relative precision of their small columns through float32 blocks."""
    scales = torch.logspace(0, -4, 6, dtype=torch.float64)
    X = draw(5000, 6) * scales
    total = OuterSum.zero(6)
    for rows in X.float().split(512):
        total = total.plus(rows)
    exact = X.T @ X
    relative = (total.result() - exact).abs() / torch.outer(exact.diagonal().sqrt(), exact.diagonal().sqrt())
    assert relative.max() < 1e-5


def test_inverse_sqrt_is_a_pseudo_inverse():
    """M^(-1/2) M M^(-1/2) is the projection on the range of M."""
    X = draw(3, 6)
    M = X.T @ X  # rank 3
    root = inverse_sqrt(M, 1e-10)
    projection = root @ M @ root
    assert torch.allclose(projection @ projection, projection, atol=1e-9)
    assert projection.trace().item() == pytest.approx(3)


def test_truncation_is_relative():
    M = torch.diag(torch.tensor([1.0, 1e-3, 1e-7], dtype=torch.float64))
    for scale in (1e-20, 1.0, 1e20):
        assert len(truncated_eigh(scale * M, 1e-6)[0]) == 2


def test_leading_eigenpairs_are_the_first_of_all():
    M = draw(12, 12)
    values, vectors = descending_eigh(M + M.T)
    leading_values, leading_vectors = descending_eigh(M + M.T, 4)
    assert torch.allclose(leading_values, values[:4])
    assert torch.allclose(leading_vectors, vectors[:, :4], atol=1e-10)


def test_eigenvectors_have_fixed_signs():
    M = draw(6, 6)
    values, vectors = descending_eigh(M + M.T)
    assert (values[:-1] >= values[1:]).all()
    assert (vectors.gather(0, vectors.abs().argmax(0, keepdim=True)) > 0).all()


@pytest.mark.parametrize("exchangeable", [True, False])
def test_feature_noise_is_the_expectation_over_noisy_features(exchangeable):
    """Averaged over draws, moments of noisy features are the moments with feature noise, within 4 standard errors."""
    Phi1, Phi2 = draw(30, 3, 1), draw(30, 3, 2)
    of = Moments.of_views if exchangeable else Moments.of_pairs
    clean = of(Phi1, Phi2)
    noisy = clean.with_feature_noise(0.5)
    deviation = (0.5 * clean.variance) ** 0.5
    generator = torch.Generator().manual_seed(3)
    draws = []
    for _ in range(2000):
        noise = deviation * torch.randn(2, 30, 3, generator=generator, dtype=torch.float64)
        sample = of(Phi1 + noise[0], Phi2 + noise[1])
        draws.append(torch.stack([sample.S_11, sample.S_22, sample.S_12]))
    stack = torch.stack(draws)
    expected = torch.stack([noisy.S_11, noisy.S_22, noisy.S_12])
    assert ((stack.mean(0) - expected).abs() <= 4 * stack.std(0) / 2000**0.5).all()
    assert noisy.exchangeable == clean.exchangeable
    assert clean.with_feature_noise(0.0) is clean
