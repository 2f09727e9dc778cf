"""Landmarks are drawn with the probabilities that their papers state."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import krepes.landmarks.leverage
from krepes.base.linalg import conjugate_gradients
from krepes.kernels import Gaussian, Linear, Polynomial
from krepes.landmarks import KMeansPlusPlus, Leverage, PivotedCholesky, Uniform
from krepes.landmarks.landmark_selector import draw, draw_distinct
from krepes.landmarks.leverage import kernel_product
from krepes.landmarks.nystrom import NystromMap
from krepes.landmarks.pivoted_cholesky import PartialCholesky, rejection_cholesky
from labels import label
from tolerances import assert_frequencies, assert_same

N_DRAWS = 1500


def rows(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sequential(weights_after, n: int, length: int) -> dict[tuple[int, ...], float]:
    """The probability of every ordered choice, where weights_after(choice) are those of the next index."""
    probabilities = {(): 1.0}
    for _ in range(length):
        probabilities = {
            (*choice, j): p * w[j] / sum(w)
            for choice, p in probabilities.items()
            for w in [weights_after(choice)]
            for j in range(n)
        }
    return probabilities


def residual_diagonal(K: np.ndarray, chosen: tuple[int, ...]) -> np.ndarray:
    """k(x, x) - k_x^T K_mm^-1 k_x, which is zero at the landmarks."""
    i = list(chosen)
    residual = np.diag(K).copy()
    if i:
        residual -= np.einsum("ij,ji->i", K[:, i], np.linalg.solve(K[np.ix_(i, i)], K[i]))
        residual[i] = 0
    return residual


def nearest_squared(X: np.ndarray, chosen: tuple[int, ...]) -> np.ndarray:
    if not chosen:
        return np.ones(len(X))
    return np.min([[((x - X[c]) ** 2).sum() for x in X] for c in chosen], axis=0)


def observed(selector, X, kernel, n_landmarks: int) -> Counter:
    generator = torch.Generator().manual_seed(0)
    draws = (selector.select(X, kernel, n_landmarks, generator) for _ in range(N_DRAWS))
    return Counter(tuple(chosen.tolist()) for chosen in draws)


@pytest.mark.parametrize("block_size", [1, 12])
def test_pivots_in_blocks_have_the_distribution_of_one_at_a_time(block_size):
    """P(s_{i+1} = j | s_1..s_i) is proportional to the residual diagonal, for every block size.  [epperly]"""
    X, kernel = rows(6, 2), Polynomial(2, 1.0, 0.3)
    K = kernel(X).numpy()
    expected = sequential(lambda chosen: residual_diagonal(K, chosen), 6, 2)
    assert_frequencies(observed(PivotedCholesky(block_size), X, kernel, 2), expected)


@pytest.mark.parametrize(("space", "block_size"), [("input", 1), ("input", 9), ("kernel", 9)])
def test_seeding_in_blocks_has_the_distribution_of_one_at_a_time(space, block_size):
    """P(x_j) = D(x_j)^2 / sum D^2 after a uniform first landmark, for every block size.  [krepes, 3.3]"""
    X, kernel = rows(5, 2), Gaussian(1.0)
    K = kernel(X)
    # In the kernel's feature space points have coordinates K^(1/2).
    values, vectors = torch.linalg.eigh(K)
    points = X if space == "input" else vectors * values.clamp(min=0).sqrt()
    expected = sequential(lambda chosen: nearest_squared(points.numpy(), chosen), 5, 3)
    assert_frequencies(observed(KMeansPlusPlus(space, block_size), X, kernel, 3), expected)


def test_uniform_choices_are_equally_likely():
    expected = {(i, j): 1 / 12 for i in range(4) for j in range(4) if i != j}
    assert_frequencies(observed(Uniform(), rows(4, 1), Linear(), 2), expected)


def test_a_subsample_is_uniform_before_selection():
    expected = {(i,): 1 / 6 for i in range(6)}
    selector = PivotedCholesky(max_candidates=2)
    assert_frequencies(observed(selector, torch.ones(6, 1), Linear(), 1), expected)


def test_draws_follow_their_weights():
    weights = torch.tensor([0.0, 1.0, 0.0, 3.0, 6.0, 0.0])
    p = (weights / 10).tolist()
    counts = Counter(draw(weights, N_DRAWS, torch.Generator().manual_seed(0)).tolist())
    assert_frequencies(counts, dict(enumerate(p)))


def test_draws_without_replacement_follow_the_weights_left_then_fill_uniformly():
    weights, generator = torch.tensor([0.0, 1.0, 0.0, 3.0]), torch.Generator().manual_seed(0)
    counts = Counter(tuple(draw_distinct(weights, 3, generator).tolist()) for _ in range(N_DRAWS))
    half = {(1, 3, 0): 0.125, (1, 3, 2): 0.125, (3, 1, 0): 0.375, (3, 1, 2): 0.375}
    assert_frequencies(counts, half)


def exact_influence(X: torch.Tensor, kernel, lam: float) -> torch.Tensor:
    K = kernel(X)
    return torch.linalg.solve(K + lam * len(X) * torch.eye(len(X), dtype=K.dtype), K)


@pytest.mark.parametrize("probes", ["rademacher", "normal"])
def test_leverage_scores_are_unbiased(probes):
    """E[l] = diag K (K + lam n I)^-1, with Hutchinson's variance; within 4 standard errors.  [krepes, 3.3]"""
    X, kernel, lam, s = rows(40, 2), Gaussian(1.0), 1e-2, 4000
    M = exact_influence(X, kernel, lam)
    selector = Leverage(lam, n_probes=s, probes=probes, tolerance=1e-12, max_iter=500)
    scores = selector.scores(X, kernel, torch.Generator().manual_seed(0))
    variance = M.square().sum(1) + (1 if probes == "normal" else -1) * M.diagonal().square()
    z = (scores - M.diagonal()) / (variance / s).sqrt()
    assert z.abs().max() <= 4
    assert 0.7 <= z.square().mean() <= 1.4  # and the variance is not smaller than claimed


