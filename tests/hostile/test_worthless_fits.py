"""Fits from which little can be learned say so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from krepes import KernelEmbedding
from krepes.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))


@pytest.mark.parametrize("kernel", [Gaussian(1e-3), Gaussian(1e-4)], ids=str)
def test_views_that_share_nothing_are_named(kernel):
    """M4: components had deviations of 1e8, without a word."""
    model = KernelEmbedding(4, kernel=kernel, n_landmarks=100, random_state=0)
    with (
        pytest.warns(UserWarning, match="share almost nothing"),
        pytest.raises(ValueError, match="share almost nothing"),
    ):
        model.fit(X)


def test_ordinary_views_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelEmbedding(4, n_landmarks=100, random_state=0).fit(X)


def test_a_descent_that_is_cut_short_says_so():
    """M7: the value was 20 % above the minimum, and nothing said it."""
    model = KernelEmbedding(4, loss="barlow_twins", n_landmarks=60, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model.set_params(solver__max_iter=2).fit(X)
