"""Kernels combined for alignment: the optimum, its conditions, and what it does not depend on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from alignment_oracles import biased_hsic, naive_cka, unbiased_hsic
from krepes.alignment import (
    AlignmentSelector,
    SketchedCKA,
    cka,
    combine_kernels,
    combine_sketches,
    one_hot,
)
from krepes.alignment.similarity.nonnegative_minimum import nonnegative_minimum
from krepes.kernels import Gaussian
from refusals import refuses


def problem(n: int = 60, n_kernels: int = 6, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Kernels of very different scales, some of which know something of the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    Z = one_hot(y) @ rng.normal(size=(3, n_kernels))
    parts = [
        10.0 ** rng.integers(-3, 4) * (Z[:, [k]] * (k % 2) + rng.normal(size=(n, 1 + k % 3)) + 2)
        for k in range(n_kernels)
    ]
    return {f"k{k}": part for k, part in enumerate(parts)}, y


@pytest.mark.parametrize("seed", range(30))
def test_the_minimum_satisfies_its_conditions(seed):
    """v >= 0, slope <= 0 where v = 0 and = 0 where v > 0, to 1e-10; also for duplicated kernels (M singular)."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(8, rng.integers(2, 12)))
    G = np.vstack([G, G[:2]]) if seed % 2 else G
    G /= np.linalg.norm(G, axis=1, keepdims=True)
    M, a = G @ G.T, G @ rng.normal(size=G.shape[1])
    v, residual = nonnegative_minimum(M, a)
    slope = a - M @ v
    assert (v >= 0).all()
    assert residual < 1e-10
    assert slope.max() < 1e-10 * np.abs(a).max()
    assert np.abs(slope[v > 0]).max(initial=0) < 1e-10 * np.abs(a).max()


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_no_other_weights_align_better(estimator):
    kernels, y = problem()
    found = combine_kernels(kernels, y, estimator=estimator)
    grams = [Z @ Z.T / np.trace(Z @ Z.T) for Z in kernels.values()]
    goal = one_hot(y) @ one_hot(y).T
    naive = {"biased": biased_hsic, "unbiased": unbiased_hsic}[estimator]
    M = np.array([[naive(K, L) for L in grams] for K in grams])
    a, own = np.array([naive(K, goal) for K in grams]), naive(goal, goal)

    def loss(root: np.ndarray) -> float:
        return -(root**2 @ a) / np.sqrt(root**2 @ M @ root**2 * own)

    assert found.optimality < 1e-10
    combined = sum(w * (Z @ Z.T) for w, Z in zip(found.weights, kernels.values()))
    assert naive_cka(combined, goal, estimator) == pytest.approx(found.alignment, abs=1e-9)
    rng = np.random.default_rng(0)
    best = min(minimize(loss, rng.random(len(grams))).fun for _ in range(5))
    assert found.alignment >= -best - 1e-9
    assert found.alignment >= np.nanmax(found.alone) - 1e-12


def test_weights_are_those_of_kernels_as_given():
    """Scaling a kernel by c divides its weight by c, and changes neither the choice nor the alignment."""
    kernels, y = problem()
    found = combine_kernels(kernels, y)
    scales = dict(zip(kernels, (1.0, 1e-3, 30.0, 1.0, 7.0, 1e4)))
    again = combine_kernels({name: scales[name] * Z for name, Z in kernels.items()}, y)
    assert set(again.chosen) == set(found.chosen)
    assert again.alignment == pytest.approx(found.alignment, abs=1e-10)
    expected = found.weights / np.array(list(scales.values())) ** 2
    assert np.allclose(again.weights, expected / np.linalg.norm(expected), rtol=1e-8)
    assert np.linalg.norm(found.weights) == pytest.approx(1.0)


def test_kernels_features_and_matrices_agree():
    kernels, y = problem()
    features = combine_kernels(kernels, y)
    matrices = combine_kernels({name: Z @ Z.T for name, Z in kernels.items()}, y, kernel="precomputed")
    assert np.allclose(features.weights, matrices.weights, rtol=1e-7)
    assert features.alone == pytest.approx([cka(Z, one_hot(y)) for Z in kernels.values()], abs=1e-10)
    curved = combine_kernels(list(kernels.values()), y, kernel="gaussian")
    grams = [Gaussian().fitted(Z)(Z).numpy() for Z in kernels.values()]
    assert np.allclose(curved.weights, combine_kernels(grams, y, kernel="precomputed").weights, rtol=1e-7)
    assert curved.names == [str(k) for k in range(6)]


