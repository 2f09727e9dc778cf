"""Alignment on bad input: the right answer, or an error that says what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from krepes.alignment import SketchedCKA, StreamedCKA, cka, cka_test, iter_layers, one_hot, stable_rank
from refusals import refuses

X = np.random.default_rng(0).normal(size=(12, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cka(X, X[:5]), ("5 rows", "X", "12")),
        (lambda: cka(X[:3], X[:3]), "4 rows"),
        (lambda: cka(X, np.where(X > 1, np.nan, X)), "NaN"),
        (lambda: cka(X, np.ones((12, 2))), "rows"),
        (lambda: cka(np.full((12, 2), 0.1), X, estimator="biased"), ("X", "rows")),
        (lambda: cka(X, np.eye(12)), ("equally", "far")),
        (lambda: cka(X, X, estimator="debiased"), ("'unbiased'", "'biased'")),
        (lambda: cka(X, X @ X.T, kernel=("linear", "precomputed", "linear")), "one for X and one for Y"),
        (lambda: cka(X, X, kernel="precomputed"), "symmetric"),
        (
            lambda: cka(X[:, 0] * np.eye(12) + np.triu(np.ones((12, 12))), X @ X.T, kernel="precomputed"),
            "symm",
        ),
        (lambda: cka(X, X, kernel="guassian"), "'gaussian'"),
        (lambda: cka(np.empty((4, 0)), X[:4]), "(4, 0)"),
        (lambda: cka_test(X, X, confidence=95), "confidence=95"),
        (lambda: cka_test(X, X, n_permutations=-1), "n_permutations=-1"),
        (lambda: stable_rank(np.ones((5, 2))), ("X", "rows")),
        (lambda: StreamedCKA().score(), "4 rows"),
        (lambda: StreamedCKA().update(X, np.ones((12, 2))).score(), "rows"),
        (lambda: StreamedCKA().update(X, X).update(X[:, :2], X), "(2, 3)"),
        (lambda: StreamedCKA("none"), "estimator='none'"),
        (lambda: one_hot([1, 1]), ("two", "classes")),
        (lambda: one_hot(["a", None]), "missing"),
        (lambda: one_hot([1.0, np.nan]), ("1", "2 labels")),
        (lambda: SketchedCKA(100), ("power", "two")),
        (lambda: SketchedCKA(4, 4), "at least 2"),
        (lambda: SketchedCKA(8).update({"a": X, "b": np.where(X > 1, np.inf, X)}), ("'b'", "NaN")),
        (lambda: SketchedCKA(8).update({"a": X, "b": X[:3]}), ("'b'", "3 rows")),
        (lambda: SketchedCKA(8).update({"a": X}).update({"a": X[:, :2]}, 12), ("2 features", "3")),
        (lambda: SketchedCKA(8).update({"a": X}).merge(SketchedCKA(8, seed=1)), ("seed=0", "seed=1")),
        (lambda: SketchedCKA(8).update({"a": X}).score("a", "b"), ("'b'", "'a'")),
        (
            lambda: SketchedCKA(8).update({"a": X}).update({"b": X}, 12).score("a", "b"),
            "rows",
        ),
        (lambda: next(iter_layers(nn.Linear(3, 2), torch.ones(2, 3), ["1"])), "'1'"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with refuses(ValueError, message):
        call()


def test_text_is_refused():
    with refuses(TypeError, "one_hot"):
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
