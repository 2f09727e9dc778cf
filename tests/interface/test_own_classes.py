"""Models with views, landmark rules and losses of users: saved, loaded, fitted again, and refused in words."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding, load
from krepes.landmarks import LandmarkSelector
from krepes.losses import MomentLoss
from krepes.views import Views
from refusals import refuses, warns_of

X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)


class Jitter(Views):
    def __init__(self, n_views=2, value=0.1):
        self.n_views = n_views
        self.value = value

    def view(self, X, rows, seed, index):
        generator = torch.Generator().manual_seed(seed + index)
        return X + self.value * torch.randn(X.shape, generator=generator)


class First(LandmarkSelector):
    """The first candidates, as what `given` makes of them."""

    def __init__(self, given=torch.as_tensor, max_candidates=None, views_per_landmark=1):
        super().__init__(max_candidates, views_per_landmark)
        self.given = given

    def choose(self, candidates, kernel, n_landmarks, generator):
        return self.given(list(range(n_landmarks)))


class Alike(MomentLoss):
    def of_statistics(self, statistics):
        return {"alike": -statistics.alignment, "negative": statistics.negative_alignment}


def fit(**parameters):
    return KernelEmbedding(2, n_landmarks=20, random_state=0, **parameters).fit(X)


def saved(model, tmp_path):
    model.save(tmp_path / "model")
    found = load(tmp_path / "model")
    assert np.array_equal(found.transform(X), model.transform(X))
    return found


def test_a_model_with_views_of_a_user_is_saved(tmp_path):
    """U6: `transform` needs no views. What needs them names them."""
    found = saved(fit(views=Jitter()), tmp_path)
    assert "Jitter" in repr(found.views)
    found.refit(loss="barlow_twins").transform(X)
    with refuses(ValueError, "Jitter", "views=..."):
        found.partial_fit(X)
    with refuses(ValueError, "Jitter", "views=..."):
        found.fit(X)
    again = found.set_params(views=Jitter()).fit(X)
    assert saved(again, tmp_path / "..").transform(X).shape == (200, 2)
    found.save(tmp_path / "second")
    assert "Jitter" in repr(load(tmp_path / "second").set_params().get_params()["views"])


def test_a_model_with_a_landmark_rule_of_a_user_is_saved(tmp_path):
    """U6: the landmarks are in the file. A fit from scratch names the rule."""
    found = saved(fit(landmarks=First()), tmp_path)
    found.refit(regularization=0.1).transform(X)
    found.partial_fit(X)
    with refuses(ValueError, "First", "landmarks=..."):
        found.fit(X)
    found.set_params(landmarks="uniform").fit(X)


def test_a_model_with_a_moment_loss_of_a_user_is_refitted(tmp_path):
    """U5: the moments are in the file, and another loss can be minimised over them; it asked for samples."""
    model = fit(loss=Alike())
    found = saved(model, tmp_path)
    other = found.refit(loss="barlow_twins")
    np.testing.assert_allclose(other.transform(X), model.refit(loss="barlow_twins").transform(X), atol=1e-5)
    np.testing.assert_allclose(found.refit(loss=Alike()).transform(X), model.transform(X), atol=1e-4)
    with refuses(ValueError, "Alike", "refit(loss=...)"):
        found.refit(regularization=0.1)


@pytest.mark.parametrize("given", [np.array, list, lambda i: torch.tensor(i).float(), np.float64])
def test_landmark_rules_may_return_any_indices(given):
    """U13: numpy arrays and floats failed with an error of torch's."""
    assert np.array_equal(fit(landmarks=First(given)).landmarks_, fit(landmarks=First()).landmarks_)


@pytest.mark.parametrize(
    "given",
    [lambda i: [x + 0.5 for x in i], lambda i: [-1, 2], lambda i: [3, 3], lambda i: [10**6], lambda i: 3],
)
def test_landmark_rules_that_return_something_else_are_named(given):
    """U13."""
    with refuses(ValueError, "First", "indices"):
        fit(landmarks=First(given))


def test_views_that_are_not_finite_are_named():
    """U13: it was "lam=nan: expected a finite number"."""
    with refuses(ValueError, "Jitter", "NaN"):
        fit(views=Jitter(value=float("nan")))


def test_torch_dtypes_are_taken():
    """U13."""
    assert np.array_equal(fit(dtype=torch.float64).transform(X), fit(dtype="float64").transform(X))
    with refuses(ValueError, "float16", "'float32'"):
        fit(dtype=torch.float16)


def test_a_module_as_a_kernel_says_what_to_write():
    """U13: a module is callable, and was taken for k(X, Y)."""
    with refuses(TypeError, "Linear", "EmpiricalNTK(module)"):
        fit(kernel=torch.nn.Linear(4, 3))


def test_rows_of_the_right_size_and_another_shape_are_told_the_shape():
    """U13: "X has 64 features, but krepes is expecting 64 features"."""
    model = KernelEmbedding(2, n_landmarks=20).fit(np.random.default_rng(0).random((50, 8, 8)))
    with refuses(ValueError, "(64,)", "(8, 8)", "reshape(-1, 8, 8)"):
        model.transform(np.zeros((5, 64)))


@pytest.mark.parametrize("loss", ["spectral_contrastive", "kernel_pca"])
def test_ragged_series_get_a_hint(loss):
    """U13."""
    series = [np.random.default_rng(i).random((5 + i % 3, 2)) for i in range(40)]
    with refuses((TypeError, ValueError), "preprocess='series'"):
        KernelEmbedding(2, n_landmarks=20, loss=loss).fit(series)


def test_a_loss_without_a_lower_bound_is_named():
    """U12: it ended at -3.8e305 in silence."""
    with warns_of(UserWarning, "lower bound", "unbounded"):
        fit(loss=unbounded)


def unbounded(Z1, Z2):
    return -((Z1 * Z2).sum(1).mean() ** 3)


def test_a_loss_that_collapses_is_named():
    """U12: all rows in one point minimise the distance of two views."""
    with warns_of(UserWarning, "collapsed"):
        fit(loss=lambda Z1, Z2: (Z1 - Z2).square().sum(1).mean())


class Runaway(MomentLoss):
    def of_statistics(self, statistics):
        return {"alike": -statistics.alignment}


def test_a_moment_loss_without_a_lower_bound_is_named():
    """U12."""
    with warns_of(UserWarning, "lower bound", "Runaway"):
        fit(loss=Runaway())


@pytest.mark.filterwarnings("error")
def test_a_loss_with_a_minimum_gets_no_warning():
    """U12: a distance and a variance."""
    fit(loss=lambda Z1, Z2: (Z1 - Z2).square().mean() + (1 - Z1.std(0)).square().mean())
