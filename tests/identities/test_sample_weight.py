"""A row of weight w counts w times in the moments, and a row of weight zero not at all."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from krepes import KernelEmbedding
from krepes.kernels import Gaussian
from krepes.views import Tabular
from refusals import refuses

X, y = load_iris(return_X_y=True)
rng = np.random.default_rng(0)
POSITIVES, NEGATIVES = X + 0.1 * rng.normal(size=X.shape), X[rng.permutation(len(X))]
COUNTS = rng.integers(0, 4, len(X))
SMALL = {
    "n_components": 3,
    "dtype": "float64",
    "random_state": 0,
    "kernel": Gaussian(1.5),
    "regularization": 0.03,
}
PAIRED = ("simple_contrastive", "spectral_contrastive", "barlow_twins", "vicreg")


def products(model: KernelEmbedding) -> np.ndarray:
    Z = model.transform(X)
    return Z @ Z.T


def test_weights_are_repetitions_of_rows():
    settings = {**SMALL, "loss": "kernel_pca", "landmarks": X[::5]}
    weighted = KernelEmbedding(**settings).fit(X, sample_weight=COUNTS)
    repeated = KernelEmbedding(**settings).fit(np.repeat(X, COUNTS, axis=0))
    assert weighted.moments_.n == repeated.moments_.n == COUNTS.sum()
    np.testing.assert_allclose(products(weighted), products(repeated), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("loss", PAIRED)
def test_weights_are_repetitions_of_pairs(loss):
    settings = {**SMALL, "loss": loss, "landmarks": X[::5]}
    negatives = {"negatives": NEGATIVES} if loss == "simple_contrastive" else {}
    weighted = KernelEmbedding(**settings).fit(X, positives=POSITIVES, **negatives, sample_weight=COUNTS)
    again = {name: np.repeat(rows, COUNTS, axis=0) for name, rows in negatives.items()}
    repeated = KernelEmbedding(**settings).fit(
        np.repeat(X, COUNTS, axis=0), positives=np.repeat(POSITIVES, COUNTS, axis=0), **again
    )
    assert weighted.history_[-1]["total"] == pytest.approx(repeated.history_[-1]["total"], rel=1e-8)
    for name in ("S_11", "S_22", "S_12", "S_minus", "mean_1", "mean_2"):
        mine, theirs = (getattr(model.moments_, name) for model in (weighted, repeated))
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("exact", [False, True], ids=["drawn", "exact"])
def test_moments_of_views_are_weighted_means(exact):
    """Views of a row do not depend on its weight: the moments are the weighted means over rows of those views."""
    views = Tabular(noise=0.2, n_views=3) if exact else Tabular(noise=0.2, drop=0.3, n_views=3)
    model = KernelEmbedding(**SMALL, views=views, landmarks=X[::5]).fit(X, sample_weight=COUNTS)
    assert model.exact_views_ == exact
    space, w = model.space_, torch.from_numpy(COUNTS).double()
    drawn = [space.views.view(torch.from_numpy(X), torch.arange(len(X)), space.seed, i) for i in range(3)]
    Phis = [space.features(view) for view in drawn]
    if exact:
        Psi = space.features.project(space.expected(torch.from_numpy(X)))
        S_plus = (w[:, None] * Psi).T @ Psi / w.sum()
        S = S_plus + sum((w[:, None] * (Phi - Psi)).T @ (Phi - Psi) for Phi in Phis[:2]) / 2 / w.sum()
    else:
        S = sum((w[:, None] * Phi).T @ Phi for Phi in Phis) / 3 / w.sum()
        pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
        S_plus = sum((w[:, None] * Phis[a]).T @ Phis[b] for a, b in pairs) / 6 / w.sum()
    torch.testing.assert_close(model.moments_.S, S, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(model.moments_.S_plus, S_plus, rtol=1e-10, atol=1e-12)


def test_rows_of_weight_zero_are_left_out():
    """Of the landmarks, of the scales and of the moments: the model is that of the other rows."""
    weights = np.where(COUNTS > 0, 1.0, 0.0)
    poisoned = np.where(weights[:, None] > 0, X, 1e6)
    settings = {
        "n_components": 3,
        "dtype": "float64",
        "random_state": 0,
        "n_landmarks": 30,
        "loss": "kernel_pca",
    }
    weighted = KernelEmbedding(**settings).fit(poisoned, sample_weight=weights)
    without = KernelEmbedding(**settings).fit(X[weights > 0])
    assert (weights[weighted.landmark_indices_] > 0).all()
    assert np.array_equal(weighted.landmarks_, torch.from_numpy(X[weighted.landmark_indices_]))
    np.testing.assert_allclose(products(weighted), products(without), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("loss", ["kernel_pca", *PAIRED])
def test_equal_weights_change_nothing(loss):
    plain = KernelEmbedding(**SMALL, loss=loss, n_landmarks=30).fit(X)
    for weight in (2.5, np.full(len(X), 0.1)):
        weighted = KernelEmbedding(**SMALL, loss=loss, n_landmarks=30).fit(X, sample_weight=weight)
        assert weighted.history_[-1]["total"] == pytest.approx(plain.history_[-1]["total"], rel=1e-8)


def test_parts_with_weights_add_up():
    model = KernelEmbedding(**SMALL, n_landmarks=30).fit(X, sample_weight=COUNTS)
    parts = model.empty_copy().partial_fit(X[:70], sample_weight=COUNTS[:70])
    parts.partial_fit(X[70:], sample_weight=COUNTS[70:])
    torch.testing.assert_close(parts.moments_.S_12, model.moments_.S_12, rtol=1e-10, atol=1e-12)


def test_weights_are_routed_through_a_pipeline():
    model = KernelEmbedding(**SMALL, n_landmarks=30)
    expected = KernelEmbedding(**SMALL, n_landmarks=30).fit(X, sample_weight=COUNTS)
    with sklearn.config_context(enable_metadata_routing=True):
        embedding = model.set_fit_request(sample_weight=True)
        probe = LogisticRegression(max_iter=1000).set_fit_request(sample_weight=False)
        pipeline = make_pipeline(embedding, probe).fit(X, y, sample_weight=COUNTS)
    assert np.array_equal(pipeline[0].coefficients_, expected.coefficients_)


@pytest.mark.parametrize("loss", ["simclr", "byol", "autoencoder"])
def test_losses_of_samples_refuse_weights(loss):
    with refuses(ValueError, "sample_weight"):
        KernelEmbedding(**SMALL, loss=loss).fit(X, sample_weight=COUNTS)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (COUNTS[1:], ("(149,)", "(150,)")),
        (-COUNTS, "negative"),
        (np.where(COUNTS > 1, np.nan, 1.0), "NaN"),
        (np.zeros(150), ("zero", "row")),
        (["much"] * 150, ("number", "row")),
        (np.ones((150, 2)), "(150, 2)"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    with refuses(ValueError, message):
        KernelEmbedding(**SMALL).fit(X, sample_weight=weight)
