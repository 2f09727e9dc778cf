"""Kernels of histograms, series, mixed rows and columns equal naive loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import chi2_kernel

import kernel_oracles as oracles
from krepes import TableEncoder
from krepes.kernels import (
    ChiSquared,
    ColumnKernel,
    Custom,
    Gaussian,
    GlobalAlignment,
    Gower,
    Intersection,
    Laplacian,
    Linear,
    RandomWarping,
    distances,
)
from krepes.kernels.structured import random_warping
from krepes.kernels.structured import series as alignment
from krepes.preprocessing import InputSpace
from labels import label
from structured_kernels import histograms, letters_in_common, mixed, records, series, vectors
from tolerances import assert_same


@pytest.fixture(params=["compiled", "plain"])
def loops(request, monkeypatch):
    """With numba, where it is installed, and without it."""
    if request.param == "plain":
        monkeypatch.setattr(distances, "compiled", lambda *_: None)
        for module in (alignment, random_warping):
            monkeypatch.setattr(module, "compiled", lambda *_: None)


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (ChiSquared(3.0), lambda x, y: math.exp(-oracles.chi_squared(x, y) / 3.0)),
        (ChiSquared(additive=True), lambda x, y: sum(2 * a * b / (a + b) for a, b in zip(x, y) if a + b > 0)),
        (Intersection(), lambda x, y: sum(min(a, b) for a, b in zip(x, y))),
    ],
    ids=label,
)
def test_histogram_kernels(kernel, formula, loops):
    X, Y = histograms(), histograms()[3:10]
    assert_same(kernel(X, Y), oracles.matrix(formula, X, Y))


def test_chi_squared_is_that_of_scikit_learn():
    X = histograms()
    assert_same(ChiSquared(2.0)(X), torch.from_numpy(chi2_kernel(X.numpy(), gamma=0.5)))


def test_the_median_of_chi_squared_has_similarity_one_over_e():
    X = histograms()[:-1]
    lengths = [oracles.chi_squared(X[i].numpy(), X[j].numpy()) for i in range(len(X)) for j in range(i)]
    assert ChiSquared().fitted(X).lengthscale == pytest.approx(np.median(lengths))
    assert ChiSquared("2 median").fitted(X).lengthscale == pytest.approx(2 * np.median(lengths))


@pytest.mark.parametrize("triangular", [None, 3])
@pytest.mark.parametrize("lengthscale", [0.02, 1.0, 5.0])  # the first needs logarithms
def test_global_alignment_sums_over_all_alignments(lengthscale, triangular, loops):
    X = series(15)
    K = GlobalAlignment(lengthscale, triangular)(X, X[:6])
    expected = [[oracles.global_alignment(x, y, lengthscale, triangular) for y in X[:6]] for x in X]
    assert_same(K, torch.tensor(expected, dtype=torch.float64))


def test_long_series_stay_in_range(loops):
    """G grows beyond every floating-point number; its logarithm is that of the formula in exact arithmetic."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(450, 1)).cumsum(0) for _ in range(2))
    logs = alignment.alignments([x], [x, y], 50.0, 0)
    assert logs[0, 0] > 720  # exp of it is infinite
    assert logs[0] == pytest.approx([oracles.log_alignments(x, z, 50.0, None) for z in (x, y)], rel=1e-12)


def test_a_pair_that_loses_digits_is_computed_with_logarithms():
    """Two plateaus in opposite order: every alignment passes through points that are very unlike."""
    x = np.repeat([0.0, 100.0], 40)[:, None]
    found = alignment.alignments([x], [x[::-1].copy()], 1.0, 0)[0, 0]
    assert found == pytest.approx(oracles.log_alignments(x, x[::-1], 1.0, None), rel=1e-12)
    assert np.isfinite(found)


def test_global_alignment_is_definite_where_rows_are_hardly_alike():
    """kappa / (1 + kappa) = k / 2 is definite, whatever the lengthscale."""
    for lengthscale in (0.1, 0.5, 3.0):
        assert torch.linalg.eigvalsh(GlobalAlignment(lengthscale)(series(60, 1)))[0] > -1e-12


def test_global_alignment_of_equal_lengths_as_an_array():
    X = vectors()
    listed = [row[:, None].numpy() for row in X]
    assert_same(GlobalAlignment(2.0)(X), GlobalAlignment(2.0)(listed))
    assert_same(GlobalAlignment(2.0)(X[:, :, None]), GlobalAlignment(2.0)(listed))


