"""Folds that make no sense, or hold no rows, get a right answer or an error that says what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from krepes import KernelEmbedding, load
from krepes.base.blocks import Block
from krepes.base.split import ByFold
from refusals import refuses, warns_of

X = load_iris().data
SMALL = {"n_landmarks": 20, "random_state": 0}
FOLD = ByFold(5)(Block(torch.arange(len(X)), (torch.from_numpy(X),)))


def fitted(n_components=2, **params) -> KernelEmbedding:
    return KernelEmbedding(n_components, **{"n_folds": 5, **SMALL, **params}).fit(X)


@pytest.mark.parametrize("n_folds", [-1, 0, 1, 2, 2.5, "5", True, np.nan])
def test_a_number_of_folds_is_at_least_three(n_folds):
    with refuses(ValueError, "n_folds=", "3"):
        fitted(n_folds=n_folds)


@pytest.mark.parametrize("n_components", [0, -3, 2.5, "all", None])
def test_a_width_is_a_number_or_auto(n_components):
    with refuses(ValueError, "n_components=", "1", "'auto'"):
        fitted(n_components)


@pytest.mark.parametrize("loss", ["simclr", "byol", "autoencoder"])
@pytest.mark.parametrize("params", [{"n_folds": 5}, {"n_folds": None, "n_components": "auto"}], ids=str)
def test_losses_of_samples_have_no_folds(loss, params):
    with refuses(ValueError, "moments", "fold"):
        fitted(loss=loss, **params)
    model = fitted()
    with refuses(ValueError, "samples"):
        model.held_out_loss(loss=loss)


def test_a_model_without_folds_says_what_is_missing():
    model = KernelEmbedding(2, **SMALL).fit(X)
    for method in (model.held_out_loss, model.held_out_correlations):
        with refuses(ValueError, "n_folds=5"):
            method()
    with refuses(ValueError, "n_components='auto'", "moments", "fold"):
        model.refit(n_components="auto")
    with refuses(ValueError, "held_out_loss", "rows"):
        fitted().empty_copy().held_out_loss()


def test_one_view_has_no_correlations():
    model = fitted(loss="kernel_pca")
    assert np.isfinite(model.held_out_loss().values).all()
    with refuses(ValueError, "correlations", "views"):
        model.held_out_correlations()


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8])
def test_fewer_rows_than_folds(n):
    """The fit is that without folds; held-out values are finite, or refused."""
    model = KernelEmbedding(1, n_folds=50, **SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[::20][:n])
        plain = KernelEmbedding(1, **SMALL).fit(X[::20][:n])
    np.testing.assert_allclose(np.abs(model.transform(X)), np.abs(plain.transform(X)), atol=1e-4)
    assert len(model.total_) <= n
    if len(model.total_) >= 3:
        assert np.isfinite(model.held_out_loss().values).all()
    else:
        with refuses(ValueError, "folds", "rows"):
            model.held_out_loss()


def test_auto_with_all_rows_in_one_fold():
    weight = (FOLD == 2).astype(float)
    with refuses(ValueError, "2 folds"):
        KernelEmbedding("auto", **SMALL).fit(X, sample_weight=weight)


def test_weights_in_one_fold(tmp_path):
    """Folds without weight are left out, also of the file; those with little weight count as folds."""
    model = KernelEmbedding(2, n_folds=5, **SMALL).fit(X, sample_weight=(FOLD == 2).astype(float))
    assert list(model.total_) == [2]
    model.save(tmp_path / "a.krepes")
    assert list(load(tmp_path / "a.krepes").total_) == [2]
    with refuses(ValueError, "1 fold"):
        model.held_out_loss()
    heavy = KernelEmbedding(2, n_folds=5, **SMALL).fit(X, sample_weight=np.where(FOLD == 2, 1e6, 1e-3))
    assert np.isfinite(heavy.held_out_loss().values).all()


def test_a_fold_without_rows():
    rows = FOLD != 3
    model = KernelEmbedding(2, n_folds=5, **SMALL).fit(X, sample_weight=rows.astype(float))
    assert sorted(model.total_) == [0, 1, 2, 4]
    assert model.held_out_loss().values.shape == (4,)
    assert model.held_out_correlations().values.shape == (4, 2)


def test_a_fit_that_learned_nothing_says_so():
    """Positives that have nothing to do with their rows."""
    A, B = np.random.default_rng(0).normal(size=(2, 300, 4))
    for loss in ("spectral_contrastive", "barlow_twins", "vicreg"):
        with warns_of(UserWarning, "rows"):
            KernelEmbedding(4, loss=loss, n_folds=5, regularization=0.01, **SMALL).fit(A, positives=B)


@pytest.mark.parametrize("loss", ["spectral_contrastive", "kernel_pca", "vicreg", "barlow_twins"])
def test_a_fit_that_learned_something_does_not(loss):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(loss=loss)
