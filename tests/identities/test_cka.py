"""CKA: the definition on full Gram matrices, streams, invariances, error estimates."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alignment_oracles import biased_hsic, naive_cka, unbiased_hsic
from krepes.alignment import StreamedCKA, cka, cka_test, one_hot, plot_alignment, stable_rank
from krepes.alignment.similarity.hsic import CentredKernel, hsic, hsic_without_each
from krepes.kernels import Gaussian

every_estimator = pytest.mark.parametrize("estimator", ["unbiased", "biased"])
WIDTHS = [(3, 5), (60, 4), (60, 50)]  # fewer and more features than rows


def related(n: int = 40, d_x: int = 3, d_y: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two representations that share a part, with means far from zero."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 2))
    X = shared @ rng.normal(size=(2, d_x)) + rng.normal(size=(n, d_x)) + 3
    return X, shared @ rng.normal(size=(2, d_y)) + rng.normal(size=(n, d_y)) - 5


@every_estimator
@pytest.mark.parametrize("widths", WIDTHS)
def test_cka_is_its_definition_on_gram_matrices(estimator, widths):
    X, Y = related(40, *widths)
    expected = naive_cka(X @ X.T, Y @ Y.T, estimator)
    assert cka(X, Y, estimator=estimator) == pytest.approx(expected, abs=1e-12)
    assert cka(X @ X.T, Y @ Y.T, estimator=estimator, kernel="precomputed") == pytest.approx(
        expected, abs=1e-12
    )


@every_estimator
def test_any_kernel_and_one_for_each_side(estimator):
    X, Y = related()
    K, L = Gaussian(2.0)(X).numpy(), Y @ Y.T
    found = cka(X, Y, estimator=estimator, kernel=(Gaussian(2.0), "linear"))
    assert found == pytest.approx(naive_cka(K, L, estimator), abs=1e-12)
    by_name = cka(X, Y, estimator=estimator, kernel="gaussian")
    K, L = (Gaussian().fitted(Z)(Z).numpy() for Z in (X, Y))
    assert by_name == pytest.approx(naive_cka(K, L, estimator), abs=1e-12)


@every_estimator
def test_hsic_is_its_definition(estimator):
    X, Y = related()
    K, L = CentredKernel.of_features(X), CentredKernel.of_features(Y)
    naive = {"biased": biased_hsic, "unbiased": unbiased_hsic}[estimator]
    assert hsic(K, L, estimator) == pytest.approx(naive(K.matrix, L.matrix), abs=1e-12)


@every_estimator
@pytest.mark.parametrize("widths", WIDTHS)
def test_the_values_without_a_row_are_those_of_the_other_rows(estimator, widths):
    X, Y = related(40, *widths)
    K, L = CentredKernel.of_features(X), CentredKernel.of_features(Y)
    found = hsic_without_each(K, L, estimator)
    naive = {"biased": biased_hsic, "unbiased": unbiased_hsic}[estimator]
    factor = 38**2 if estimator == "biased" else 39 * 36
    for i in (0, 7, 39):
        rest = np.delete(np.arange(40), i)
        expected = naive(K.matrix[np.ix_(rest, rest)], L.matrix[np.ix_(rest, rest)])
        assert found[i] / factor == pytest.approx(expected, abs=1e-12)


@every_estimator
@pytest.mark.parametrize("widths", WIDTHS)
def test_a_stream_gives_what_all_rows_give(estimator, widths):
    """In batches of any size, merged from parts that began elsewhere, and in any order."""
    X, Y = related(90, *widths)
    Y[:50] += 20  # the first batches are not like the others
    expected = naive_cka(X @ X.T, Y @ Y.T, estimator)
    whole = StreamedCKA(estimator)
    for start in range(0, 90, 37):
        whole.update(X[start : start + 37], Y[start : start + 37])
    assert abs(whole.score() - expected) < 1e-12
    parts = [StreamedCKA(estimator).update(X[rows], Y[rows]) for rows in np.array_split(np.arange(90), 3)]
    merged = (
        StreamedCKA(estimator).merge(parts[2]).merge(parts[0]).merge(parts[1]).merge(StreamedCKA(estimator))
    )
    assert abs(merged.score() - expected) < 1e-12
    assert merged.n_rows == 90


@every_estimator
def test_rotation_scale_and_shift_do_not_matter(estimator):
    X, Y = related(50, 6, 4)
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    assert cka(X, X, estimator=estimator) == pytest.approx(1.0, abs=1e-12)
    assert cka(X, 1e-3 * X @ Q + 7, estimator=estimator) == pytest.approx(1.0, abs=1e-12)
    assert cka(X @ Q, 1e150 * Y, estimator=estimator) == pytest.approx(
        cka(X, Y, estimator=estimator), abs=1e-12
    )
    assert cka(X, Y, estimator=estimator) == pytest.approx(cka(Y, X, estimator=estimator), abs=1e-14)


def test_unrelated_wide_representations_have_no_unbiased_alignment():
    """32 rows of 512 numbers: the biased value is near 1, the unbiased one 0 within 4 standard errors."""
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(32, 512)), rng.normal(size=(32, 512))) for _ in range(60)]
    values = np.array([cka(X, Y) for X, Y in pairs])
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(len(values))
    assert values.std() < 0.1
    assert cka(*pairs[0], estimator="biased") > 0.9


def test_single_precision_far_from_zero_gives_no_nan():
    """Means of 100, spread 0.01: the criterion on uncentred float32 Gram matrices is lost to cancellation."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(64, 8))
    X, Y = (100 + 0.01 * Z).astype(np.float32), (100 + 0.01 * Z[:, :4]).astype(np.float32)
    expected = cka(X.astype(np.float64) - 100, Y.astype(np.float64) - 100)
    assert cka(X, Y) == pytest.approx(expected, abs=1e-9)
    assert StreamedCKA().update(X[:20], Y[:20]).update(X[20:], Y[20:]).score() == pytest.approx(
        expected, abs=1e-9
    )
    assert cka(torch.from_numpy(X), torch.from_numpy(Y - 100).half()) > 0.1


