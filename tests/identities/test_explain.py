"""Explanations are parts of the model: contributions add up, influences are a loop, removals are a smaller model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.evaluation import linear_probe
from krepes.explain import (
    Concept,
    attribution,
    class_coverage,
    class_direction,
    coefficient_spectrum,
    concept_profile,
    contrast,
    effective_rank,
    influence,
    landmark_norms,
    leave_out,
    top_attribution,
    top_influence,
    top_leave_out,
)
from krepes.explain.concept_scores import landmark_representation
from krepes.kernels import Gaussian, Linear
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


def test_contributions_between_samples_and_for_a_class(model):
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    probe = linear_probe(model.transform(X), y, model.transform(X), y).model
    v = class_direction(probe, 2)
    scores = probe.decision_function(model.transform(NEW))
    margins = scores[:, 2] - scores[:, :2].mean(1)
    parts = contrast(model, NEW, NEW[:1], v)
    assert np.allclose(parts.sum(1), margins - margins[0], atol=1e-3 * np.abs(parts).sum(1).max())
    against = class_direction(probe, 2, against=0)
    assert np.allclose(against, probe.coef[2] - probe.coef[0])


def test_influence_equals_a_loop(model):
    expected = loop(model, NEW, lambda k, a: k * np.linalg.norm(a))
    found = influence(model, NEW)
    assert np.allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("top", "everything"), [(top_influence, influence), (top_leave_out, leave_out)])
def test_the_top_is_that_of_all(model, top, everything):
    values, few = everything(model, NEW), top(model, NEW, 3)
    assert few.landmarks.shape == few.values.shape == (17, 3)
    best = np.sort(np.abs(values), axis=1)[:, ::-1][:, :3]
    assert np.allclose(np.abs(few.values), best, rtol=1e-5)
    assert np.allclose(np.take_along_axis(values, few.landmarks, 1), few.values, rtol=1e-5, atol=1e-9)
    assert np.array_equal(few.rows, model.landmark_indices_[few.landmarks])
    assert top(model, NEW, 10_000).landmarks.shape == (17, values.shape[1])


def test_top_attribution_keeps_signs(model):
    parts, few = attribution(model, NEW, 1), top_attribution(model, NEW, 1, 4)
    assert np.allclose(np.take_along_axis(parts, few.landmarks, 1), few.values, rtol=1e-5, atol=1e-9)
    assert (few.values < 0).any()
    assert (few.values > 0).any()


@pytest.mark.parametrize("p", [1, 2])
def test_leaving_a_landmark_out_is_the_projection_onto_the_others(p):
    """Brute force: the nearest function to f, in the kernel's norm, without the centres of one landmark."""
    model = fitted(kernel=Gaussian(0.6), n_landmarks=8, landmarks=Uniform(views_per_landmark=p))
    K, A = model.kernel_(model.landmarks_), torch.from_numpy(model.coefficients_)
    k_x = model.kernel_(torch.from_numpy(NEW), model.landmarks_)
    owners, m = centres(model)
    expected = np.empty((len(NEW), m))
    for left_out in range(m):
        kept = np.flatnonzero(owners != left_out)
        B = torch.linalg.solve(K[kept][:, kept], K[kept] @ A)
        expected[:, left_out] = (k_x @ A - k_x[:, kept] @ B).norm(dim=1)
    assert np.allclose(leave_out(model, NEW), expected, rtol=1e-5, atol=1e-8)


def test_a_duplicate_landmark_is_influential_but_not_needed():
    points = np.concatenate([X[:12], X[:1]])  # the first landmark twice
    model = fitted(landmarks=points, loss="kernel_pca", kernel=Gaussian(0.5))
    at = X[:1]
    assert influence(model, at)[0, [0, 12]].min() > 0.1 * influence(model, at).max()
    assert leave_out(model, at)[0, [0, 12]].max() < 1e-5 * np.linalg.norm(model.transform(at))
    alone = fitted(landmarks=X[:12], loss="kernel_pca", kernel=Gaussian(0.5))
    assert leave_out(alone, at)[0, 0] > 0.1 * np.linalg.norm(alone.transform(at))


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


def test_the_concept_profile(model):
    concept = Concept(X[X[:, 0] > 0.5], X[X[:, 0] < -0.5], n_permutations=5).fit(model)
    profile = concept_profile(model, NEW, concept, n_top=3)
    Z_m = landmark_representation(model)
    if model.views_per_landmark_ == 1:
        rows = model.landmark_indices_
        assert np.allclose(Z_m, model.transform(X[rows]), atol=1e-4)
    assert np.allclose(profile.alignment, (Z_m - concept.origin_) @ concept.direction_)
    top = top_influence(model, NEW, 3)
    assert np.array_equal(profile.top.landmarks, top.landmarks)
    assert np.allclose(profile.scores, profile.alignment[top.landmarks] * top.values)
    assert np.allclose(profile.psi, profile.scores.sum(1))
    parts = attribution(model, NEW, concept)
    assert np.allclose(
        profile.exact, np.take_along_axis(parts, top.landmarks, 1), atol=1e-5 * np.abs(parts).max()
    )
    assert np.allclose(profile.exact_total, parts.sum(1), atol=1e-4 * np.abs(parts).sum(1).max())
    shift = (concept.origin_ - model.intercept_) @ concept.direction_
    assert np.allclose(profile.sample, profile.exact_total - shift)


def test_spectrum_and_effective_rank(model):
    values = coefficient_spectrum(model)
    singular = np.linalg.svd(model.coefficients_.astype(np.float64), compute_uv=False)
    assert np.allclose(values[: len(singular)], singular**2, rtol=1e-5, atol=1e-9 * values[0])
    assert 1 <= effective_rank(values) <= 4
    assert effective_rank(np.zeros(3)) == 0.0


def test_objects_are_explained_too():
    words = ["aa", "ab", "bb", "ba", "abab", "bbbb"] * 5
    kernel = lambda X, Y: np.array([[sum(min(x.count(c), y.count(c)) for c in "ab") for y in Y] for x in X])  # noqa: E731
    model = KernelEmbedding(2, kernel=kernel, loss="kernel_pca", n_landmarks=5, random_state=0).fit(words)
    parts = attribution(model, words[:6], 0)
    assert np.allclose(parts.sum(1) + model.intercept_[0], model.transform(words[:6])[:, 0], atol=1e-4)
    assert top_leave_out(model, words[:6], 2).landmarks.shape == (6, 2)


def test_linear_kernels_have_signed_influence():
    model = fitted(kernel=Linear(), loss="kernel_pca", n_landmarks=5)
    assert (influence(model, NEW) < 0).any()
    assert (leave_out(model, NEW) >= 0).all()