def test_leverage_probabilities_are_clipped_scores():
    X, kernel = rows(30, 2), Gaussian(2.0)
    few = Leverage(0.01, n_probes=2)
    scores = few.scores(X, kernel, torch.Generator().manual_seed(3))
    assert (scores < 0).sum() > 3
    n_positive = int((scores > 0).sum())
    chosen = few.select(X, kernel, n_positive, torch.Generator().manual_seed(3))
    assert (scores[chosen] > 0).all()
    more = few.select(X, kernel, n_positive + 3, torch.Generator().manual_seed(3))
    assert len(set(more.tolist())) == n_positive + 3


def test_leverage_does_not_depend_on_whether_the_kernel_is_stored(monkeypatch):
    X, P = rows(150, 3), rows(150, 4, seed=1)
    stored = kernel_product(X, Gaussian(1.0))(P)
    assert_same(stored, Gaussian(1.0)(X) @ P)
    monkeypatch.setattr(krepes.landmarks.leverage, "STORED_BYTES", 0)
    monkeypatch.setattr(krepes.landmarks.leverage, "BLOCK_BYTES", 0)
    assert_same(kernel_product(X, Gaussian(1.0))(P), stored)


def test_conjugate_gradients_solve_every_column():
    A = Gaussian(1.0)(rows(50, 3)) + 1e-2 * torch.eye(50, dtype=torch.float64)
    B = rows(50, 4, seed=1) * torch.tensor([1.0, 1e6, 1e-6, 0.0], dtype=torch.float64)
    Z, converged = conjugate_gradients(lambda P: A @ P, B, tolerance=1e-12, max_iter=500)
    expected = torch.linalg.solve(A, B)
    assert converged.all()
    assert torch.equal(Z[:, 3], torch.zeros(50, dtype=torch.float64))
    for j in range(3):
        assert (Z[:, j] - expected[:, j]).norm() <= 1e-9 * expected[:, j].norm()


def test_conjugate_gradients_are_exact_after_as_many_steps_as_distinct_eigenvalues():
    """Krylov: with 3 distinct eigenvalues 3 products suffice, and 2 do not."""
    A = torch.diag(torch.tensor([1.0, 1.0, 2.0, 2.0, 5.0, 5.0], dtype=torch.float64))
    B = rows(6, 2)
    for steps, enough in ((2, False), (3, True)):
        Z, converged = conjugate_gradients(lambda P: A @ P, B, tolerance=1e-10, max_iter=steps)
        assert converged.tolist() == [enough, enough]
        assert bool(((A @ Z - B).norm(dim=0) <= 1e-10 * B.norm(dim=0)).all()) == enough


@pytest.mark.parametrize("block_size", [1, 5, None])
def test_the_factor_is_the_nystrom_approximation(block_size):
    """G G^T = K_nm K_mm^-1 K_mn, and the residual is its diagonal's difference from K."""
    X, kernel = rows(80, 3), Gaussian(1.0)
    generator, factor = torch.Generator().manual_seed(0), PartialCholesky(rows(80, 3), kernel, 100)
    while len(factor.pivots) < 15:
        proposed = draw(factor.residual, block_size or 20, generator)
        H, u = factor.residual_block(proposed), torch.rand(len(proposed), generator=generator)
        accepted, L = rejection_cholesky(H.numpy(), u.numpy(), 100, factor.cut)
        assert_same(torch.from_numpy(L @ L.T), H[accepted][:, accepted])
        factor.extend(proposed[accepted], torch.from_numpy(L))
    m = len(factor.pivots)
    K_nm, K_mm = kernel(X, X[factor.pivots]), kernel(X[factor.pivots])
    expected = K_nm @ torch.linalg.solve(K_mm, K_nm.T)
    difference = (factor.G[:, :m] @ factor.G[:, :m].T - expected).abs().max()
    assert difference <= 1e-8  # K_mm is nearly singular; its solve is the less accurate side
    assert (factor.residual - (1 - expected.diagonal())).abs().max() <= 1e-8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("kernel", "rank"), [(Linear(), 4), (Polynomial(2, 1.0, 1.0), 15)], ids=label)
def test_as_many_pivots_as_the_rank_reproduce_the_kernel(kernel, rank, dtype):
    X = rows(100, 4)
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        chosen = PivotedCholesky().select(X.to(dtype), kernel, 50, generator)
        assert len(chosen) == rank
        assert NystromMap(kernel, X[chosen], torch.float64).residual(X).max() <= 1e-8 * kernel.diag(X).max()


def test_pivoted_cholesky_is_better_than_uniform_on_clusters():
    """Nine rows in ten lie in one tight cluster: the mean trace error over seeds is smaller."""
    X = rows(600, 4)
    X[:540] *= 0.1
    kernel = Gaussian(1.0)

    def mean_error(selector) -> float:
        chosen = [selector.select(X, kernel, 30, torch.Generator().manual_seed(s)) for s in range(10)]
        return np.mean([NystromMap(kernel, X[i], torch.float64).residual(X).mean().item() for i in chosen])

    errors = {name: mean_error(s()) for name, s in (("rpc", PivotedCholesky), ("uniform", Uniform))}
    assert errors["rpc"] < errors["uniform"]
