"""Explanations are parts of the model: terms add up, and concepts are in them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.explain import (
    Concept,
    attribution,
    class_coverage,
    coefficient_spectrum,
    concept_profile,
    effective_rank,
    explain,
    landmark_norms,
)
from krepes.explain.concept_scores import landmark_representation
from krepes.kernels import Gaussian
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


def test_class_coverage_by_hand():
    model = fitted(landmarks=np.array([3, 5, 8, 40]), kernel=Gaussian(0.3), loss="kernel_pca")
    order = np.argsort(-landmark_norms(model))
    labels = np.full(120, "other")
    labels[np.array([3, 5, 8, 40])[order]] = ["a", "a", "b", "c"]
    found = class_coverage(model, np.where(labels == "other", "a", labels))
    assert (found.kappa, found.ranks, found.missing) == (4, {"a": 1, "b": 3, "c": 4}, [])
    assert 2 < found.by_chance <= 4
    missing = class_coverage(model, labels)
    assert (missing.kappa, missing.missing) == (None, ["other"])
    given = class_coverage(model, np.array([0, 0, 1, 1]), of_landmarks=True)
    assert given.kappa in (2, 3)


def test_class_coverage_by_chance_is_that_of_random_orders():
    """Four classes, one landmark each: kappa is always 4. Two landmarks of two classes: 2 or 3, 1/3 of the time 3."""
    model = fitted(landmarks=np.array([0, 1, 2, 3]), loss="kernel_pca")
    assert class_coverage(model, np.arange(4), of_landmarks=True).by_chance == 4
    assert class_coverage(model, np.array([0, 0, 1, 1]), of_landmarks=True).by_chance == pytest.approx(
        2 + 1 / 3, abs=0.06
    )


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


def test_the_concept_profile(model):
    concept = Concept(X[X[:, 0] > 0.5], X[X[:, 0] < -0.5], n_permutations=5).fit(model)
    profile = concept_profile(model, NEW, concept, n_top=3)
    Z_m = landmark_representation(model)
    assert np.allclose(profile.alignment, (Z_m - concept.origin_) @ concept.direction_)
    lengths = loop(model, NEW, lambda k, a: k * np.linalg.norm(a))
    found = np.take_along_axis(lengths, profile.top.landmarks, 1)
    assert np.allclose(profile.top.values, found, atol=1e-5 * np.abs(lengths).max())
    assert np.allclose(np.abs(found), -np.sort(-np.abs(lengths), axis=1)[:, :3], rtol=1e-4)
    assert np.allclose(profile.scores, profile.alignment[profile.top.landmarks] * profile.top.values)
    assert np.allclose(profile.psi, profile.scores.sum(1))
    parts = attribution(model, NEW, concept)
    expected = np.take_along_axis(parts, profile.top.landmarks, 1)
    assert np.allclose(profile.exact, expected, atol=1e-5 * np.abs(parts).max())
    shift = (concept.origin_ - model.intercept_) @ concept.direction_
    assert np.allclose(profile.sample, profile.exact_total - shift)


def test_objects_are_explained_too():
    words = ["aa", "ab", "bb", "ba", "abab", "bbbb"] * 5
    kernel = lambda X, Y: np.array([[sum(min(x.count(c), y.count(c)) for c in "ab") for y in Y] for x in X])  # noqa: E731
    model = KernelEmbedding(2, kernel=kernel, loss="kernel_pca", n_landmarks=5, random_state=0).fit(words)
    parts = attribution(model, words[:6], 0)
    assert np.allclose(parts.sum(1) + model.intercept_[0], model.transform(words[:6])[:, 0], atol=1e-4)
    assert explain(model, words[:6], 2).landmarks.shape == (6, 2)
