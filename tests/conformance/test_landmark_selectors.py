"""Every landmark selector, found by discovery: distinct indices, seeded, within its budget of candidates."""

from __future__ import annotations

import json

import pytest
import torch
from sklearn.base import clone

import krepes.landmarks
from krepes.base.components import named, resolve
from krepes.kernels import Custom, Gaussian
from krepes.landmarks import KMeansPlusPlus, LandmarkSelector, Leverage, PivotedCholesky
from labels import label

VARIANTS = [
    KMeansPlusPlus(space="kernel"),
    KMeansPlusPlus(block_size=3),
    Leverage(probes="normal", n_probes=5),
    PivotedCholesky(block_size=7),
]
SELECTORS = [cls() for cls in named(LandmarkSelector).values()] + VARIANTS

every_selector = pytest.mark.parametrize("selector", SELECTORS, ids=label)


def rows(n: int = 60, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_names_of_the_design_are_declared():
    assert set(named(LandmarkSelector)) == {"uniform", "kmeans_plus_plus", "leverage", "pivoted_cholesky"}
    exported = {getattr(krepes.landmarks, name) for name in krepes.landmarks.__all__}
    assert exported >= {LandmarkSelector, *named(LandmarkSelector).values()}
    assert isinstance(resolve(LandmarkSelector, "kmeans-plus-plus"), KMeansPlusPlus)


@every_selector
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_indices_are_distinct_and_as_many_as_asked(selector, dtype):
    chosen = selector.select(rows(dtype=dtype), Gaussian(1.0), 20, seeded())
    assert chosen.dtype == torch.int64
    assert chosen.shape == (20,)
    assert len(set(chosen.tolist())) == 20
    assert chosen.min() >= 0
    assert chosen.max() < 60


@every_selector
def test_the_seed_decides_and_nothing_else(selector):
    X, kept = rows(), rows()
    torch.manual_seed(1)
    first = selector.select(X, Gaussian(1.0), 20, seeded(5))
    state = torch.get_rng_state()
    again = selector.select(X, Gaussian(1.0), 20, seeded(5))
    other = selector.select(X, Gaussian(1.0), 20, seeded(6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(X, kept)


@every_selector
def test_arrays_and_images_are_candidates_too(selector):
    expected = selector.select(rows(), Gaussian(1.0), 10, seeded())
    assert torch.equal(selector.select(rows().numpy(), Gaussian(1.0), 10, seeded()), expected)
    assert torch.equal(selector.select(rows().reshape(60, 3, 1), Gaussian(1.0), 10, seeded()), expected)


@every_selector
def test_as_many_landmarks_as_candidates_are_all_of_them(selector):
    for n_landmarks in (60, 61, 1000):
        chosen = selector.select(rows(), Gaussian(1.0), n_landmarks, seeded())
        assert chosen.tolist() == list(range(60))


@every_selector
def test_max_candidates_bounds_the_rows_that_the_kernel_sees(selector):
    seen = set()

    def observed(A, B):
        seen.update(tuple(x) for x in A.tolist())
        seen.update(tuple(x) for x in B.tolist())
        return Gaussian(1.0)(A, B)

    selector = clone(selector).set_params(max_candidates=25)
    chosen = selector.select(rows(500), Custom(observed), 10, seeded())
    assert len(seen) <= 25
    assert len(set(chosen.tolist())) == 10
    if seen:
        assert {tuple(x) for x in rows(500)[chosen].tolist()} <= seen
    assert chosen.max() >= 60  # the subsample is drawn from all the rows


@every_selector
def test_a_subsample_as_small_as_the_landmarks_is_the_landmarks(selector):
    selector = clone(selector).set_params(max_candidates=10)
    chosen = selector.select(rows(500), Gaussian(1.0), 10, seeded())
    assert len(set(chosen.tolist())) == 10


@every_selector
def test_the_rule_for_candidates_grows_with_landmarks_and_is_bounded_by_memory(selector):
    assert selector.n_candidates(10) == selector.n_candidates(100) >= 5000
    assert selector.n_candidates(5000) >= 2 * 5000
    assert selector.n_candidates(5000) * 5000 * 4 <= 2 * 2**30
    assert selector.n_candidates(50_000) == 100_000
    assert clone(selector).set_params(max_candidates=123).n_candidates(100) == 123


@every_selector
def test_parameters_make_the_round_trip(selector):
    copy = clone(selector)
    assert repr(copy) == repr(selector)
    assert copy.views_per_landmark == 1
    json.dumps(vars(copy.set_params(views_per_landmark=2)))
    assert copy.get_params() == {**selector.get_params(), "views_per_landmark": 2}
    assert torch.equal(
        copy.select(rows(), Gaussian(1.0), 9, seeded()), selector.select(rows(), Gaussian(1.0), 9, seeded())
    )
