"""Alignment on bad input: the right answer, or an error that says what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from krepes.alignment import SketchedCKA, StreamedCKA, cka, cka_test, iter_layers, one_hot, stable_rank

X = np.random.default_rng(0).normal(size=(12, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cka(X, X[:5]), "Y has 5 rows and X has 12"),
        (lambda: cka(X[:3], X[:3]), "at least 4 rows"),
        (lambda: cka(X, np.where(X > 1, np.nan, X)), "Y has NaN or infinite values in"),
        (lambda: cka(X, np.ones((12, 2))), "All rows of Y are the same"),
        (lambda: cka(np.full((12, 2), 0.1), X, estimator="biased"), "All rows of X are the same"),
        (lambda: cka(X, np.eye(12)), "equally far"),
        (lambda: cka(X, X, estimator="debiased"), "expected 'unbiased' or 'biased'"),
        (lambda: cka(X, X @ X.T, kernel=("linear", "precomputed", "linear")), "one for X and one for Y"),
        (lambda: cka(X, X, kernel="precomputed"), "symmetric and n x n"),
        (
            lambda: cka(X[:, 0] * np.eye(12) + np.triu(np.ones((12, 12))), X @ X.T, kernel="precomputed"),
            "not symm",
        ),
        (lambda: cka(X, X, kernel="guassian"), "Did you mean 'gaussian'"),
        (lambda: cka(np.empty((4, 0)), X[:4]), r"shape \(4, 0\)"),
        (lambda: cka_test(X, X, confidence=95), "confidence=95"),
        (lambda: cka_test(X, X, n_permutations=-1), "n_permutations=-1"),
        (lambda: stable_rank(np.ones((5, 2))), "All rows of X are the same"),
        (lambda: StreamedCKA().score(), "at least 4 rows"),
        (lambda: StreamedCKA().update(X, np.ones((12, 2))).score(), "All rows of Y are the same"),
        (lambda: StreamedCKA().update(X, X).update(X[:, :2], X), r"\(2, 3\) features"),
        (lambda: StreamedCKA("none"), "estimator='none'"),
        (lambda: one_hot([1, 1]), "at least two classes"),
        (lambda: one_hot(["a", None]), "missing"),
        (lambda: one_hot([1.0, np.nan]), "1 of 2 labels are missing"),
        (lambda: SketchedCKA(100), "power of two"),
        (lambda: SketchedCKA(4, 4), "at least 2"),
        (lambda: SketchedCKA(8).update({"a": X, "b": np.where(X > 1, np.inf, X)}), "'b' has NaN or infinite"),
        (lambda: SketchedCKA(8).update({"a": X, "b": X[:3]}), "'b' has 3 rows"),
        (lambda: SketchedCKA(8).update({"a": X}).update({"a": X[:, :2]}, 12), "2 features, but had 3 before"),
        (lambda: SketchedCKA(8).update({"a": X}).merge(SketchedCKA(8, seed=1)), "seed=0 and seed=1"),
        (lambda: SketchedCKA(8).update({"a": X}).score("a", "b"), "'b' was not seen yet; seen so far: 'a'"),
        (
            lambda: SketchedCKA(8).update({"a": X}).update({"b": X}, 12).score("a", "b"),
            "not seen the same rows",
        ),
        (lambda: next(iter_layers(nn.Linear(3, 2), torch.ones(2, 3), ["1"])), "'1' is not a part"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_text_is_refused():
    with pytest.raises(TypeError, match="one_hot"):
        cka(X, np.array(["a"] * 12))


def test_inputs_are_not_changed():
    kept = X.copy()
    cka_test(X, X[:, :2], n_permutations=3)
    StreamedCKA().update(X, X[:, :2]).score()
    SketchedCKA(8).update({"x": X}).table()
    assert np.array_equal(X, kept)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_the_scale_of_the_data_does_not_matter(scale):
    Y = X[:, :2]
    assert cka(scale * X, Y) == pytest.approx(cka(X, Y), abs=1e-12)
    assert stable_rank(scale * X) == pytest.approx(stable_rank(X), rel=1e-12)


def test_a_single_column_may_be_a_vector():
    assert cka(X[:, 0], X[:, 1]) == cka(X[:, [0]], X[:, [1]])
