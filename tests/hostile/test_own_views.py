"""Views of the user's own: classes, functions of one row, transforms that draw from global generators."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
import torch
from PIL import Image as Pictures
from PIL import ImageOps
from torch.utils.data import DataLoader

from krepes import KernelEmbedding
from krepes.base.random_streams import uniform
from krepes.views import Chain, Colour, Image, PerRow, Tabular, TimeSeries, Views
from refusals import refuses

IMAGES = np.random.default_rng(0).random((60, 6, 6, 3))
legacy = np.random  # the generator that transforms draw from
FLAT = np.random.default_rng(1).random((60, 5))


class InPlace(Views):
    n_views = 2

    def view(self, X, rows, seed, index):
        return X.mul_(1 + uniform(rows, 1, seed, index).to(X))


class FromGlobal(Views):
    n_views = 2

    def view(self, X, rows, seed, index):
        return X + 0.1 * torch.randn_like(X)


class ByBlock(Views):
    n_views = 2

    def view(self, X, rows, seed, index):
        return X + torch.randn(X.shape, generator=torch.Generator().manual_seed(seed + index), dtype=X.dtype)


class TorchvisionLike(torch.nn.Module):
    """Takes (c, h, w) and draws from torch's global generator."""

    def forward(self, image):
        assert image.shape == (3, 6, 6)
        return (image.flip(-1) if torch.rand(1) < 0.5 else image) * (0.8 + 0.4 * torch.rand(1))


def of_pictures(picture):
    """Takes a PIL image and draws from Python's generator, as old transforms do."""
    assert isinstance(picture, Pictures.Image)
    return ImageOps.mirror(picture) if random.random() < 0.5 else picture.rotate(random.uniform(-20, 20))


def lightly_like(image):
    """Returns its two views at once, drawn from numpy's generator; changes what it is given."""
    image *= 0.5
    return [image + legacy.rand() * 0.1 for _ in range(2)]


TRANSFORMS = {
    "torchvision": TorchvisionLike(),
    "PIL": PerRow(of_pictures, form="pil"),
    "lightly": lightly_like,
    "array": lambda image: image.numpy() + legacy.rand(),
    "chain": [Image(flip=0.5), TorchvisionLike(), "colour"],
}


def fit(views, X=IMAGES, **settings):
    given = {"n_landmarks": 15, "dtype": "float64", "random_state": 0} | settings
    return KernelEmbedding(2, views=views, **given).fit(X)


@pytest.mark.parametrize("X", [FLAT, torch.from_numpy(FLAT)], ids=["array", "tensor"])
@pytest.mark.parametrize("loss", ["spectral_contrastive", "byol"])
def test_views_that_work_in_place_leave_the_data_alone(X, loss):
    """U7: whatever a view does with what it is given, the caller's rows stay as they are."""
    before = np.array(X)
    fit(InPlace(), X, loss=loss, preprocess=None)
    np.testing.assert_array_equal(np.array(X), before)


@pytest.mark.parametrize("views", [FromGlobal(), ByBlock()])
def test_views_that_cannot_be_repeated_are_noticed(views):
    """U7: views from a global generator, or from one that starts anew with every block."""
    with pytest.warns(UserWarning, match="PerRow"):
        fit(views, FLAT)


def test_views_that_can_be_repeated_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(InPlace(), FLAT, preprocess=None)
        fit(TorchvisionLike())


@pytest.mark.parametrize("name", TRANSFORMS)
def test_any_callable_is_views_seeded_by_row(name):
    """U14: the same results whatever the global generators do, which a fit leaves as they are."""
    before = IMAGES.copy()
    torch.manual_seed(1)
    states = torch.get_rng_state(), random.getstate()
    first = fit(TRANSFORMS[name]).transform(IMAGES)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    torch.manual_seed(2)
    random.seed(2)
    legacy.seed(2)
    np.testing.assert_array_equal(fit(TRANSFORMS[name]).transform(IMAGES), first)
    np.testing.assert_array_equal(IMAGES, before)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_views_of_a_callable_do_not_depend_on_the_block(name):
    """U14: any rows in any order have the views that they have in the whole."""
    from krepes.views.chain import as_views

    X, rows = torch.from_numpy(IMAGES), torch.arange(60) + 1000
    views = as_views(TRANSFORMS[name]).fitted(X)
    chosen = torch.tensor([7, 3, 50])
    for whole, part in zip(views(X, rows, seed=4), views(X[chosen], rows[chosen], seed=4)):
        assert torch.equal(whole[chosen], part)
    assert not torch.equal(*views(X, rows, seed=4))


def test_what_a_callable_returns_is_checked():
    """U14: one or two sentences, with what was given."""
    with refuses(ValueError, "(3, 3, 3)", "(6, 6, 3)"):
        fit(lambda image: image[:, :3, :3])
    with refuses(TypeError, "NoneType", "tensor"):
        fit(lambda image: None)
    with refuses(ValueError, "NaN"):
        fit(lambda image: image * float("nan"))
    with refuses(ValueError, "pil"):
        fit(PerRow(of_pictures, form="pil"), IMAGES * 3)
    with refuses(ValueError, "parts"):
        fit(Chain([]))


def test_a_model_with_a_callable_is_saved(tmp_path):
    """U14: `transform` needs no views."""
    from krepes import load

    model = fit([TorchvisionLike(), Colour()])
    model.save(tmp_path / "model.krepes")
    np.testing.assert_array_equal(load(tmp_path / "model.krepes").transform(IMAGES), model.transform(IMAGES))


def test_colour_views_of_greys_and_colours():
    """U14: grey photographs have three equal channels; a hue of a whole turn's half and back is the image."""
    X, rows = torch.from_numpy(IMAGES), torch.arange(60)
    grey, _ = Colour(0, 0, 0, 0, grey=1.0).fitted(X)(X, rows, seed=0)
    assert torch.allclose(grey[..., 0], grey[..., 1])
    same, _ = Colour(0, 0, 0, 0, grey=0.0).fitted(X)(X, rows, seed=0)
    assert torch.allclose(same, X, atol=1e-3)
    bright, _ = Colour().fitted(X)(X, rows, seed=0)
    assert X.min() <= bright.min() <= bright.max() <= X.max()


@pytest.mark.parametrize("loss", ["byol", "spectral_contrastive"])
@pytest.mark.parametrize("views", ["tabular", [Tabular(), lambda x: x]], ids=["one", "chain"])
def test_views_of_vectors_refuse_rows_in_a_list_and_rows_of_nothing(views, loss):
    model = KernelEmbedding(2, views=views, loss=loss, n_landmarks=5)
    listed = DataLoader(torch.from_numpy(IMAGES), 7, collate_fn=list)
    with refuses(TypeError, "list", "torch.stack"):
        model.fit(listed)
    with refuses(ValueError, "zero", "(60, 0)"):
        model.fit([()] * 60)


def test_a_chain_takes_lists_where_every_part_does():
    series = [torch.rand(n, 2) for n in (3, 5, 4)]
    first, _ = Chain([TimeSeries(), lambda x: x + 1]).fitted(series)(series, torch.arange(3), seed=0)
    assert [len(x) for x in first] == [3, 5, 4]
    with refuses(TypeError, "Chain", "list"):
        Chain([TimeSeries(), Tabular()])(series, torch.arange(3), seed=0)
