"""Series that are empty, broken or of the wrong shape, and arrays that may be series or images."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from krepes import KernelEmbedding, load
from krepes.kernels import Gaussian, GlobalAlignment, RandomWarping
from krepes.report import write_report
from krepes.views import Image, TimeSeries
from refusals import refuses, warns_of

rng = np.random.default_rng(0)
ARRAY = rng.normal(size=(40, 12, 2))
RAGGED = [rng.normal(size=(8 + i % 4, 2)) for i in range(40)]


def model(**params) -> KernelEmbedding:
    return KernelEmbedding(2, **{"n_landmarks": 8, "preprocess": "series", "random_state": 0} | params)


def with_row(row):
    return [*RAGGED[:5], row, *RAGGED[5:]]


REFUSED = {
    "zero-length": (with_row(np.zeros((0, 2))), ValueError, ("5", "Series", "empty")),
    "nan": (with_row(np.array([[0.0, np.nan]])), ValueError, ("5", "NaN")),
    "nan in an array": (np.where(ARRAY > 2, np.nan, ARRAY), ValueError, "NaN"),
    "channels": (with_row(np.zeros((4, 3))), ValueError, ("5", "3 channels", "2")),
    "text": (with_row("abc"), TypeError, "Row 5"),
    "dimensions": (with_row(np.zeros((2, 2, 2))), ValueError, ("5", "(2, 2, 2)")),
    "images": (np.zeros((5, 4, 4, 3)), ValueError, "preprocess='series'"),
    "table": ({"a": [1.0, 2.0]}, ValueError, "preprocess='series'"),
    "empty list": ([], ValueError, "0 sample"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_series_says_why(name):
    data, kind, message = REFUSED[name]
    with refuses(kind, message):
        model(n_landmarks=40).fit(data)


def test_the_defaults_are_those_of_series():
    fitted = model().fit(ARRAY)
    assert isinstance(fitted.kernel_, Gaussian)
    assert isinstance(fitted.views_, TimeSeries)
    assert fitted.n_features_in_ == 24
    ragged = model().fit(RAGGED)
    assert isinstance(ragged.kernel_, RandomWarping)
    assert isinstance(ragged.views_, TimeSeries)
    assert not hasattr(ragged, "n_features_in_")


def test_later_series_must_fit():
    fitted, ragged = model().fit(ARRAY), model().fit(RAGGED)
    for wrong in (ARRAY[:, :9], RAGGED):
        with refuses(ValueError, "12", "fitted", "series", "list"):
            fitted.transform(wrong)
    for one in (fitted, ragged):
        with refuses(ValueError, "2", "fitted"):
            one.transform(ARRAY[:, :, :1])
    assert ragged.transform(ARRAY[:3]).shape == (3, 2)


def test_one_channel_needs_no_axis():
    flat = ARRAY[:, :, 0]
    np.testing.assert_allclose(
        model().fit(flat).transform(flat), model().fit(ARRAY[:, :, :1]).transform(flat)
    )


@pytest.mark.parametrize("kernel", ["auto", GlobalAlignment()], ids=str)
def test_models_of_ragged_series_are_saved(kernel, tmp_path):
    fitted = model(kernel=kernel).fit(RAGGED)
    fitted.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").transform(RAGGED), fitted.transform(RAGGED))


@pytest.mark.parametrize("data", [ARRAY, RAGGED], ids=["array", "list"])
def test_every_way_to_fit_takes_series(data, tmp_path):
    """All points as landmarks, training on samples, parts, checkpoints and reports."""
    everything = model(n_landmarks=None).fit(data)
    assert len(everything.landmarks_) == 40 * everything.views_.n_views
    trained = model(loss="byol", solver="sgd").set_params(solver__max_epochs=1).fit(data)
    parts = model().partial_fit(data[:20]).partial_fit(data[20:])
    resumed = model().fit(data, checkpoint=tmp_path / "c")
    for one in (everything, trained, parts, resumed):
        assert np.isfinite(one.transform(data)).all()
    write_report(resumed, data, tmp_path / "r.html")


def test_loaders_give_series_too():
    loader = DataLoader(TensorDataset(torch.from_numpy(ARRAY)), batch_size=7)
    np.testing.assert_allclose(
        model().fit(loader).transform(loader), model().fit(ARRAY).transform(ARRAY), atol=1e-5
    )
    ragged = DataLoader(RAGGED, batch_size=7, collate_fn=list)
    np.testing.assert_allclose(
        model().fit(ragged).transform(ragged), model().fit(RAGGED).transform(RAGGED), atol=1e-5
    )


def test_a_narrow_array_says_that_it_was_taken_for_images():
    series, plain = rng.normal(size=(30, 50, 3)), {"n_landmarks": 8, "random_state": 0}
    with warns_of(UserWarning, "50", "3", "preprocess='series'"):
        KernelEmbedding(2, **plain).fit(series)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelEmbedding(2, views=Image(), **plain).fit(series)
        KernelEmbedding(2, preprocess=None, **plain).fit(series)
        KernelEmbedding(2, preprocess="series", **plain).fit(series)
        KernelEmbedding(2, kernel=GlobalAlignment(), loss="kernel_pca", **plain).fit(series[:, :6])
        KernelEmbedding(2, **plain).fit(rng.random(size=(30, 8, 8)))
        KernelEmbedding(2, **plain).fit(rng.integers(0, 255, size=(30, 16, 4)))


@pytest.mark.parametrize(
    "params",
    [{"noise": -1}, {"scaling": 0.5}, {"crop": 0}, {"crop": 1.1}, {"warp": 1}, {"warp": "a"}, {"n_views": 1}],
)
def test_strengths_that_make_no_sense_are_refused(params):
    with refuses(ValueError, f"{next(iter(params))}="):
        TimeSeries(**params).check()


def test_views_of_series_must_know_their_channels():
    with refuses(ValueError, "fitted"):
        TimeSeries()(torch.zeros(2, 3, 1), torch.arange(2), seed=0)
    with refuses(ValueError, "expected"):
        TimeSeries().fitted(torch.zeros(2, 3, 4, 5))
