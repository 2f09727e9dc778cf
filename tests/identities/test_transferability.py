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
from krepes.alignment.similarity.augmented_grams import AugmentedGrams
from krepes.alignment.similarity.sketched_cka import Sketches
from krepes.alignment.transfer.left_out import kept_rows
from krepes.regression import LeaveOneOutRidge
from krepes.regression.ridge import ALPHAS
from refusals import refuses
from transfer_oracles import naive_h_score, naive_leep, naive_logme, naive_shrunk_h_score, published_logme

SCORES = ("leave_one_out", "log_cka", "logme", "h_score", "h_score_regularized", "h_score_published")
EXACT = {"scores": SCORES, "method": "exact"}
SKETCH = {"method": "sketch", "n_buckets": 64, "n_permutations": 9}


def problem(n: int = 240, d: int = 7, n_classes: int = 3, signal: float = 0.7, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = signal * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 2
    return X, y


def values(scores) -> np.ndarray:
    names = ("cka", "null_mean", "null_sd", "p_value", "leave_one_out", *SCORES[2:])
    found = np.array([getattr(scores, name) for name in names])
    return found[:5] if scores.method == "sketch" else found


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
    assert h_score(X, y, shrink="total") == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("n", "d"), [(240, 7), (40, 90), (50, 1), (60, 2)])
def test_the_default_h_score_is_its_definition(n, d):
    X, y = problem(n, d)
    expected = naive_shrunk_h_score(X, y)
    assert h_score(X, y) == pytest.approx(expected, rel=1e-9)
    assert 0 < expected < 2


@pytest.mark.parametrize("seed", range(3))
def test_nearly_isotropic_features_keep_their_h_score_on_many_rows(seed):
    """n >> d: the score without shrinkage, within 1 %; the regularised one is lost, for a is near 1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 8000)
    X = rng.normal(size=(8000, 4))
    X[:, 0] = 0.6 * X[:, 0] + 0.8 * (2 * y - 1)
    assert h_score(X, y, shrink=False) == pytest.approx(0.64, abs=0.02)
    assert h_score(X, y) == pytest.approx(h_score(X, y, shrink=False), rel=0.01)
    assert h_score(X[:2000], y[:2000]) == pytest.approx(h_score(X[:2000], y[:2000], shrink=False), rel=0.02)
    assert h_score(X, y, shrink="total") < 0.5


@pytest.mark.parametrize(("n", "d", "n_classes"), [(30, 100, 3), (60, 59, 2), (40, 400, 10), (200, 5, 10)])
def test_the_h_score_is_about_zero_by_chance_and_at_most_the_classes_minus_one(n, d, n_classes):
    """Noise of any width; the published score is K - 1 for it where d >= n."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    noise = [rng.normal(size=(n, d)) for _ in range(20)]
    assert 0 <= np.mean([h_score(X, y) for X in noise]) < 0.1 * (n_classes - 1)
    assert h_score(noise[0], y, shrink=False) > 2 * h_score(noise[0], y) + 0.1
    apart = h_score(noise[0] + 100 * rng.normal(size=(n_classes, d))[y], y)
    assert 0.95 * min(d, n_classes - 1) < apart <= n_classes - 1
    assert h_score(np.eye(n_classes)[y], y) == pytest.approx(n_classes - 1)


def test_no_class_with_two_rows_has_no_h_score():
    assert np.isnan(h_score(np.eye(4), np.arange(4)))
    with refuses(ValueError, "shrink='within'"):
        h_score(np.eye(4), np.arange(4), shrink="within")


def test_leep_is_its_definition():
    rng = np.random.default_rng(0)
    theta, y = rng.dirichlet(np.ones(5), size=40), rng.integers(0, 3, 40)
    assert leep(theta, y) == pytest.approx(naive_leep(theta, y), rel=1e-12)


def test_exact_cka_is_the_unbiased_one():
    X, y = problem()
    scores = TransferStatistics(y).update(X).score()
    assert (scores.method, scores.cka) == ("exact", pytest.approx(cka(X, one_hot(y)), rel=1e-12))
    assert scores.log_cka == np.log(scores.cka)


@pytest.mark.parametrize("settings", [EXACT, SKETCH], ids=["exact", "sketch"])
def test_batches_order_and_merging_do_not_change_a_score(settings):
    """Sums over rows are the same in any batches; rows keep their labels by their index."""
    X, y = problem(300)
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


