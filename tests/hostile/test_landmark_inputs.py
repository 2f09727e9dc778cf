"""Landmarks from difficult candidates: duplicates, constants, objects, kernels that are not positive."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from krepes.base.components import named
from krepes.kernels import Custom, Gaussian, Laplacian, Linear, Sigmoid
from krepes.landmarks import KMeansPlusPlus, LandmarkSelector, Leverage, PivotedCholesky, Uniform
from labels import label
from refusals import refuses, warns_of

SELECTORS = [cls() for cls in named(LandmarkSelector).values()] + [KMeansPlusPlus(space="kernel")]
every_selector = pytest.mark.parametrize("selector", SELECTORS, ids=label)
sees_duplicates = pytest.mark.parametrize(
    "selector", [PivotedCholesky(), KMeansPlusPlus(), KMeansPlusPlus(space="kernel")], ids=label
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(n: int, d: int = 3, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(n, d, generator=seeded(), dtype=torch.float64).to(dtype)


@sees_duplicates
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(1.0)], ids=label)
def test_each_of_the_distinct_rows_is_chosen_once(selector, kernel, dtype):
    distinct = 3 * rows(7, dtype=dtype) + 10
    X = distinct[torch.arange(200) % 7]
    chosen = selector.select(X, kernel, 20, seeded())
    assert sorted((chosen % 7).tolist()) == list(range(7))


@sees_duplicates
def test_constant_data_have_one_landmark(selector):
    assert len(selector.select(torch.full((50, 3), 4.2), Gaussian(1.0), 10, seeded())) == 1


@every_selector
def test_no_kernel_value_is_positive(selector):
    """All-zero rows under the linear kernel: still at least one landmark."""
    chosen = selector.select(torch.zeros(50, 3), Linear(), 10, seeded())
    assert len(chosen) >= 1
    assert len(set(chosen.tolist())) == len(chosen)


@every_selector
def test_one_row(selector):
    assert selector.select(rows(1), Gaussian(1.0), 10, seeded()).tolist() == [0]


@every_selector
@pytest.mark.parametrize("offset", [-5.0, -1.0, 0.0, 1.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kernels_that_are_not_positive_do_not_stop_selection(selector, offset):
    X, kernel = rows(100), Sigmoid(scale=0.5, offset=offset)
    assert torch.linalg.eigvalsh(kernel(X.double()))[0] < 0
    chosen = selector.select(X, kernel, 30, seeded())
    assert 1 <= len(chosen) <= 30
    assert len(set(chosen.tolist())) == len(chosen)


@pytest.mark.parametrize("scale", [0.1, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_pivots_of_a_random_symmetric_matrix(dtype, scale):
    """Nothing like a kernel: as many negative eigenvalues as positive ones, and a unit diagonal."""
    A = scale * torch.randn(200, 200, generator=seeded(), dtype=torch.float64)
    A = (A + A.T).fill_diagonal_(1.0)
    kernel = Custom(lambda X, Y: A[X[:, 0].long()][:, Y[:, 0].long()])
    for seed in range(5):
        chosen = PivotedCholesky().select(torch.arange(200, dtype=dtype)[:, None], kernel, 150, seeded(seed))
        assert 1 <= len(set(chosen.tolist())) == len(chosen)


WORDS = [a + b for a in "abcdefgh" for b in "stuvwxyz"]


@pytest.mark.parametrize(
    "selector", [Uniform(), PivotedCholesky(), Leverage(), KMeansPlusPlus("kernel")], ids=label
)
def test_objects_with_a_users_function(selector):
    kernel = Custom(lambda a, b: len(set(a) & set(b)), pairwise=True)
    chosen = selector.select(WORDS, kernel, 10, seeded())
    assert len(set(chosen.tolist())) == 10
    selector = type(selector)(**{**selector.get_params(), "max_candidates": 20})
    assert len(set(selector.select(WORDS, kernel, 10, seeded()).tolist())) == 10


def test_letters_have_rank_fifteen():
    """Words of one letter from each of two groups of 8: indicator vectors that span 15 dimensions."""
    kernel = Custom(lambda a, b: len(set(a) & set(b)), pairwise=True)
    assert len(PivotedCholesky().select(WORDS, kernel, 30, seeded())) == 15


def test_seeding_objects_in_input_space_names_the_remedy():
    with refuses(TypeError, "space='kernel'"):
        KMeansPlusPlus().select(WORDS, Custom(len), 10, seeded())


def test_an_outlier_does_not_hide_the_other_rows():
    """Distances between ordinary rows survive next to a row at 1e5 in float32."""
    X = rows(100)
    X[17] = 1e5
    for selector in (PivotedCholesky(), KMeansPlusPlus()):
        chosen = selector.select(X, Gaussian(1.0), 50, seeded())
        assert len(chosen) == 50
        assert 17 in chosen


def test_pixels_of_small_integers():
    X = (rows(60, 16).abs() * 50).to(torch.uint8).reshape(60, 4, 4)
    for selector in SELECTORS:
        assert len(selector.select(X, Gaussian(100.0), 5, seeded())) == 5


@every_selector
def test_nan_is_an_error_where_it_is_seen(selector):
    X = rows(30)
    X[3, 1] = float("nan")
    if isinstance(selector, Uniform):
        assert len(selector.select(X, Gaussian(1.0), 5, seeded())) == 5
        return
    with refuses(ValueError, "NaN"):
        selector.select(X, Gaussian(1.0), 29, seeded())


@every_selector
def test_empty_data_and_bad_counts_are_errors(selector):
    with refuses(ValueError, "empty"):
        selector.select(rows(0), Gaussian(1.0), 5, seeded())
    for bad in (0, -1, 2.5, "5", True):
        with refuses(ValueError, "n_landmarks=", "1"):
            selector.select(rows(9), Gaussian(1.0), bad, seeded())


BAD_PARAMETERS = [
    (Uniform(max_candidates=0), "max_candidates=0"),
    (Uniform(max_candidates=3), ("max_candidates=3", "n_landmarks=5")),
    (PivotedCholesky(block_size=0), "block_size=0"),
    (KMeansPlusPlus(block_size=1.5), "block_size=1.5"),
    (KMeansPlusPlus(space="output"), ("'input'", "'kernel'")),
    (Leverage(regularization=0.0), "regularization=0.0"),
    (Leverage(regularization=float("nan")), "regularization=nan"),
    (Leverage(n_probes=0), "n_probes=0"),
    (Leverage(tolerance=-1.0), "tolerance=-1.0"),
    (Leverage(max_iter=0), "max_iter=0"),
    (Leverage(probes="gaussian"), ("'rademacher'", "'normal'")),
]


@pytest.mark.parametrize(("selector", "message"), BAD_PARAMETERS, ids=lambda v: repr(v))
def test_bad_parameters_are_named(selector, message):
    with refuses(ValueError, message):
        selector.select(rows(20), Gaussian(1.0), 5, seeded())


def test_too_few_iterations_are_reported():
    with warns_of(ConvergenceWarning, "max_iter"):
        chosen = Leverage(1e-8, max_iter=2).select(rows(60), Gaussian(1.0), 5, seeded())
    assert len(chosen) == 5


@given(
    values=st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-8, 1e4]), min_size=1, max_size=12),
    n_landmarks=st.integers(1, 15),
    which=st.sampled_from(range(len(SELECTORS))),
    block_size=st.sampled_from([None, 1, 4]),
    seed=st.integers(0, 100),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_candidates_give_distinct_valid_indices(values, n_landmarks, which, block_size, seed):
    selector = SELECTORS[which]
    if hasattr(selector, "block_size"):
        selector = type(selector)(**{**selector.get_params(), "block_size": block_size})
    X = torch.tensor(values)[:, None]
    chosen = selector.select(X, Gaussian(1.0), n_landmarks, seeded(seed)).tolist()
    assert 1 <= len(chosen) <= min(n_landmarks, len(X))
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(range(len(X)))
    if n_landmarks < len(X) and not isinstance(selector, Uniform | Leverage):
        assert len(np.unique(X[chosen].numpy())) == len(chosen)


def test_an_outlier_does_not_make_the_other_rows_one():
    """M6: distances below 1e-13 of the largest norm counted as zero, and two landmarks of a hundred were left."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(500, 3, generator=generator, dtype=torch.float64)
    X[0] = 1e7
    assert len(KMeansPlusPlus().select(X, Linear(), 100, generator)) == 100
