"""Transferability scores: their definitions, their invariances, and what chance gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import LedoitWolf
from torch import nn

from krepes.alignment import (
    TransferStatistics,
    TransferTarget,
    cka,
    h_score,
    leep,
    logme,
    one_hot,
    transferability,
)
from transfer_oracles import naive_h_score, naive_leep, naive_logme, published_logme

SCORES = ("log_cka", "logme", "h_score", "h_score_published")


def problem(n: int = 240, d: int = 7, n_classes: int = 3, signal: float = 0.7, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = signal * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 2
    return X, y


def values(scores) -> np.ndarray:
    names = ("cka", "null_mean", "null_sd", "p_value", "logme", "h_score", "h_score_published")
    return np.array([getattr(scores, name) for name in names])


@pytest.mark.parametrize(("n", "d"), [(60, 5), (25, 40)], ids=["d<n", "d>n"])
def test_logme_is_the_largest_evidence(n, d):
    """max over alpha and beta of log N(y; 0, F F^T / alpha + I / beta) / n, mean over classes."""
    X, y = problem(n, d)
    assert logme(X, y) == pytest.approx(naive_logme(X, y), abs=1e-9)


def test_logme_agrees_with_the_published_iteration_where_that_ends():
    X, y = problem(80, 6)
    assert logme(X, y) == pytest.approx(published_logme(X, y), rel=1e-10)


def test_h_scores_are_their_definitions():
    X, y = problem()
    assert h_score(X, y, shrink=False) == pytest.approx(naive_h_score(X, y), rel=1e-12)
    shrunk = LedoitWolf().fit(X)
    means = np.array([X[y == label].mean(axis=0) for label in y])
    between = (1 - shrunk.shrinkage_) * np.cov(means.T, bias=True)
    expected = np.trace(np.linalg.solve(shrunk.covariance_, between))
    assert 0.001 < shrunk.shrinkage_ < 1
    assert h_score(X, y) == pytest.approx(expected, rel=1e-10)


def test_the_published_h_score_of_noise_is_its_maximum_where_features_outnumber_rows_and_the_shrunk_is_not():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 100)), rng.integers(0, 3, 30)
    assert h_score(X, y, shrink=False) == pytest.approx(2.0, abs=1e-8)
    assert h_score(X, y) < 0.5


def test_leep_is_its_definition():
    rng = np.random.default_rng(0)
    theta, y = rng.dirichlet(np.ones(5), size=40), rng.integers(0, 3, 40)
    assert leep(theta, y) == pytest.approx(naive_leep(theta, y), rel=1e-12)


def test_exact_cka_is_the_unbiased_one():
    X, y = problem()
    scores = TransferStatistics(y).update(X).score()
    assert (scores.method, scores.cka) == ("exact", pytest.approx(cka(X, one_hot(y)), rel=1e-12))
    assert scores.log_cka == np.log(scores.cka)


@pytest.mark.parametrize("method", ["exact", "sketch"])
def test_batches_order_and_merging_do_not_change_a_score(method):
    """Sums over rows are the same in any batches; rows keep their labels by their index."""
    X, y = problem(300)
    settings = {"scores": SCORES, "method": method, "n_buckets": 64, "n_permutations": 9}
    whole = values(TransferStatistics(y, **settings).update(X).score())
    assert np.isfinite(whole).all()
    batched = TransferStatistics(y, **settings)
    for start in range(0, 300, 37):
        batched.update(X[start : start + 37])
    order = np.random.default_rng(1).permutation(300)
    parts = [TransferStatistics(y, **settings).update(X[rows], rows=rows) for rows in np.split(order, 3)]
    merged = TransferStatistics(y, **settings)
    for part in parts:
        merged.merge(part)
    np.testing.assert_allclose(values(batched.score()), whole, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(values(merged.score()), whole, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("method", ["exact", "sketch"])
def test_rotations_change_nothing_and_scale_does_not_change_alignment(method):
    X, y = problem(300, 6)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    settings = {"scores": SCORES, "method": method, "n_buckets": 64, "n_permutations": 9}
    first, rotated, scaled = (
        TransferStatistics(y, **settings).update(Z).score() for Z in (X, X @ Q, 1000 * X)
    )
    np.testing.assert_allclose(values(rotated), values(first), rtol=1e-8, atol=1e-12)
    assert scaled.cka == pytest.approx(first.cka, rel=1e-9)
    assert scaled.logme == pytest.approx(first.logme, rel=1e-9)  # alpha takes the scale up
    assert scaled.h_score == pytest.approx(first.h_score, rel=1e-9)


def test_labels_have_names_not_values():
    X, y = problem()
    named = np.array(["zebra", "ape", "cat"])[y]
    first, second = (TransferStatistics(labels, scores=SCORES).update(X).score() for labels in (y, named))
    np.testing.assert_allclose(values(second), values(first), rtol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(5, 2), (6, 20)])
def test_alignment_by_chance_has_mean_zero_and_variance_2_over_n_n_minus_3_exactly(n, d):
    """Over all n! orders of the labels, for any features: the mean and the deviation that are reported."""
    from itertools import permutations

    rng = np.random.default_rng(0)
    X, y = rng.exponential(size=(n, d)), np.array([0, 0, 1, 1, 1, 0, 1])[:n]
    Y = one_hot(y)
    found = np.array([cka(X, Y[list(order)]) for order in permutations(range(n))])
    scores = TransferStatistics(y).update(X).score()
    assert found.mean() == pytest.approx(scores.null_mean, abs=1e-12)
    assert found.std() == pytest.approx(scores.null_sd, rel=1e-10)


@pytest.mark.parametrize("method", ["exact", "sketch"])
@pytest.mark.parametrize("d", [2, 100])
def test_p_values_of_noise_are_uniform(method, d):
    """The share of p-values up to 0.05, 0.2 and 0.5 is that, within 4 standard errors."""
    rng = np.random.default_rng(d)
    n_draws, p = 200, []
    for draw in range(n_draws):
        X, y = rng.normal(size=(50, d)), rng.integers(0, 3, 50)
        settings = {"scores": ("log_cka",), "method": method, "n_buckets": 16, "n_permutations": 19}
        p.append(TransferStatistics(y, **settings, seed=draw).update(X).score().p_value)
    for level in (0.05, 0.2, 0.5):
        share = np.mean(np.array(p) <= level + 1e-12)
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / n_draws)


def test_a_sketch_estimates_the_unbiased_value_also_for_wide_features():
    """Within 4 standard errors over hashes: the biased value is another."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 400)
    X = 1.5 * rng.normal(size=(4, 300))[y] / np.sqrt(20) + rng.normal(size=(400, 300))
    exact = cka(X, one_hot(y))
    assert abs(cka(X, one_hot(y), estimator="biased") - exact) > 0.05
    found = np.array(
        [
            TransferStatistics(y, scores=("log_cka",), method="sketch", n_permutations=1, seed=seed)
            .update(X)
            .score()
            .cka
            for seed in range(40)
        ]
    )
    assert abs(found.mean() - exact) < 4 * found.std(ddof=1) / np.sqrt(40)


