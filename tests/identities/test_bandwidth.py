"""The bandwidth of a ridge machine: its numbers are those of naive loops, its hints are right on constructed cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes.kernels import Gaussian, Laplacian, Linear, Reweighted
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from refusals import refuses


def rows(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, -1] ** 2 + 0.1 * rng.normal(size=n)


def machine(kernel, **parameters) -> KernelRidgeRegressor:
    given = {"input_metric": None, "preprocess": None, "random_state": 0} | parameters
    return KernelRidgeRegressor(kernel=kernel, **given)


@pytest.mark.parametrize("d", [3, 10])
@pytest.mark.parametrize("n_landmarks", ["auto", 150])
def test_a_lengthscale_thirty_times_too_short_or_too_long_is_named(d, n_landmarks):
    X, y = rows(400, d)
    right = machine(Gaussian(), n_landmarks=n_landmarks).fit(X, y).bandwidth()
    assert right.hint == "fine"
    for factor, hint in ((1 / 30, "too short"), (30.0, "too long")):
        kernel = Gaussian(factor * right.lengthscale)
        found = machine(kernel, n_landmarks=n_landmarks).fit(X, y).bandwidth()
        assert found.hint == hint
        assert hint in str(found)
        assert found.medians == pytest.approx(
            factor * right.medians, rel=0.05
        )  # columns may have been standardised


def test_predictions_decay_and_rows_look_alike_at_the_two_ends():
    X, y = rows(300, 5)
    short, right, long = (machine(Gaussian(length)).fit(X, y).bandwidth() for length in (0.05, 2.0, 100.0))
    assert short.decayed > 0.9 > 0.1 > right.decayed
    assert short.effective_rank > 290 > right.effective_rank > 2 > long.effective_rank
    assert short.similarity[1] < 0.05 < right.similarity[1] < long.similarity[1]
    assert short.coverage[1] < right.coverage[1] < long.coverage[1]


def test_a_row_is_compared_with_the_landmarks_that_it_is_not():
    """Nearest similarity and coverage by a loop that leaves the row out of the landmarks."""
    X, y = rows(60, 2)
    model = machine(Gaussian(0.7), n_landmarks=40).fit(X, y)
    landmarks, kernel = model.landmarks_, model.kernel_
    kept = model.total_.kept.inputs
    similarity, coverage = [], []
    for x in kept:
        others = landmarks[(landmarks != x).any(1)]
        k = kernel(x[None], others)[0]
        similarity.append(k.max().item())
        coverage.append((k @ torch.linalg.lstsq(kernel(others), k[:, None]).solution)[0].item())
    found = model.bandwidth()
    np.testing.assert_allclose(found.similarity, np.percentile(similarity, [10, 50, 90]), rtol=1e-9)
    np.testing.assert_allclose(found.coverage, np.percentile(coverage, [10, 50, 90]), rtol=1e-5)


def test_new_rows_far_from_all_others_have_decayed():
    X, y = rows(200, 3)
    model = machine(Gaussian(1.0)).fit(X, y)
    found = model.bandwidth(X[:20] + 100)
    assert (found.n_rows, found.decayed, found.hint) == (20, 1.0, "too short")
    assert found.similarity == (0.0, 0.0, 0.0)
    assert model.bandwidth(X).hint == "fine"


def test_landmarks_that_coincide_cover_each_other():
    X, y = rows(50, 2)
    found = machine(Gaussian(1e-3), n_landmarks=None).fit(np.repeat(X, 2, 0), np.repeat(y, 2)).bandwidth()
    np.testing.assert_allclose(found.coverage, 1.0, atol=1e-6)


def test_metrics_kernels_without_a_lengthscale_and_classes_have_a_bandwidth():
    X, y = rows(150, 3)
    weighed = machine(Reweighted(Laplacian(4.0), [1.0, 0.5, 0.0])).fit(X, y).bandwidth()
    assert weighed.lengthscale == 4.0
    assert machine(Linear()).fit(X, y).bandwidth().lengthscale is None
    classifier = KernelRidgeClassifier(random_state=0).fit(X, y > 0.5)
    assert classifier.bandwidth().hint == "fine"


def test_a_machine_saved_without_sums_asks_for_rows(tmp_path):
    X, y = rows(80, 3)
    model = machine(Gaussian(1.0)).fit(X, y)
    model.save(tmp_path / "m.krepes", sums=False)
    loaded = KernelRidgeRegressor.load(tmp_path / "m.krepes")
    with refuses(ValueError, "bandwidth(X)"):
        loaded.bandwidth()
    assert loaded.bandwidth(X).similarity == pytest.approx(model.bandwidth(X).similarity)
