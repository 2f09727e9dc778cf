"""Fits from which little can be learned say so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from krepes import KernelEmbedding
from krepes.kernels import Gaussian
from refusals import refuses, warns_of

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))


@pytest.mark.parametrize("kernel", [Gaussian(1e-3), Gaussian(1e-4)], ids=str)
def test_views_that_share_nothing_are_named(kernel):
    """M4: components had deviations of 1e8, without a word."""
    model = KernelEmbedding(4, kernel=kernel, n_landmarks=100, random_state=0)
    with (
        warns_of(UserWarning, "views"),
        refuses(ValueError, "views"),
    ):
        model.fit(X)


@pytest.mark.filterwarnings("ignore:Row 0 lies")
def test_a_row_of_ten_million_leaves_the_others_their_views():
    """M4: with X[0] = 1e7 the views of all rows shared nothing, tr(S) was 3e-37 and the largest value 4e17."""
    rows = rng.normal(size=(1500, 5))
    rows[0] = 1e7
    model = KernelEmbedding(n_landmarks=100, random_state=0).fit(rows)
    assert model.moments_.S_plus.trace().item() > 0.5
    assert np.abs(model.transform(rows)).max() <= 1 + 1e-5  # |<w, phi(x)>| with |w| = 1 and k(x, x) = 1


def test_ordinary_views_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelEmbedding(4, n_landmarks=100, random_state=0).fit(X)


def test_a_descent_that_is_cut_short_says_so():
    """M7: the value was 20 % above the minimum, and nothing said it."""
    model = KernelEmbedding(4, loss="barlow_twins", n_landmarks=60, random_state=0)
    with warns_of(ConvergenceWarning, "max_iter=2"):
        model.set_params(solver__max_iter=2).fit(X)


def test_barlow_twins_on_ordered_pairs_without_a_regulariser():
    """M7: 0.000499 against a minimum of 0.000409, and nothing said it: it says so, and more steps go lower."""
    pairs = X + 0.3 * np.random.default_rng(1).normal(size=X.shape)
    model = KernelEmbedding(
        8, kernel=Gaussian(2.0), loss="barlow_twins", regularization=0.0, n_landmarks=60, random_state=0
    )
    with warns_of(ConvergenceWarning, "max_iter=200"):
        short = model.fit(X, positives=pairs).history_[-1]["total"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        long = model.set_params(solver__max_iter=20_000).fit(X, positives=pairs).history_[-1]["total"]
    assert long < short


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "arc_cosine"])
def test_coverage_of_kernels_that_grow_is_not_a_distance(kernel):
    """M8: "small = unlike anything seen" is false for them: x 10^6 has a coverage of 1; the docstring says so."""
    model = KernelEmbedding(4, kernel=kernel, loss="kernel_pca", n_landmarks=100, random_state=0).fit(X)
    assert (model.coverage(1e6 * X[:3]) > 0.99).all()
    assert "grow with the row" in " ".join(KernelEmbedding.coverage.__doc__.split())
    gaussian = KernelEmbedding(4, loss="kernel_pca", n_landmarks=100, random_state=0).fit(X)
    assert (gaussian.coverage(1e6 * X[:3]) < 1e-6).all()


def test_constant_data_do_not_blame_the_regulariser():
    """M8: there is one feature to learn, whatever the regularization."""
    with warns_of(UserWarning, "rank 1") as found:
        KernelEmbedding(4, n_landmarks=10, random_state=0).fit(np.ones((50, 3)))
    assert not any("regularization" in str(warning.message) for warning in found)
    with refuses(ValueError, "samples", "features"):
        KernelEmbedding(4, loss="kernel_pca", n_landmarks=10, random_state=0).fit(np.ones((50, 3)))
