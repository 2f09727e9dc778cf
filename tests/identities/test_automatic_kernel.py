"""The kernel that is chosen where none is named, and lengthscales as multiples of the median."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import krepes
from krepes import KernelEmbedding
from krepes.kernels import Automatic, Gaussian, Laplacian, Linear, as_kernel
from krepes.kernels.automatic import MOST_COLUMNS
from refusals import refuses

RNG = np.random.default_rng(0)


def fitted(X, **parameters) -> KernelEmbedding:
    return KernelEmbedding(3, n_landmarks=20, loss="kernel_pca", random_state=0, **parameters).fit(X)


def median_of(X: np.ndarray, order: int) -> float:
    """The median distance of all pairs, pair by pair."""
    pairs = [(i, j) for i in range(len(X)) for j in range(i)]
    return float(np.median([np.linalg.norm(X[i] - X[j], ord=order) for i, j in pairs]))


def test_arrays_of_few_columns_have_an_l1_kernel_and_others_a_gaussian_one():
    narrow, wide = RNG.normal(size=(60, MOST_COLUMNS)), RNG.normal(size=(60, MOST_COLUMNS + 1))
    few, many = fitted(narrow).kernel_, fitted(wide).kernel_
    assert few.get_params() == {"lengthscale": pytest.approx(median_of(narrow, 1)), "norm": 1}
    assert isinstance(many, Gaussian)
    assert many.lengthscale == pytest.approx(median_of(wide, 2) / np.sqrt(2))
    assert isinstance(fitted(RNG.random((40, 5, 5))).kernel_, Gaussian)


def test_tables_of_categories_alone_have_a_long_lengthscale():
    levels = RNG.choice(list("abc"), size=(80, 4))
    of_text = fitted(pd.DataFrame(levels, columns=list("pqrs"))).kernel_
    mismatches = [(levels[i] != levels[j]).sum() for i in range(80) for j in range(i)]
    assert of_text.lengthscale == pytest.approx(
        32 * 2 * np.median(mismatches)
    )  # one-hot: two columns per mismatch
    mixed = pd.DataFrame(levels, columns=list("pqrs")).assign(size=RNG.normal(size=80))
    assert fitted(mixed).kernel_.lengthscale < 32
    wide = pd.DataFrame(RNG.choice(list("abcdefgh"), size=(300, 20)))
    gaussian = fitted(wide.rename(columns=str)).kernel_
    assert isinstance(gaussian, Gaussian)
    assert float(gaussian(np.zeros((1, 1)), np.full((1, 1), gaussian.lengthscale * np.sqrt(2) / 5.66))) == (
        pytest.approx(np.exp(-1 / 32), rel=1e-3)
    )


def test_a_lengthscale_of_its_own_stays():
    given = fitted(RNG.normal(size=(40, 3)), kernel=Automatic(2.5)).kernel_
    assert given.get_params() == {"lengthscale": 2.5, "norm": 1}
    model = KernelEmbedding(3, n_landmarks=20, random_state=0).set_params(kernel__lengthscale=2.5)
    assert model.fit(RNG.normal(size=(40, 3))).kernel_.get_params() == {"lengthscale": 2.5, "norm": 1}


@pytest.mark.parametrize("kernel", [Gaussian, Laplacian])
def test_multiples_of_the_median(kernel):
    X = torch.randn(30, 4)
    one, four = (kernel(rule).fitted(X).lengthscale for rule in ("median", "4 median"))
    assert four == pytest.approx(4 * one)
    for wrong in (
        "median 4",
        "0 median",
        "-1 median",
        "nan median",
        "inf median",
        "x median",
        "4 medians",
        "",
        "mean",
    ):
        with refuses(ValueError, "positive", "number"):
            kernel(wrong).fitted(X)


def test_auto_says_that_it_depends_on_data():
    for use in (lambda k: k(np.eye(2)), lambda k: k.diag(np.eye(2)), lambda k: (k + Linear())(np.eye(2))):
        with refuses(ValueError, "depends", "data"):
            use(as_kernel("auto"))
    assert as_kernel("auto").fitted(np.eye(3)).norm == 1


def test_files_keep_auto_and_what_it_became(tmp_path):
    X = RNG.normal(size=(50, 4))
    model = fitted(X)
    model.save(tmp_path / "m.krepes")
    again = krepes.load(tmp_path / "m.krepes")
    assert again.kernel == "auto"
    assert again.kernel_.get_params() == model.kernel_.get_params()
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
