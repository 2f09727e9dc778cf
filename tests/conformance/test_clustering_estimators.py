"""The clusterer keeps scikit-learn's contract, and its parts are good components."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from krepes.base.components import named
from krepes.clustering import Coding, Precision, Projection, SubspaceClustering
from krepes.clustering.self_expression import DualExpression
from krepes.kernels import Gaussian
from labels import label

MODEL = SubspaceClustering(n_clusters=3, n_iterations=2, random_state=0)


@parametrize_with_checks([SubspaceClustering(n_clusters=2, n_iterations=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_parts_given_by_name_take_parameters():
    model = clone(MODEL).set_params(projection__filter=0.2, coding="matching_pursuit", coding__n_nonzero=3)
    assert isinstance(model.projection, Precision)
    assert model.projection.filter == 0.2
    assert model.coding.n_nonzero == 3


def test_same_seed_same_bits_and_pickle():
    X, _ = load_iris(return_X_y=True)
    first, second = clone(MODEL).fit(X), clone(MODEL).fit(X)
    assert np.array_equal(first.labels_, second.labels_)
    assert np.array_equal(first.projection_, second.projection_)
    again = pickle.loads(pickle.dumps(first))
    assert np.array_equal(again.predict(X), first.predict(X))


@pytest.mark.parametrize("coding", [cls() for cls in named(Coding).values()], ids=label)
def test_every_coding_leaves_a_sample_out_of_itself(coding):
    """Shape, zero diagonal, the same rows for slices and for indices; arguments are not changed."""
    X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kept = X.clone()
    rows = clone(coding).rows(DualExpression(Gaussian(1.0), X, 1.0))
    C = rows(slice(None))
    assert C.shape == (12, 12)
    assert (C.diagonal() == 0).all()
    assert torch.allclose(rows(torch.tensor([7, 2])), C[[7, 2]], atol=1e-10)
    assert torch.allclose(rows(slice(3, 5)), C[3:5], atol=1e-10)
    assert torch.equal(X, kept)


@pytest.mark.parametrize("projection", [cls() for cls in named(Projection).values()], ids=label)
def test_every_projection_is_symmetric_positive_of_norm_one(projection):
    G = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    P = projection.root(G @ G.T)
    values = torch.linalg.eigvalsh(P)
    assert torch.allclose(P, P.T)
    assert values[0] >= -1e-9
    assert values[-1].item() == pytest.approx(1.0)
    assert torch.equal(
        projection.root(torch.zeros(3, 3, dtype=torch.float64)), torch.eye(3, dtype=torch.float64)
    )
