"""Views of series against a naive loop, and what they keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.base.random_streams import normal, uniform
from krepes.views import TimeSeries

T, C = 9, 2
X = torch.randn(5, T, C, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = torch.tensor([3, 100, 7, 2**40, 0])


def naive_view(x, row, seed, index, views, mean, scale):
    """One view, by the formula of the module: step after step, channel after channel."""
    length, place, amplitude, *waves = uniform([row], 6, seed, index, 0)[0].double().tolist()
    noise = normal([row], x.size, seed, index, 1)[0].reshape(x.shape).numpy()
    share = views.crop + (1 - views.crop) * length
    factor = views.scaling ** (2 * amplitude - 1)
    found = np.empty_like(x)
    for i in range(len(x)):
        u = i / (len(x) - 1)
        bent = sum(
            (2 * b - 1) * math.sin(math.pi * k * u) / (math.pi * k) for k, b in enumerate(waves, start=1)
        )
        at = ((1 - share) * place + share * (u + views.warp / 3 * bent)) * (len(x) - 1)
        for c in range(x.shape[1]):
            value = np.interp(at, np.arange(len(x)), x[:, c])
            found[i, c] = mean[c] + factor * (value - mean[c]) + views.noise * scale[c] * noise[i, c]
    return found


@pytest.mark.parametrize(
    "params",
    [{}, {"noise": 0}, {"crop": 1}, {"warp": 0}, {"scaling": 1}, {"warp": 0.9, "crop": 0.2}],
    ids=str,
)
def test_a_view_is_its_formula(params):
    views = TimeSeries(**params).fitted(X)
    points = X.reshape(-1, C).numpy()
    for index, view in enumerate(views(X, ROWS, seed=4)):
        for i, row in enumerate(ROWS.tolist()):
            expected = naive_view(X[i].numpy(), row, 4, index, views, points.mean(0), points.std(0))
            np.testing.assert_allclose(view[i], expected, atol=1e-6)


def test_nothing_changes_a_series_where_all_strengths_are_zero():
    views = TimeSeries(noise=0, scaling=1, crop=1, warp=0).fitted(X)
    torch.testing.assert_close(views(X, ROWS, seed=0)[0], X)


def test_time_never_runs_backwards():
    line = torch.linspace(0, 1, 50, dtype=torch.float64).expand(200, 50)
    views = TimeSeries(noise=0, scaling=1, crop=0.3, warp=0.99).fitted(line)
    assert (views(line, torch.arange(200), seed=0)[0].diff(dim=1) > 0).all()


def test_a_list_of_series_has_the_views_of_the_array():
    views = TimeSeries().fitted(X)
    for whole, parts in zip(views(X, ROWS, seed=1), views(list(X), ROWS, seed=1)):
        assert torch.equal(whole, torch.stack(parts))


def test_series_of_one_step_stay_one_step():
    single = X[:, :1]
    torch.testing.assert_close(TimeSeries(noise=0, scaling=1).fitted(single)(single, ROWS, seed=0)[0], single)


@pytest.mark.parametrize("ragged", [False, True])
def test_channels_are_standardised_and_undone(ragged):
    """A model of series does not see the units of the channels."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(12 + (i % 3 if ragged else 0), C)) for i in range(40)]
    rows = rows if ragged else np.stack(rows)
    other = [x * [1000, 0.01] + [5, -3] for x in rows] if ragged else rows * [1000, 0.01] + [5, -3]
    options = {"n_landmarks": 10, "preprocess": "series", "dtype": "float64", "random_state": 0}
    model = KernelEmbedding(2, **options).fit(rows)
    again = KernelEmbedding(2, **options).fit(other)
    np.testing.assert_allclose(again.transform(other), model.transform(rows), atol=1e-6)
    if not ragged:
        back = model.input_space_.restored(model.input_space_.tensor(rows, torch.float64))
        np.testing.assert_allclose(back, rows, atol=1e-12)