def test_the_same_seed_gives_the_same_bits_and_a_shared_target_the_same_scores():
    X, y = problem(200)
    target = TransferTarget(y, 64, 9, seed=3)
    settings = {"method": "sketch", "n_buckets": 64, "n_permutations": 9, "seed": 3}
    alone = [TransferStatistics(y, **settings).update(X).score() for _ in range(2)]
    shared = TransferStatistics(target, method="sketch").update(X).score()
    assert values(alone[0])[:6].tolist() == values(alone[1])[:6].tolist() == values(shared)[:6].tolist()


def test_arrays_tensors_batches_and_modules_are_the_same_models():
    X, y = problem(200, 6)
    module = nn.Linear(6, 4).double()
    before = [module.training, *(p.clone() for p in module.parameters())]
    Z = (X @ module.weight.detach().numpy().T + module.bias.detach().numpy()).astype(np.float32)
    reads = 0

    def batches():
        nonlocal reads
        reads += 1
        yield from np.array_split(Z, 7)

    given = {
        "array": Z,
        "tensor": torch.from_numpy(Z),
        "batches": batches(),
        "list": list(batches()),
        "module": module,
    }
    found = transferability(given, y, X, batch_rows=33)
    for name, column in {**found.scores, "p": found.p_values}.items():
        np.testing.assert_allclose(column, column[0], rtol=1e-4, atol=1e-12, err_msg=name)
    assert reads == 2
    assert module.training == before[0]
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), before[1:]))


def test_the_table_is_sorted_printed_and_drawn():
    from krepes.alignment import plot_transferability

    X, y = problem(300, signal=2.0)
    rng = np.random.default_rng(0)
    theta = {"good": one_hot(y) * 0.9 + 0.1 / 3}
    models = {"noise": rng.normal(size=(300, 5)), "constant": np.ones((300, 2)), "good": X}
    found = transferability(models, y, probabilities=theta)
    assert found.ranking == ["good", "noise", "constant"]
    assert found.best == "good"
    assert list(found.scores) == ["log_cka", "logme", "h_score", "leep"]
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines] == ["model", "good", "noise", "constant"]
    assert found.to_frame()["model"].tolist() == found.ranking
    assert np.isnan(found.scores["leep"][:2]).all()
    assert found.scores["leep"][2] == pytest.approx(naive_leep(theta["good"], y), rel=1e-10)
    by_logme = transferability(models, y, rank_by="logme")
    assert by_logme.best == "good"
    assert len(plot_transferability(found).axes) == 4


def test_wide_features_keep_no_square_matrix():
    X, y = problem(100, 40)
    wide = TransferStatistics(y, max_width=39, n_permutations=9).update(X)
    narrow = TransferStatistics(y, max_width=40).update(X)
    assert wide.moments is None
    assert narrow.sketch is None
    assert wide.score().method == "sketch"
    assert np.isnan(wide.score().logme)
