"""KernelAutoencoder as it is used: tables, images, files, copies."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import krepes
from krepes import KernelAutoencoder
from krepes.kernels import Gaussian, Linear
from refusals import refuses

pytestmark = pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")

SMALL = {"n_components": 2, "max_iter": 10, "random_state": 0}


def people(n: int = 60) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    old = generator.random(n) < 0.5
    return pd.DataFrame(
        {
            "age": np.where(old, 70.0, 20.0) + generator.normal(size=n),
            "income": np.where(old, 1000.0, 5000.0) + 50 * generator.normal(size=n),
            "status": np.where(old, "retired", "student"),
        }
    )


def test_tables_come_back_in_their_columns():
    frame = people()
    model = KernelAutoencoder(**SMALL).fit(frame)
    rebuilt = model.reconstruct(frame).to_pandas()
    assert list(rebuilt) == list(frame)
    assert (rebuilt["status"] == frame["status"]).all()
    assert np.abs(rebuilt["age"] - frame["age"]).max() < 10
    assert np.abs(rebuilt["income"] - frame["income"]).max() < 1000
    assert model.get_feature_names_out().tolist() == ["kernelautoencoder0", "kernelautoencoder1"]


@pytest.mark.parametrize("preprocess", ["auto", "normalize"])
@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3)])
def test_images_come_back_in_their_shape_and_range(shape, preprocess):
    generator = np.random.default_rng(0)
    bright = generator.integers(0, 2, 40)
    noise = generator.integers(0, 20, (40, *shape))
    images = (200 * bright.reshape(-1, *[1] * len(shape)) + noise).astype(np.uint8)
    rebuilt = KernelAutoencoder(preprocess=preprocess, **SMALL).fit(images).reconstruct(images)
    assert rebuilt.shape == images.shape
    assert np.abs(rebuilt - images).max() < 40


@pytest.mark.parametrize("n_landmarks", [None, 15])
def test_a_file_keeps_the_model(tmp_path, n_landmarks):
    X = np.random.default_rng(0).normal(size=(40, 3))
    decoder = Gaussian() + 0.5 * Linear()
    model = KernelAutoencoder(n_landmarks=n_landmarks, decoder_kernel=decoder, **SMALL).fit(X)
    model.save(tmp_path / "m.krepes")
    for again in (krepes.load(tmp_path / "m.krepes"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.transform(X), model.transform(X))
        assert np.allclose(again.reconstruct(X), model.reconstruct(X), atol=1e-12)
        assert again.history_ == model.history_
        assert again.exact_ == model.exact_
        assert np.array_equal(again.bottleneck_, model.bottleneck_)
    loaded = krepes.load(tmp_path / "m.krepes").partial_fit(X + 1)
    assert np.allclose(loaded.reconstruct(X), model.partial_fit(X + 1).reconstruct(X))


def test_an_encoder_of_a_users_function_is_given_again(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))

    def kernel(A, B):
        return (A @ B.T + 1) ** 2

    model = KernelAutoencoder(kernel=kernel, **SMALL).fit(X)
    model.save(tmp_path / "m.krepes")
    with refuses(ValueError, "kernel=function"):
        krepes.load(tmp_path / "m.krepes")
    assert np.allclose(krepes.load(tmp_path / "m.krepes", kernel=kernel).transform(X), model.transform(X))


def test_same_seed_same_bits_and_rows_do_not_change():
    X = np.random.default_rng(0).normal(size=(40, 3))
    kept = X.copy()
    first, second = (KernelAutoencoder(n_landmarks=12, **SMALL).fit(X) for _ in range(2))
    assert np.array_equal(first.transform(X), second.transform(X))
    assert np.array_equal(first.reconstruct(X), second.reconstruct(X))
    assert np.array_equal(X, kept)


def test_parts_that_share_an_encoder_merge():
    X = np.random.default_rng(0).normal(size=(60, 3))
    first = KernelAutoencoder(n_landmarks=12, **SMALL).fit(X[:30])
    other = first.empty_copy().partial_fit(X[30:], first_row=30)
    whole = pickle.loads(pickle.dumps(first)).partial_fit(X[30:])
    assert np.allclose(first.merge(other).reconstruct(X), whole.reconstruct(X))
    different = KernelAutoencoder(n_landmarks=12, regularization=2.0, **SMALL).fit(X[:30])
    with refuses(ValueError, "bottleneck"):
        first.merge(different)


def test_rows_beyond_max_rows_serve_the_decoder():
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = KernelAutoencoder(n_landmarks=10, max_rows=20, **SMALL).fit(X)
    assert model.n_samples_seen_ == 80
    assert model.total_.n == 80
