"""Explanations are parts of the model: terms add up, and concepts are in them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.explain import (
    Concept,
    attribution,
    coefficient_spectrum,
    effective_rank,
    explain,
    landmark_norms,
)
from krepes.landmarks import Uniform

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 5))
NEW = RNG.standard_normal((17, 5))


def fitted(**settings):
    defaults = {"n_landmarks": 20, "random_state": 0, "dtype": "float64"}
    return KernelEmbedding(4, **{**defaults, **settings}).fit(X)


MODELS = {
    "plain": fitted(),
    "float32": fitted(dtype="float32"),
    "views of landmarks": fitted(landmarks=Uniform(views_per_landmark=2)),
    "negative kernel values": fitted(kernel="linear", loss="kernel_pca"),
    "trained": fitted(loss="simclr", solver="sgd"),
}


@pytest.fixture(params=MODELS, scope="module")
def model(request):
    return MODELS[request.param]


def centres(model):
    """Landmark positions 0..m-1 of every centre."""
    m = len(model.landmarks_) // model.views_per_landmark_
    return np.arange(len(model.landmarks_)) % m, m


def loop(model, rows, value):
    """value(k(x, x_l), a_l) summed over the centres of every landmark, one by one."""
    owners, m = centres(model)
    found = np.zeros((len(rows), m))
    points = model.input_space_.tensor(rows, torch.float64)
    for i, x in enumerate(points):
        for j, landmark in enumerate(model.landmarks_.double()):
            k = model.kernel_(x[None], landmark[None]).item()
            found[i, owners[j]] += value(k, model.coefficients_[j].astype(np.float64))
    return found


def tolerance(model):
    return {"float64": 1e-12, "float32": 1e-5}[model.dtype]


@pytest.mark.parametrize("direction", [0, -1, RNG.standard_normal(4)], ids=["first", "last", "vector"])
def test_contributions_add_up_to_the_representation(model, direction):
    parts = attribution(model, NEW, direction)
    v = np.eye(4)[direction] if isinstance(direction, int) else direction
    expected = model.transform(NEW).astype(np.float64) @ v
    scale = np.abs(parts).sum(1) + np.abs(model.intercept_ @ v)
    assert np.abs(parts.sum(1) + model.intercept_ @ v - expected).max() <= (tolerance(model) * scale).max()
    assert np.allclose(parts, loop(model, NEW, lambda k, a: k * (a @ v)), atol=1e-5 * scale.max())


@pytest.mark.parametrize("method", ["svm", "mean_difference"])
def test_a_known_concept_direction_is_found(method):
    """Representations in which the concept is a shift along v: the angle is below 5 degrees."""
    rng = np.random.default_rng(1)
    v = rng.standard_normal(10)
    v /= np.linalg.norm(v)
    Z = rng.standard_normal((6000, 10)) + 5.0
    has = np.arange(6000) < 2000
    Z[has] += 3 * v
    concept = Concept(method=method, n_permutations=20).fit_representation(Z[has], Z[~has])
    angle = np.degrees(np.arccos(min(1.0, concept.direction_ @ v)))
    assert angle < 5
    assert abs(np.linalg.norm(concept.direction_) - 1) < 1e-12
    assert concept.accuracy_ > 0.9
    assert concept.p_value_ == pytest.approx(1 / 21)
    assert concept.stability_ > 0.98
    assert concept.scores(Z[has]).mean() == pytest.approx(3, abs=0.2)
    assert abs(concept.scores(Z[~has]).mean()) < 1e-9


def test_a_concept_of_nothing_is_seen_as_such():
    """Two random halves: accuracy near chance, a large p-value in most draws."""
    rng = np.random.default_rng(0)
    values = []
    for draw in range(10):
        Z = rng.standard_normal((60, 8))
        concept = Concept(n_permutations=19, n_resamples=2, random_state=draw).fit_representation(
            Z[:30], Z[30:]
        )
        values.append((concept.accuracy_, concept.p_value_))
    accuracies, p_values = np.array(values).T
    assert abs(accuracies.mean() - 0.5) < 0.1
    assert (p_values > 0.05).mean() >= 0.7


def test_spectrum_and_effective_rank(model):
    values = coefficient_spectrum(model)
    singular = np.linalg.svd(model.coefficients_.astype(np.float64), compute_uv=False)
    assert np.allclose(values[: len(singular)], singular**2, rtol=1e-5, atol=1e-9 * values[0])
    assert 1 <= effective_rank(values) <= 4
    assert effective_rank(np.zeros(3)) == 0.0


def test_norms_of_landmarks_are_over_all_their_views(model):
    owners, m = centres(model)
    squares = np.square(model.coefficients_.astype(np.float64)).sum(1)
    expected = np.sqrt([squares[owners == landmark].sum() for landmark in range(m)])
    assert np.allclose(landmark_norms(model), expected)


def test_terms_add_up_to_a_concept(model):
    concept = Concept(X[X[:, 0] > 0.5], X[X[:, 0] < -0.5], n_permutations=5).fit(model)
    parts = attribution(model, NEW, concept)
    shift = (concept.origin_ - model.intercept_) @ concept.direction_
    scale = np.abs(parts).sum(1).max()
    assert np.allclose(
        parts.sum(1) - shift, concept.scores(model.transform(NEW)), atol=tolerance(model) * scale
    )


def test_objects_are_explained_too():
    words = ["aa", "ab", "bb", "ba", "abab", "bbbb"] * 5
    kernel = lambda X, Y: np.array([[sum(min(x.count(c), y.count(c)) for c in "ab") for y in Y] for x in X])  # noqa: E731
    model = KernelEmbedding(2, kernel=kernel, loss="kernel_pca", n_landmarks=5, random_state=0).fit(words)
    parts = attribution(model, words[:6], 0)
    assert np.allclose(parts.sum(1) + model.intercept_[0], model.transform(words[:6])[:, 0], atol=1e-4)
    assert explain(model, words[:6], 2).landmarks.shape == (6, 2)
