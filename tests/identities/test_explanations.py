"""The landmarks that explain a row: rankings are loops, the two forms are one sum, deletions are smaller models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from sklearn.datasets import load_digits

from krepes import KernelEmbedding
from krepes.explain import attribution, faithfulness, re_expansion, top_landmarks
from krepes.explain.expansion import Expansion
from krepes.explain.faithfulness import CURVES, ExplainedRows, closeness, refitted
from krepes.explain.faithfulness_result import Faithfulness, MethodCheck
from krepes.explain.rankings import RANKINGS
from krepes.kernels import Gaussian
from krepes.landmarks import Uniform
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, KernelRidgeRegressor

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


def test_both_forms_add_up_to_the_same(model):
    K, A, gamma = values_of(model, NEW)
    for v in np.eye(A.shape[1])[:2]:
        expected = (K @ A + gamma) @ v
        for form in ("terms", "values"):
            parts = attribution(model, NEW, v, form=form)
            size = np.abs(parts).sum(1) + np.abs(gamma @ v) + np.abs(expected)
            error = np.abs(parts.sum(1) + gamma @ v - expected)
            assert (error <= {torch.float64: 1e-9, torch.float32: 1e-4}[model.space_.dtype] * size).all(), (
                form
            )


def test_values_cancel_less_than_terms_on_images():
    images = load_digits().data[:700].reshape(-1, 8, 8) / 16
    model = KernelEmbedding(16, n_landmarks=200, random_state=0).fit(images[:600])
    Z, sizes = model.transform(images[600:]), {}
    for form in ("terms", "values"):
        parts = sum(attribution(model, images[600:], v, form=form) * Z[:, v : v + 1] for v in range(16))
        sizes[form] = np.median(np.abs(parts).sum(1) / np.square(Z).sum(1))
    assert sizes["values"] < sizes["terms"] / 5


def naive(model, rows):
    """Every measure, one row and one landmark at a time."""
    K, A, gamma = values_of(model, rows)
    p = model.views_per_landmark_
    m = len(A) // p
    L = model.landmarks_.double()
    K_mm = model.kernel_(L).double().numpy()
    Z = K @ A + gamma
    Z_l = K_mm @ A + gamma
    mean_l = np.array([Z_l[landmark::m].mean(0) for landmark in range(m)])
    centre = mean_l.mean(0)
    inverse = np.linalg.pinv(K_mm, rcond=1e-12, hermitian=True)
    found = {name: np.zeros((len(rows), m)) for name in ("kernel", "contributions", "shares")}
    for i in range(len(rows)):
        v = (Z[i] - centre) / np.sum((Z[i] - centre) ** 2)
        u = inverse @ K[i]
        for at in range(m):
            for j in range(at, p * m, m):
                found["kernel"][i, at] += K[i, j] / np.sqrt(K_mm[j, j]) / p
                found["contributions"][i, at] += K[i, j] * (A[j] @ v)
                found["shares"][i, at] += u[j] * ((Z_l[j] - centre) @ v)
    return found


@pytest.mark.parametrize("name", ["kernel", "contributions"])
def test_rankings_are_loops(name):
    for model in (MODELS["plain"], MODELS["views of landmarks"], MODELS["regressor"]):
        expected = naive(model, NEW)[name]
        top = top_landmarks(model, NEW, by=name, n_top=expected.shape[1])
        found = np.empty_like(expected)
        np.put_along_axis(found, top.landmarks, top.values, 1)
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())
        assert (np.diff(top.values, axis=1) <= 0).all()


def test_shares_are_loops():
    for model in (MODELS["plain"], MODELS["views of landmarks"], MODELS["regressor"]):
        expected = naive(model, NEW)["shares"]
        top = top_landmarks(model, NEW, n_top=expected.shape[1])
        found = np.empty_like(expected)
        np.put_along_axis(found, top.landmarks, top.shares, 1)
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("by", ["auto", *RANKINGS])
def test_shares_add_up_to_one(model, by):
    top = top_landmarks(model, NEW, by=by, n_top=3)
    total = top.shares.sum(1) + top.others + top.constant
    assert np.allclose(total, 1, atol=1e-4 if model.space_.dtype == torch.float32 else 1e-8)
    assert np.array_equal(top.rows, model.landmark_indices_[: len(model.landmarks_)][top.landmarks])
    assert top.by == ("contributions" if by == "auto" else by)


@pytest.mark.parametrize("k", [1, 4])
def test_few_landmarks_have_the_best_weights(k):
    model = MODELS["plain"]
    found, expansion = re_expansion(model, NEW, n_top=k), Expansion.of(model)
    atoms = (expansion.at_landmarks - expansion.centre).numpy()
    own = model.transform(NEW) - expansion.centre.numpy()
    for i in range(len(NEW)):
        used = found.landmarks[i][found.landmarks[i] >= 0]
        weights, rest = nnls(atoms[used].T, own[i])
        assert np.allclose(found.weights[i][: len(used)], weights, atol=1e-6)
        assert found.error[i] == pytest.approx(rest / np.linalg.norm(own[i]), abs=1e-7)
    assert (found.weights >= 0).all()
    assert (re_expansion(model, NEW, n_top=k + 1).error <= found.error + 1e-9).all()


@pytest.mark.parametrize("p", [1, 2])
def test_deletions_are_smaller_models(p):
    """Brute force for every row: sums without terms, and the nearest function that other landmarks can express."""
    model = fitted(kernel=Gaussian(0.6), n_landmarks=8, landmarks=Uniform(views_per_landmark=p))
    K, A, gamma = values_of(model, NEW)
    K_mm = model.kernel_(model.landmarks_).numpy()
    chosen = np.stack([RNG.permutation(8)[:3] for _ in NEW])
    rows = ExplainedRows(Expansion.of(model), torch.from_numpy(K))
    found = {name: curve(rows, torch.from_numpy(chosen)).numpy() for name, curve in CURVES.items()}
    for i in range(len(NEW)):
        inside = np.isin(np.arange(8 * p) % 8, chosen[i])
        assert np.allclose(found["subtracted"][i], K[i, ~inside] @ A[~inside] + gamma)
        for name, kept in (("left out", ~inside), ("alone", inside)):
            B = np.linalg.solve(K_mm[np.ix_(kept, kept)], K_mm[kept] @ A)
            assert np.allclose(found[name][i], K[i, kept] @ B + gamma, rtol=1e-6, atol=1e-8), name


def test_random_weights_keep_their_norm():
    expansion = Expansion.of(MODELS["plain"])
    random = expansion.random(torch.Generator().manual_seed(0))
    sizes = [(e.A * (e.landmarks.K @ e.A)).sum(0) for e in (expansion, random)]
    assert torch.allclose(*sizes, rtol=1e-6)
    assert not torch.allclose(expansion.A, random.A)


@pytest.fixture(scope="module")
def found():
    return faithfulness(MODELS["plain"], X, KIND, n_refits=2)


def test_kernel_values_ignore_the_weights_and_others_do_not(found):
    assert found.methods["kernel"].overlap.min() == 1
    assert found.methods["kernel"].ignores_weights
    assert not any(found.methods[name].ignores_weights for name in ("contributions", "re_expansion"))
    chance = found.methods["random"].overlap
    assert abs(chance.mean() - 5 / 20) < 4 * np.sqrt(0.25 * 0.75 / (5 * found.n_rows * len(chance)))


def test_curves_are_measured_on_rows_that_are_not_landmarks(found):
    assert found.n_rows == 100
    assert {"random", *RANKINGS} == set(found.methods)
    assert found.methods["contributions"].left["subtracted"].shape == (
        5,
        100,
    )  # 1, 2, 5, 10, 20 of 20 landmarks
    assert found.methods["random"].left["alone"][-1].mean() == found.accuracy
    assert "Most faithful" in repr(found)


def test_stability_is_chance_for_random_landmarks_and_high_for_near_ones(found):
    random = found.methods["random"].stability.mean(0)
    assert abs(random.mean()) < 4 * random.std(ddof=1) / np.sqrt(len(random))
    assert found.methods["kernel"].stability.mean() > 0.7


def test_refits_have_other_landmarks_and_closeness_is_a_rank():
    model = MODELS["plain"]
    other = refitted(model, X, None, np.random.default_rng(0))
    assert not np.intersect1d(other.landmark_indices_, model.landmark_indices_).size
    close = closeness(model, other, X).numpy()
    K = model.kernel_(
        torch.from_numpy(X[model.landmark_indices_]), torch.from_numpy(X[other.landmark_indices_])
    )
    for mine in range(20):
        for theirs in range(20):
            more = (K[mine] > K[mine, theirs]).sum().item()
            assert close[mine, theirs] == pytest.approx(1 - 2 * more / 19)


def test_the_same_seed_gives_the_same_figures():
    settings = {"methods": ["contributions"], "n_rows": 20, "n_random": 1, "random_state": 3}
    first, second = (faithfulness(MODELS["plain"], X, KIND, **settings) for _ in range(2))
    assert repr(first) == repr(second)


def check(right, label, overlap=0.2):
    """A method after whose deletions `right` rows in a hundred are right."""
    left = (np.arange(100) < right).astype(float)[None]
    same = (np.arange(100) < label).astype(float)
    return MethodCheck({"subtracted": left, "left out": left}, same, np.array([overlap]), None)


def test_deletion_decides_and_labels_break_ties():
    methods = {"a": check(10, 50), "b": check(12, 90), "c": check(60, 99), "kernel": check(1, 99, 1.0)}
    assert Faithfulness(methods, (1,), 1.0, 100, 10).best == "b"
    methods["b"] = check(60, 90)
    assert Faithfulness(methods, (1,), 1.0, 100, 10).best == "a"
    methods["a"] = check(10, 50, overlap=0.95)
    assert Faithfulness(methods, (1,), 1.0, 100, 10).best == "c"


def test_machines_are_checked_by_their_own_predictions():
    model = MODELS["classifier"]
    found = faithfulness(model, X, KIND, methods=["contributions", "kernel"], n_rows=40)
    assert found.accuracy is not None
    assert found.accuracy > 0.8
    quantity = faithfulness(MODELS["regressor"], X, methods=["contributions", "kernel"], n_rows=40)
    assert quantity.accuracy is None