def test_the_jackknife_interval_covers_the_truth():
    """95 % intervals of 300 samples contain the value of the population, within 4 standard errors of 0.95."""
    rng = np.random.default_rng(0)
    truth = cka(*_correlated(rng, 40_000))
    repeats = 80
    hits = 0
    for _ in range(repeats):
        test = cka_test(*_correlated(rng, 300), n_permutations=0)
        hits += test.low <= truth <= test.high
    assert abs(hits / repeats - 0.95) < 4 * np.sqrt(0.95 * 0.05 / repeats)


def _correlated(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    Z = rng.normal(size=(n, 4))
    return Z[:, :3], Z[:, 1:]


@every_estimator
def test_p_values_are_uniform_without_a_relation(estimator):
    rng = np.random.default_rng(0)
    found = [
        cka_test(
            rng.normal(size=(20, 2)),
            rng.exponential(size=(20, 3)),
            estimator=estimator,
            n_permutations=19,
            random_state=rng,
        ).p_value
        for _ in range(80)
    ]
    assert abs(np.mean(np.array(found) <= 0.25) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 80)


def test_a_relation_is_found():
    X, Y = related(60)
    test = cka_test(X, Y, n_permutations=199, random_state=0)
    assert test.p_value == pytest.approx(1 / 200)
    assert test.low < test.value < test.high
    assert test.value == cka(X, Y)
    assert str(test).startswith(f"CKA {test.value:.4f} [")


def test_stable_rank_is_that_of_the_singular_values():
    X = np.random.default_rng(0).normal(size=(30, 8)) * np.arange(1, 9) + 4
    for Z in (X, X.T):
        s = np.linalg.svd(Z - Z.mean(0), compute_uv=False)
        assert stable_rank(Z) == pytest.approx((s**2).sum() / s[0] ** 2, rel=1e-12)
        s = np.linalg.svd(Z, compute_uv=False)
        assert stable_rank(Z, center=False) == pytest.approx((s**2).sum() / s[0] ** 2, rel=1e-12)


def test_a_heat_map_of_many_layers_names_some_of_them():
    """U13: 142 layers made a figure of 52 inches, with names that nobody can read."""
    names = [f"layer {i}" for i in range(142)]
    figure = plot_alignment(np.eye(142), names)
    panel = figure.axes[0]
    assert max(figure.get_size_inches()) < 20
    assert [label.get_text() for label in panel.get_xticklabels()] == names[::4]
    assert [label.get_text() for label in panel.get_yticklabels()] == names[::4]
    assert len(plot_alignment(np.eye(40), names[:40]).axes[0].get_xticklabels()) == 40


def test_one_hot_columns_are_the_sorted_classes():
    assert one_hot(np.array([3, 1, 3])).tolist() == [[0, 1], [1, 0], [0, 1]]
    assert one_hot(torch.tensor([True, False])).tolist() == [[0, 1], [1, 0]]