def test_random_warping_is_an_inner_product_of_warped_distances(loops):
    X = series(12)
    kernel = RandomWarping(n_series=15, max_length=6, seed=3).fitted(X)
    random = kernel.random_series(2)
    assert {len(w) for w in random} <= set(range(1, 7))
    assert kernel.scale == pytest.approx(np.sqrt(np.mean(np.concatenate(X) ** 2)))
    features = np.array([[oracles.warped_distance(x, w) / len(x) for w in random] for x in X])
    assert_same(kernel(X), torch.from_numpy(features @ features.T / 15))
    assert not torch.equal(RandomWarping(15, 6, kernel.scale, seed=4)(X), kernel(X))


TABLE = {
    "age": [20.0, 40.0, None, 60.0, 35.0, None],
    "weight": [3.0, 1.0, 2.0, 8.0, 5.0, 4.0],
    "city": ["a", "b", "a", None, "c", None],
    "sex": ["f", "f", "m", "m", "f", "m"],
}


@pytest.mark.parametrize("combine", ["product", "mean"])
@pytest.mark.parametrize("profile", ["laplacian", "gaussian"])
def test_gower_compares_the_columns_of_a_table_one_by_one(combine, profile, loops):
    encoder = TableEncoder(dtype="float64", min_frequency=0).fit(TABLE)
    inputs = InputSpace("table", encoder=encoder)
    X = inputs.tensor(encoder._source(TABLE).take(np.arange(6)), torch.float64)
    K = Gower(0.8, combine, profile, missing=0.6).suited(inputs.layout)(X)
    deviations = {name: np.std([v for v in TABLE[name] if v is not None]) for name in ("age", "weight")}
    may_miss = {name for name, values in TABLE.items() if None in values}
    rows = [dict(zip(TABLE, values)) for values in zip(*TABLE.values())]
    expected = [
        [oracles.gower(x, y, 0.8, combine, profile, 0.6, deviations, may_miss) for y in rows] for x in rows
    ]
    assert_same(K, torch.tensor(expected, dtype=torch.float64))


def test_leaving_missing_columns_out_is_not_definite():
    """Gower's own rule, a column counts as equal where it is missing: the reason why it is not the rule here."""
    K = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert torch.linalg.eigvalsh(K)[0] < -0.4


def test_gower_of_numbers_is_a_product_of_laplacians_or_gaussians():
    X = vectors()
    assert_same(Gower().fitted(X)(X), Laplacian(norm=1).fitted(X)(X))
    assert_same(Gower(profile="gaussian").fitted(X)(X), Gaussian().fitted(X)(X))
    assert Gower(combine="mean").fitted(X).lengthscale == pytest.approx(Gower().fitted(X).lengthscale / 4)


def test_column_kernels_are_sums_and_products_of_kernels_of_columns():
    X = vectors()
    first, last = Gaussian(0.7)(X[:, :2]), Linear()(X[:, [3]])
    parts = [("first", Gaussian(0.7), slice(0, 2)), ("last", Linear(), -1)]
    assert_same(ColumnKernel(parts)(X), first + last)
    assert_same(ColumnKernel(parts, weights=[2.0, 0.5])(X), 2 * first + 0.5 * last)
    assert_same(ColumnKernel(parts, "product")(X), first * last)


def test_column_kernels_of_records():
    rows = records()
    numbers = torch.tensor([[row["a"], row["b"]] for row in rows], dtype=torch.float64)
    words = [row["word"] for row in rows]
    kernel = ColumnKernel({"a,b": Gaussian(0.7), "word": Custom(letters_in_common)})
    assert_same(kernel(rows), Gaussian(0.7)(numbers) + Custom(letters_in_common)(words))
    tuples = [(row["a"], row["word"], row["b"]) for row in rows]
    by_place = ColumnKernel([("n", Gaussian(0.7), [0, 2]), ("w", Custom(letters_in_common), 1)])
    assert_same(by_place(tuples), kernel(rows))


def test_every_part_is_fitted_to_its_columns():
    X = vectors() * torch.tensor([1.0, 1.0, 1.0, 100.0])
    fitted = ColumnKernel([("small", Gaussian(), [0, 1]), ("large", Gaussian(), 3)]).fitted(X)
    assert fitted.get_params()["small__lengthscale"] == Gaussian().fitted(X[:, :2]).lengthscale
    assert fitted.get_params()["large__lengthscale"] == Gaussian().fitted(X[:, 3:]).lengthscale


def test_mixed_rows_have_no_negative_eigenvalues_whatever_is_missing():
    X = mixed(200)
    assert X[:, 1].any()
    for seed in range(3):
        X = X[torch.randperm(200, generator=torch.Generator().manual_seed(seed))]
        layout = [{"category": False, "places": [0], "missing": 1}]
        assert torch.linalg.eigvalsh(Gower(0.5, missing=0.9, layout=layout)(X))[0] > -1e-12
