"""Explanations refuse what makes no sense, and say what would."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from krepes import KernelEmbedding
from krepes.explain import (
    Concept,
    attribution,
    class_direction,
    explain,
)
from refusals import refuses

X = np.random.default_rng(0).standard_normal((40, 3))
MODEL = KernelEmbedding(4, n_landmarks=10, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("direction", "message"),
    [
        (4, ("components 0", "3")),
        (np.ones(3), ("(3,)", "(4,)")),
        (np.ones((4, 1)), "expected"),
        ([np.nan, 0, 0, 0], "NaN"),
        (Concept(X, X), "concept.fit"),
    ],
    ids=["component", "short", "matrix", "NaN", "unfitted concept"],
)
def test_directions(direction, message):
    with refuses(ValueError, message):
        attribution(MODEL, X, direction)


@pytest.mark.parametrize("n_top", [0, -1, 2.5, True, "3"])
def test_numbers_of_landmarks(n_top):
    with refuses(ValueError, "n_top="):
        explain(MODEL, X, n_top)


def test_unfitted_models_and_other_columns():
    with refuses((NotFittedError, AttributeError), "KernelEmbedding", "fitted"):
        explain(KernelEmbedding(), X)
    with refuses(ValueError, "features"):
        explain(MODEL, X[:, :2])


def test_classes_of_a_probe():
    class Probe:
        coef_, classes_ = np.eye(3, 4), np.array(["a", "b", "c"])

    assert class_direction(Probe, "a").shape == (4,)
    with refuses(ValueError, "'d'"):
        class_direction(Probe, "d")


@pytest.mark.parametrize(
    ("concept", "message"),
    [
        (Concept(), ("positives=", "negatives=")),
        (Concept(X[:2], X), "2 rows"),
        (Concept(X, X[:3]), "3 rows"),
        (Concept(X, X, method="lda"), "method='lda'"),
        (Concept(X[:5], X[:5], method="mean_difference"), "representation"),
    ],
    ids=["nothing", "few positives", "few negatives", "method", "no difference"],
)
def test_concepts(concept, message):
    with refuses(ValueError, message):
        concept.fit(MODEL)


def test_directions_need_a_fitted_concept():
    with refuses(ValueError, "concept.fit(model)"):
        attribution(MODEL, X, Concept(X[:10], X[10:20]))
    with pytest.raises(NotFittedError):
        Concept(X[:10], X[10:20]).scores(MODEL.transform(X))