@pytest.mark.parametrize("settings", [EXACT, SKETCH], ids=["exact", "sketch"])
def test_rotations_and_a_common_scale_change_nothing(settings):
    X, y = problem(300, 6)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    first, rotated, scaled = (
        TransferStatistics(y, **settings).update(Z).score() for Z in (X, X @ Q, 1000 * X)
    )
    np.testing.assert_allclose(values(rotated), values(first), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(values(scaled), values(first), rtol=1e-8, atol=1e-12)


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
    assert values(alone[0]).tolist() == values(alone[1]).tolist() == values(shared).tolist()


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
    assert found.ranking[0] == "good"
    assert list(found.scores) == ["leave_one_out", "log_cka", "logme", "h_score", "leep"]
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["model", "good", "noise", "constant"]
    assert found.to_frame()["model"].tolist() == found.ranking
    assert np.isnan(found.scores["leep"][:2]).all()
    assert found.scores["leep"][2] == pytest.approx(naive_leep(theta["good"], y), rel=1e-10)
    by_logme = transferability(models, y, rank_by="logme")
    assert by_logme.ranking[0] == "good"
    assert len(plot_transferability(found).axes) == 5


def test_wide_features_keep_no_square_matrix():
    X, y = problem(100, 40)
    wide = TransferStatistics(y, max_width=39, n_permutations=9).update(X)
    narrow = TransferStatistics(y, max_width=40).update(X)
    assert isinstance(wide.result().features, Sketches)
    assert isinstance(narrow.result().features, AugmentedGrams)
    assert wide.score().method == "sketch"
    assert np.isnan(wide.score().logme)
    for names in (None, ("log_cka",)):
        sketched = TransferStatistics(y, scores=names, method="sketch", n_permutations=9).update(X)
        assert isinstance(sketched.result().features, Sketches)
    assert list(transferability({"x": X}, y, method="sketch").scores) == ["leave_one_out", "log_cka"]


def test_the_printed_table_says_how_each_number_was_found_and_leaves_undefined_ones_blank():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    other = np.eye(3)[(y + np.arange(24) // 3) % 3]  # less alike than chance
    models = {
        "wide": np.eye(3)[y] @ rng.normal(size=(3, 40)),
        "other": other,
        "constant": np.ones((24, 2)),
    }
    text = str(transferability(models, y, max_width=20, n_buckets=16))
    assert [line.split()[-1] for line in text.splitlines()[:3]] == ["by", "sketch", "exact"]
    assert "nan" not in text
    assert "inf" not in text
    assert "CKA ≤ 0: " in text
    assert "permuted labels" in text
    plain = str(transferability({"wide": models["wide"]}, y))
    assert "CKA by" not in plain
    assert len(plain.splitlines()) == 2


def without_each_row(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether each row is predicted right by a ridge regression of all others, penalty by their left-out errors."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Y, n = one_hot(y), len(X)
    units = np.square(Z).sum() / min(n - 1, Z.shape[1])
    found = {}
    for alpha in ALPHAS:
        predicted = np.empty_like(Y)
        for i in range(n):
            others = np.arange(n) != i
            mean, centre = Y[others].mean(axis=0), Z[others].mean(axis=0)
            F = Z[others] - centre
            W = np.linalg.solve(F.T @ F + alpha * units * np.eye(F.shape[1]), F.T @ (Y[others] - mean))
            predicted[i] = mean + (Z[i] - centre) @ W
        found[np.square(predicted - Y).sum()] = predicted.argmax(axis=1) == Y.argmax(axis=1)
    return found[min(found)]


@pytest.mark.parametrize(("n", "d"), [(60, 5), (25, 40)], ids=["d<n", "d>n"])
def test_left_out_accuracy_is_that_of_fits_without_each_row(n, d):
    X, y = problem(n, d, signal=1.5)
    found = TransferStatistics(y).update(X).score()
    np.testing.assert_array_equal(found.left_out.right, without_each_row(X, y))
    assert found.leave_one_out == found.left_out.right.mean()


def test_left_out_rows_are_the_same_however_features_arrive(monkeypatch):
    monkeypatch.setitem(kept_rows.__globals__, "MOST_ROWS", 60)
    X, y = problem()
    whole = TransferStatistics(y).update(X).score()
    first, second = (
        TransferStatistics(y).update(X[:100]),
        TransferStatistics(y).update(X[100:], first_row=100),
    )
    parts = second.merge(first).score()
    assert len(whole.left_out.rows) == 60
    np.testing.assert_array_equal(parts.left_out.rows, whole.left_out.rows)
    np.testing.assert_array_equal(parts.left_out.right, whole.left_out.right)
    assert parts.leave_one_out == whole.leave_one_out


def test_models_that_rows_left_out_cannot_tell_apart_are_level():
    X, y = problem(300, signal=2.0)
    rng = np.random.default_rng(0)
    models = {"noise": rng.normal(size=(300, 5)), "good": X, "as good": X @ rng.normal(size=(7, 7))}
    found = transferability(models, y)
    assert set(found.level) == {"good", "as good"}
    assert found.ranking[-1] == "noise"
    assert "cannot tell these apart" in str(found)
    assert not transferability(models, y, scores=("logme",)).level


def test_the_standard_error_of_left_out_accuracy_holds_the_accuracy_on_new_rows():
    """Within two standard errors in at least 90 % of draws; 60 rows to learn from, 4000 to test on."""
    hits = []
    for seed in range(60):
        X, y = problem(4060, signal=0.7, seed=seed)
        found = TransferStatistics(y[:60]).update(X[:60]).score()
        ridge = LeaveOneOutRidge().fit(X[:60], one_hot(y)[:60])
        tested = (ridge.predict(X[60:]).argmax(axis=1) == y[60:]).mean()
        hits.append(abs(found.leave_one_out - tested) <= 2 * found.leave_one_out_error)
    assert np.mean(hits) >= 0.9
