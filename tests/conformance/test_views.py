"""What every views class promises, for all that can be given by name, and for rows as they are."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from krepes.base.components import named, resolve
from krepes.views import NoViews, Paired, Views

DRAWN = sorted(named(Views))
DTYPES = [torch.float32, torch.float64]


def images(n: int = 40, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Images 6 x 7: image views see pictures, tabular views 42 columns."""
    return torch.rand(n, 6, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def fitted(name: str, X: torch.Tensor, **params) -> Views:
    return resolve(Views, name).set_params(**params).fitted(X, torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", DTYPES)
def test_views_keep_shape_and_dtype_and_leave_the_input_alone(name, dtype):
    X = images(dtype=dtype)
    before = X.clone()
    views = fitted(name, X, n_views=3)(X, torch.arange(40), seed=5)
    assert [(view.shape, view.dtype) for view in views] == [(X.shape, dtype)] * 3
    assert torch.equal(X, before)
    for view in views:
        view.zero_()
    assert torch.equal(X, before)


@pytest.mark.parametrize("name", DRAWN)
def test_views_of_one_row_differ_and_seeds_differ_but_repeat(name):
    X, rows = images(), torch.arange(40)
    views = fitted(name, X)
    first, second = views(X, rows, seed=3)
    again, _ = views(X, rows, seed=3)
    other, _ = views(X, rows, seed=4)
    assert torch.equal(first, again)
    for different in (second, other, X):
        assert all(not torch.equal(a, b) for a, b in zip(first, different))


@pytest.mark.parametrize("name", DRAWN)
@given(data=st.data())
def test_a_view_depends_on_the_row_and_not_on_its_block(name, data):
    """Any rows in any order, however far apart, give bit for bit the views they have in the whole."""
    dtype = data.draw(st.sampled_from(DTYPES))
    X, seed = images(dtype=dtype), data.draw(st.integers(-(2**70), 2**70))
    rows = torch.tensor(data.draw(st.lists(st.integers(0, 2**40), min_size=40, max_size=40, unique=True)))
    chosen = torch.tensor(data.draw(st.lists(st.integers(0, 39), min_size=1, max_size=60)))
    extra = {"image": {"padding": "border", "flip": 0.5}, "series": {}, "colour": {"grey": 0.5}}.get(
        name, {"replace": 0.3}
    )
    views = fitted(name, X, **extra)
    whole = views(X, rows, seed)
    part = views(X[chosen], rows[chosen], seed)
    for a, b in zip(whole, part):
        assert torch.equal(a[chosen], b)


@pytest.mark.parametrize("name", DRAWN)
def test_float32_and_float64_data_see_the_same_augmentations(name):
    X, rows = images(), torch.arange(40)
    wide = fitted(name, X)(X, rows, seed=0)
    narrow = fitted(name, X.float())(X.float(), rows, seed=0)
    for a, b in zip(wide, narrow):
        assert (a - b).abs().max() < 1e-5


@pytest.mark.parametrize("name", DRAWN)
def test_views_survive_clone_and_a_model_file(name):
    X, rows = images(), torch.arange(40)
    views = fitted(name, X)
    assert clone(views).get_params() == views.get_params()
    restored = type(views).__new__(type(views))
    for key, value in vars(views).items():
        setattr(restored, key, value if isinstance(value, torch.Tensor) else json.loads(json.dumps(value)))
    assert torch.equal(restored(X, rows, seed=9)[1], views(X, rows, seed=9)[1])


@pytest.mark.parametrize("name", DRAWN)
def test_empty_blocks_are_blocks(name):
    X = images()
    views = fitted(name, X)(X[:0], torch.arange(0), seed=0)
    assert [view.shape for view in views] == [(0, 6, 7)] * 2


def test_rows_without_views_are_themselves():
    X = images()
    assert NoViews()(X, torch.arange(40), seed=0)[0] is X
    assert NoViews().n_views == 1


def test_only_given_pairs_have_an_order():
    assert not Paired.exchangeable
    assert Paired().n_views == 2
    assert all(cls.exchangeable for cls in named(Views).values())
