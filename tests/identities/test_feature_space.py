"""A feature space is a value: fixed before the first kernel value, shared, hashed by part, saved."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from krepes import KernelEmbedding
from krepes.base.blocks import Placement
from krepes.base.reporting import Silent
from krepes.engines import Local
from krepes.features import FeatureSpace, FitData, Run, Spec, prepare
from krepes.kernels import Gaussian, Laplacian
from krepes.landmarks import Uniform

X = load_iris().data
SMALL = {"n_landmarks": 20, "random_state": 0}


def prepared(data=X, **settings) -> FeatureSpace:
    options = {"kernel": Gaussian(), "landmarks": "pivoted_cholesky", "n_landmarks": 20, **settings}
    run = Run(Local(), Silent(), Placement.of("float64", "cpu"), seed=3)
    return prepare(FitData.open(data), Spec(**options), run)


def test_it_cannot_be_changed():
    space = prepared()
    with pytest.raises(FrozenInstanceError):
        space.seed = 4


def test_copies_and_refits_share_it():
    model = KernelEmbedding(3, **SMALL).fit(X)
    assert model.empty_copy().space_ is model.space_
    assert model.refit(loss="vicreg").space_ is model.space_


def test_the_same_seed_gives_the_same_space_and_parts_are_told_apart():
    space = prepared()
    assert space.fingerprint() == prepared().fingerprint()
    other = prepared(kernel=Laplacian())
    different = {part for part, hashed in space.fingerprint().items() if hashed != other.fingerprint()[part]}
    assert different == {"kernel", "landmarks"}
    assert space.fingerprint() == replace(space, seed=5).fingerprint()
    assert space.seed_fingerprint() != replace(space, seed=5).seed_fingerprint()


def test_another_kernel_on_the_same_rows():
    space = prepared()
    other = space.with_kernel(Laplacian(2.0))
    assert other.landmarks is space.landmarks
    assert np.array_equal(other.landmark_rows, space.landmark_rows)
    rows = torch.from_numpy(X[:5])
    K = Laplacian(2.0)
    expected = K(rows, space.landmarks) @ torch.linalg.pinv(K(space.landmarks)) @ K(space.landmarks, rows)
    Phi = other.features(rows)
    torch.testing.assert_close(Phi @ Phi.T, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("factors", [True, False])
def test_it_comes_back_from_its_state_and_from_a_pickle(factors):
    space = prepared()
    rows = torch.from_numpy(X[:7])
    restored = FeatureSpace.from_state(space.state(factors), space.placement)
    for again in (restored, pickle.loads(pickle.dumps(space))):
        assert again.fingerprint() == space.fingerprint()
        assert again.rank == space.rank
        torch.testing.assert_close(again.features(rows), space.features(rows), rtol=1e-6, atol=1e-8)


def test_preferred_rows_become_landmarks_first():
    """All of them where they are few; the rule chooses among them where they are many."""
    few = np.array([3, 77, 140])
    space = prepared(prefer=few)
    assert np.array_equal(space.landmark_rows[:3], few)
    assert len(np.unique(space.landmark_rows)) == 20
    torch.testing.assert_close(space.landmarks, torch.from_numpy(X[space.landmark_rows]))
    many = np.arange(0, 150, 3)
    chosen = prepared(prefer=many).landmark_rows
    assert len(chosen) == 20
    assert set(chosen) <= set(many)


def test_preferences_are_bounded_by_the_number_of_candidates():
    space = prepared(prefer=np.arange(150), landmarks=Uniform(max_candidates=25))
    assert len(space.landmark_rows) == 20


def test_scales_do_not_depend_on_preferences():
    """The lengthscale is that of all rows, whichever become landmarks."""
    assert prepared(prefer=np.arange(10)).kernel.lengthscale == prepared().kernel.lengthscale


def test_a_space_from_elsewhere_is_used_as_it_is():
    model = KernelEmbedding(3, **SMALL)
    space = model.prepare(X)
    fitted = KernelEmbedding(3, **SMALL).fit(X, space=space)
    assert fitted.space_ is space
    assert np.array_equal(fitted.coefficients_, KernelEmbedding(3, **SMALL).fit(X).coefficients_)
    other = KernelEmbedding(3, loss="barlow_twins", random_state=7).fit(X[:80], space=space)
    assert np.array_equal(other.landmarks_, fitted.landmarks_)
    trained = KernelEmbedding(3, loss="simclr", **SMALL).set_params(solver__max_epochs=1).fit(X, space=space)
    assert trained.landmarks_ is space.landmarks
    assert not trained.exact_views_
