"""Saved models come back whole, serve without krepes, and ask for what a file cannot hold."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from krepes import KernelEmbedding, load
from krepes.base.storage import model_file
from krepes.kernels import Custom, Gaussian, Laplacian
from krepes.views import Tabular
from refusals import refuses

X = load_iris().data
SMALL = {"n_components": 3, "n_landmarks": 40, "random_state": 0}
WORDS = ["kernel", "colonel", "cornel", "representation", "presentation", "station", "nation", "ration"] * 3


def common_letters(a: list[str], b: list[str]) -> np.ndarray:
    return np.array([[float(len(set(x) & set(y))) for y in b] for x in a])


@pytest.mark.parametrize("moments", [True, False])
@pytest.mark.parametrize(
    "kernel", ["gaussian", Gaussian([1.0, 2.0, 3.0, 4.0]), Laplacian() + 0.5 * Gaussian(2.0)]
)
def test_round_trip(tmp_path, moments, kernel):
    model = KernelEmbedding(kernel=kernel, **SMALL).fit(X)
    model.save(tmp_path / "a.krepes", moments=moments)
    again = load(tmp_path / "a.krepes")
    assert np.allclose(again.transform(X), model.transform(X), atol=1e-6)
    assert np.allclose(again.coverage(X), model.coverage(X), atol=1e-4)
    assert again.get_params().keys() == model.get_params().keys()
    assert again.history_ == model.history_
    assert (again.moments_ is not None) == moments


def test_a_loaded_model_goes_on(tmp_path):
    """Saving and loading between two partial fits changes nothing."""
    model = KernelEmbedding(**SMALL).partial_fit(X[:80])
    model.save(tmp_path / "a.krepes")
    again = load(tmp_path / "a.krepes").partial_fit(X[80:])
    model.partial_fit(X[80:])
    assert torch.equal(again.moments_.S_12, model.moments_.S_12)
    assert np.allclose(again.transform(X), model.transform(X), atol=1e-6)
    other = load(tmp_path / "a.krepes").refit(n_components=2)
    assert other.transform(X).shape == (150, 2)


def test_a_model_without_moments_says_so(tmp_path):
    KernelEmbedding(**SMALL).fit(X).save(tmp_path / "a.krepes", moments=False)
    model = load(tmp_path / "a.krepes")
    for action in (lambda: model.refit(n_components=2), lambda: model.partial_fit(X)):
        with refuses(ValueError, "moments=True"):
            action()


def test_frames_keep_their_encoder(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame["colour"] = np.where(np.arange(150) % 3 == 0, "red", "blue")
    model = KernelEmbedding(**SMALL).fit(frame)
    model.save(tmp_path / "a.krepes")
    again = load(tmp_path / "a.krepes")
    assert np.allclose(again.transform(frame), model.transform(frame), atol=1e-6)
    assert list(again.feature_names_in_) == [*"abcd", "colour"]


def test_objects_and_a_function_asked_for_at_load(tmp_path):
    model = KernelEmbedding(2, kernel=common_letters, loss="kernel_pca", n_landmarks=8, random_state=0).fit(
        WORDS
    )
    path = tmp_path / "words.krepes"
    model.save(path)
    with refuses(ValueError, "common_letters", "kernel=function"):
        load(path)
    with refuses(ValueError, "kernel"):
        load(path, kernel=lambda a, b: 2 * common_letters(a, b))
    again = load(path, kernel=common_letters)
    assert np.allclose(again.transform(["kernels"]), model.transform(["kernels"]))


def test_objects_that_are_not_json_are_refused(tmp_path):
    objects = [frozenset(word) for word in WORDS]
    overlap = Custom(lambda a, b: len(a & b), pairwise=True)
    model = KernelEmbedding(2, kernel=overlap, loss="kernel_pca", n_landmarks=8, random_state=0).fit(objects)
    with refuses(TypeError, "JSON"):
        model.save(tmp_path / "a.krepes")
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_given_without_need_is_refused(tmp_path):
    KernelEmbedding(**SMALL).fit(X).save(tmp_path / "a.krepes")
    with refuses(ValueError, "kernel=", "file"):
        load(tmp_path / "a.krepes", kernel=common_letters)


def test_existing_files_are_kept(tmp_path):
    model = KernelEmbedding(views=Tabular(n_views=3), **SMALL).fit(X)
    model.save(tmp_path / "a.krepes")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "a.krepes")
    model.save(tmp_path / "a.krepes", overwrite=True)
    sizes = model_file.sizes(tmp_path / "a.krepes")
    assert sizes[".solution.A"] == model.coefficients_.size * 4


PICTURES = np.random.default_rng(0).integers(0, 256, (40, 6, 6, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("kernel", "X"),
    [("auto", X), ("gaussian", X), ("auto", PICTURES), ("auto", PICTURES / 255.0)],
    ids=["auto", "gaussian", "bytes", "images"],
)
def test_serving_without_krepes(tmp_path, monkeypatch, kernel, X):
    """The code of docs/serving.md computes the transform with numpy and safetensors alone."""
    monkeypatch.chdir(tmp_path)
    model = KernelEmbedding(**SMALL, kernel=kernel).fit(X)
    model.save("model.krepes")
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)
    assert "krepes" not in code.replace("model.krepes", "").replace('metadata()["krepes"]', "")
    namespace: dict = {}
    exec(code, namespace)
    assert np.allclose(namespace["transform"](X), model.transform(X), atol=1e-4)


def test_image_folders_are_read_at_the_size_of_the_model(tmp_path):
    """A model fitted at one size brings the images of another folder to it."""
    from PIL import Image as Picture

    from krepes.sources import open_source

    rng = np.random.default_rng(0)
    for i in range(30):
        side = 12 + i % 3
        pixels = rng.integers(0, 256, (side, side), dtype=np.uint8)
        folder = tmp_path / "images" / ("even" if i % 2 == 0 else "odd")
        folder.mkdir(parents=True, exist_ok=True)
        Picture.fromarray(pixels).save(folder / f"{i}.png")
    source = open_source(tmp_path / "images", size=8)
    model = KernelEmbedding(**SMALL).fit(source)
    model.save(tmp_path / "a.krepes")
    again = load(tmp_path / "a.krepes")
    assert np.allclose(again.transform(tmp_path / "images"), model.transform(source), atol=1e-5)
    assert model.n_features_in_ == 64


def test_a_function_inside_a_sum_is_asked_for(tmp_path):
    def agreement(A, B):
        return torch.as_tensor(A) @ torch.as_tensor(B).T

    model = KernelEmbedding(kernel=Gaussian(1.0) + 0.1 * Custom(agreement), **SMALL).fit(X)
    model.save(tmp_path / "a.krepes")
    with refuses(ValueError, "kernel=function"):
        load(tmp_path / "a.krepes")
    again = load(tmp_path / "a.krepes", kernel=agreement)
    assert np.allclose(again.transform(X), model.transform(X), atol=1e-5)