def test_a_sketch_gives_the_choice_of_all_rows():
    kernels, y = problem(4000)
    exact = combine_kernels(kernels, y, estimator="biased")
    sketch = SketchedCKA(1024).update({**kernels, "target": one_hot(y)})
    found = combine_sketches(sketch)
    assert found.chosen[0] == exact.chosen[0]
    assert found.alignment == pytest.approx(exact.alignment, abs=0.1)
    assert found.optimality < 1e-10


def test_dead_and_repeated_kernels_do_no_harm():
    kernels, y = problem()
    plain = combine_kernels(kernels, y)
    more = combine_kernels({**kernels, "dead": np.ones((60, 2)), "twin": kernels["k1"]}, y)
    assert more.alignment == pytest.approx(plain.alignment, abs=1e-9)
    assert more.weights[6] == 0
    assert np.isnan(more.alone[6])


def test_stability_over_resamples():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    kernels = {"signal": y + 0.1 * rng.normal(size=80), "noise": rng.normal(size=80)}
    found = combine_kernels(kernels, y, n_resamples=20, random_state=0)
    assert found.frequency[0] == 1.0
    assert found.frequency[1] < 1.0
    assert found.chosen[0] == "signal"


def test_the_selector_keeps_the_combined_kernel():
    kernels, y = problem()
    X = np.hstack(list(kernels.values()))
    ends = np.cumsum([Z.shape[1] for Z in kernels.values()])
    groups = [list(range(end - Z.shape[1], end)) for end, Z in zip(ends, kernels.values())]
    selector = AlignmentSelector(groups).fit(X, y)
    Z = selector.transform(X)
    assert cka(Z, one_hot(y)) == pytest.approx(selector.combination_.alignment, abs=1e-10)
    assert Z.var(axis=0).sum() == pytest.approx(1.0)
    with refuses(ValueError, "12 features"):
        selector.transform(X[:, :2])


def test_what_cannot_be_combined_is_refused():
    kernels, y = problem()
    for call, message in (
        (lambda: combine_kernels({}, y), "kernels"),
        (lambda: combine_kernels([np.ones((60, 2))], y), "constant"),
        (lambda: combine_kernels(kernels, y[:10]), ("60 rows", "y", "10")),
        (lambda: combine_kernels(kernels, y, estimator="x"), "estimator='x'"),
        (lambda: combine_sketches(SketchedCKA(8).update({"target": kernels["k0"]})), "holds only"),
        (lambda: AlignmentSelector([[99]]).fit(kernels["k0"], y), "groups"),
    ):
        with refuses(ValueError, message):
            call()


def test_groups_may_be_lists_labels_or_names_and_the_kept_columns_have_names():
    kernels, y = problem()
    X = np.hstack([kernels["k1"], kernels["k2"], kernels["k3"]])
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    width = kernels["k1"].shape[1]
    first, last = list(range(width)), list(range(width, X.shape[1]))
    expected = AlignmentSelector([first, last]).fit(X, y)
    names = {"one": [f"c{j}" for j in first], "two": [f"c{j}" for j in last]}
    for groups in (["u"] * len(first) + ["v"] * len(last), np.repeat([5, 2], [len(first), len(last)]), names):
        found = AlignmentSelector(groups).fit(frame, y)
        np.testing.assert_allclose(found.transform(frame), expected.transform(X))
    assert set(found.combination_.chosen) <= {"one", "two"}
    assert found.get_feature_names_out().tolist() == [f"c{j}" for j in found.columns_]
    assert expected.get_feature_names_out()[0] == f"x{expected.columns_[0]}"
    assert np.flatnonzero(found.get_support()).tolist() == sorted(found.get_support(indices=True))
    out = found.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == found.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (3, "groups=3"),
        ("ab", "groups='ab'"),
        ([], ("column", "lists")),
        ([0, 1, 1], ("3 labels", "2 columns")),
        ([[0], 1], ("column", "lists")),
        ([[0], []], "'1'"),
        ([[0.5]], "0.5"),
        ([[-1]], ("-1", "0 to 1")),
        ({"a": 0}, ("lists", "columns")),
        ({"a": ["x"]}, "'x'"),
    ],
)
def test_groups_of_a_wrong_form_are_refused(groups, message):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with refuses(ValueError, message):
        AlignmentSelector(groups).fit(X, np.arange(20) % 2)
