"""What rows are made of: shares are a loop, add up and never cancel; deletions are smaller models."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import explain, faithfulness
from krepes.explain.examples import examples, parts_along
from krepes.explain.expansion import Expansion
from krepes.explain.faithfulness import METHODS, ExplainedRows
from krepes.kernels import Gaussian
from krepes.landmarks import Uniform
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, KernelRidgeRegressor

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import faithfulness as benchmark

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 5))
X[:60] += 1.5
KIND = np.repeat(["left", "right"], 60)
NEW = RNG.standard_normal((17, 5))
EXACT = {"n_landmarks": 20, "random_state": 0, "dtype": "float64"}


def fitted(**settings):
    return KernelEmbedding(4, **{**EXACT, **settings}).fit(X)


MODELS = {
    "plain": fitted(),
    "float32": fitted(dtype="float32"),
    "views of landmarks": fitted(landmarks=Uniform(views_per_landmark=2)),
    "negative kernel values": fitted(kernel="linear", loss="kernel_pca"),
    "regressor": KernelRidgeRegressor(**EXACT).fit(X, X[:, 0]),
    "classifier": KernelRidgeClassifier(**EXACT).fit(X, KIND),
    "Gaussian process": GaussianProcessRegressor(**EXACT).fit(X, X[:, 0]),
}


@pytest.fixture(params=MODELS, scope="module")
def model(request):
    return MODELS[request.param]


def values_of(model, rows):
    """Kernel values (n, p m), A and gamma in float64."""
    A = model.coefficients_ if isinstance(model, KernelEmbedding) else model.dual_coef_
    points = model.space_.reader(rows).take(np.arange(len(rows))).inputs[0]
    K = model.kernel_(points.double(), model.landmarks_.double()).double().numpy()
    return K, A.astype(np.float64), model.intercept_.astype(np.float64)


def made_of(model, rows, k):
    """Landmarks, shares and weights, one row and one landmark at a time."""
    K, A, gamma = values_of(model, rows)
    p = model.views_per_landmark_
    m = len(A) // p
    K_mm = model.kernel_(model.landmarks_.double()).double().numpy()
    Z, Z_l = K @ A + gamma, K_mm @ A + gamma
    means = np.array([Z_l[landmark::m].mean(0) for landmark in range(m)])
    centre = means.mean(0)
    found = []
    for i in range(len(rows)):
        own = Z[i] - centre
        near = np.array([np.mean(K[i, at::m] / np.sqrt(K_mm.diagonal()[at::m])) for at in range(m)])
        cosine = np.array(
            [own @ (z - centre) / np.linalg.norm(own) / np.linalg.norm(z - centre) for z in means]
        )
        alike = near.clip(0) * cosine.clip(0)
        first = np.argsort(-alike, kind="stable")[:k]
        unit = (means - centre) / np.linalg.norm(means - centre, axis=1, keepdims=True)
        steps = (near.clip(0) * alike)[first, None] * unit[first]
        whole = steps.sum(0)
        size = (whole @ whole) or np.inf  # none lies on the same side
        shares = steps @ own * (whole @ own) / size / (own @ own)
        found.append((first, shares))
    return found


def test_shares_are_a_loop(model):
    found = examples(model, NEW, 3)
    exact = model.space_.dtype == torch.float64
    for row, (first, shares) in enumerate(made_of(model, NEW, 3)):
        assert np.allclose(found.shares[row], shares, atol=1e-8 if exact else 1e-3)
        if exact:
            named = found.landmarks[row][found.shares[row] > 1e-9]
            assert set(named) <= set(first)


def test_shares_add_up_to_one_and_are_never_negative(model):
    found = examples(model, NEW, 5)
    assert np.allclose(found.shares.sum(1) + found.unexplained, 1)
    assert (found.shares >= 0).all()
    assert (found.unexplained >= -1e-9).all()
    assert (np.diff(found.shares, axis=1) <= 1e-9).all()
    assert np.array_equal(found.rows, model.landmark_indices_[: len(model.landmarks_)][found.landmarks])


def test_weights_make_up_the_row_along_every_direction(model):
    """z . v = c . v + sum of parts + what is unexplained, for the directions of all outputs."""
    K, A, gamma = values_of(model, NEW)
    h = A.shape[1]
    for j, along in enumerate(parts_along(model, NEW, list(range(h)), 4)):
        total = along.constant + along.parts.sum(1) + along.unexplained
        assert np.allclose(
            total, (K @ A + gamma)[:, j], atol=1e-4 if model.space_.dtype == torch.float32 else 1e-9
        )
        assert np.array_equal(along.landmarks, examples(model, NEW, 4).landmarks)


def test_a_digit_is_made_of_the_same_digits():
    digits = load_digits()
    images = digits.data.reshape(-1, 8, 8) / 16
    model = KernelEmbedding(16, n_landmarks=200, random_state=0).fit(images[:600])
    found = explain(model, images[600:800], n_top=5)
    same = digits.target[found.rows] == digits.target[600:800, None]
    assert same[:, 0].mean() > 0.9
    assert np.median(found.unexplained) < 0.3


@pytest.mark.parametrize("p", [1, 2])
def test_deletions_are_smaller_models(p):
    """Brute force for every row: sums without terms, and the smoothest function with the values at some landmarks."""
    model = fitted(kernel=Gaussian(0.6), n_landmarks=8, landmarks=Uniform(views_per_landmark=p))
    K, A, gamma = values_of(model, NEW)
    K_mm = model.kernel_(model.landmarks_).numpy()
    chosen = np.stack([RNG.permutation(8)[:3] for _ in NEW])
    rows = ExplainedRows(Expansion.of(model), torch.from_numpy(K))
    without, alone = (f(torch.from_numpy(chosen)).numpy() for f in (rows.subtracted, rows.alone))
    for i in range(len(NEW)):
        inside = np.isin(np.arange(8 * p) % 8, chosen[i])
        assert np.allclose(without[i], K[i, ~inside] @ A[~inside] + gamma)
        B = np.linalg.solve(K_mm[np.ix_(inside, inside)], K_mm[inside] @ A)
        assert np.allclose(alone[i], K[i, inside] @ B + gamma, rtol=1e-6, atol=1e-8)


def test_random_weights_keep_their_norm():
    expansion = Expansion.of(MODELS["plain"])
    random = expansion.random(torch.Generator().manual_seed(0))
    sizes = [(e.A * (e.K @ e.A)).sum(0) for e in (expansion, random)]
    assert torch.allclose(*sizes, rtol=1e-6)
    assert not torch.allclose(expansion.A, random.A)


@pytest.fixture(scope="module")
def found():
    return faithfulness(MODELS["plain"], X, KIND)


def test_kernel_values_ignore_the_weights_and_others_do_not(found):
    assert found.methods["kernel value"]["random weights"].min() == 1
    assert found.ignores_weights("kernel value")
    assert not any(found.ignores_weights(name) for name in ("explain", "attribution"))
    chance = found.methods["random"]["random weights"]
    assert abs(chance.mean() - 5 / 20) < 4 * np.sqrt(0.25 * 0.75 / (5 * 100 * len(chance)))


def test_figures_are_of_rows_that_are_not_landmarks(found):
    assert {"random", *METHODS} == set(found.methods)
    assert all(method["deletion"].shape == (100,) for method in found.methods.values())
    assert "100 rows, 20 landmarks" in repr(found)


def test_stability_is_chance_for_random_landmarks_and_high_for_near_ones(found):
    close = benchmark.stability(MODELS["plain"], X, X, 2)
    assert abs(close["random"].mean()) < 4 * close["random"].std(ddof=1) / np.sqrt(len(X))
    assert close["kernel value"].mean() > 0.7
    assert found.methods["explain"]["perturbed"].mean() > found.methods["random"]["perturbed"].mean()


def test_refits_have_other_landmarks_and_closeness_is_a_rank():
    model = MODELS["plain"]
    other = benchmark.refitted(model, X, np.random.default_rng(0))
    assert not np.intersect1d(other.landmark_indices_, model.landmark_indices_).size
    close = benchmark.closeness_of(model, other, X).numpy()
    K = model.kernel_(
        torch.from_numpy(X[model.landmark_indices_]), torch.from_numpy(X[other.landmark_indices_])
    )
    for mine in range(20):
        for theirs in range(20):
            more = (K[mine] > K[mine, theirs]).sum().item()
            assert close[mine, theirs] == pytest.approx(1 - 2 * more / 19)


def test_the_same_seed_gives_the_same_figures():
    settings = {"n_rows": 20, "random_state": 3}
    first, second = (faithfulness(MODELS["plain"], X, KIND, **settings) for _ in range(2))
    assert repr(first) == repr(second)
