"""Kernels of patches as torch modules and ONNX files say what krepes says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_sample_image

from exported_models import assert_near, scored
from krepes import KernelEmbedding
from krepes.features import learn_patches
from krepes.kernels import Gaussian, Patches
from krepes.machines import GaussianProcessRegressor, KernelRidgeClassifier, NoveltyDetector

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

digits = load_digits()
GREY, Y = (digits.images[:90] * 15).astype(np.uint8), digits.target[:90]


def crops(side, n):
    """Parts of a photograph, in colour."""
    photo, rng = load_sample_image("china.jpg"), np.random.default_rng(0)
    corners = zip(rng.integers(0, 427 - side, n), rng.integers(0, 640 - side, n))
    return np.stack([photo[i : i + side, j : j + side] for i, j in corners])


KERNELS = [
    Patches(16),
    Patches(16, kernel="gaussian"),
    Patches(16, side=3, cells=3, pooling="gaussian", standardize=False, mirror=True),
    Patches(16, layers=2),
    Patches(16, precision="double", kernel="polynomial"),
    Patches(16) + Gaussian(),
    2.0 * (Patches(16, kernel="gaussian") * Gaussian()),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("pictures", [GREY, crops(12, 60)], ids=["grey", "colour"])
def test_pictures_are_represented(kernel, pictures, tmp_path):
    model = KernelEmbedding(3, kernel=kernel, loss="kernel_pca", n_landmarks=20, random_state=0)
    expected = model.fit(pictures[:40]).transform(pictures)
    assert_near(scored(model, {"X": pictures}, tmp_path / "m.onnx")["embedding"], expected)
    assert_near(model.as_module()(torch.from_numpy(pictures).float()).numpy(), expected)


def test_large_pictures_are_averaged_down(tmp_path):
    pictures = crops(90, 12)[:, :70]
    model = KernelEmbedding(2, kernel=Patches(8), loss="kernel_pca", n_landmarks=8, random_state=0)
    expected = model.fit(pictures).transform(pictures)
    assert_near(scored(model, {"X": pictures}, tmp_path / "m.onnx")["embedding"], expected)


def test_learned_patches(tmp_path):
    kernel = learn_patches(GREY / 255, n_components=6, kernel=Patches(16), random_state=0)
    model = KernelEmbedding(3, kernel=kernel, loss="kernel_pca", n_landmarks=20, random_state=0).fit(GREY)
    assert_near(scored(model, {"X": GREY}, tmp_path / "m.onnx")["embedding"], model.transform(GREY))


@pytest.mark.parametrize("kernel", [Patches(16), Patches(16, kernel="gaussian")], ids=str)
def test_machines(kernel, tmp_path):
    ridge = KernelRidgeClassifier(kernel=kernel, random_state=0).fit(GREY, Y)
    found = scored(ridge, {"X": GREY}, tmp_path / "m.onnx")
    assert_near(found["probabilities"], ridge.predict_proba(GREY))
    process = GaussianProcessRegressor(kernel=kernel, random_state=0).fit(GREY, Y.astype(float))
    found = scored(process, {"X": GREY}, tmp_path / "p.onnx")
    mean, deviation = process.predict(GREY, return_std=True)
    assert_near(found["prediction"], mean)
    assert_near(found["deviation"], deviation)
    if kernel.kernel == "gaussian":
        novelty = NoveltyDetector(kernel=kernel, random_state=0).fit(GREY)
        found = scored(novelty, {"X": GREY}, tmp_path / "n.onnx")
        assert_near(found["score"], novelty.score_samples(GREY))


@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_are_finite_differences_and_the_module_exports(layers):
    kernel = Patches(6, layers=layers, kernel="gaussian", precision="double")
    model = KernelEmbedding(
        2, kernel=kernel, loss="kernel_pca", n_landmarks=8, dtype="float64", random_state=0
    )
    pictures = GREY / 255.0 + np.random.default_rng(0).uniform(
        0, 0.1, GREY.shape
    )  # a flat patch has no gradient
    module = model.fit(pictures[:40]).as_module(dtype="float64")
    few = torch.from_numpy(pictures[:2]).requires_grad_()
    assert torch.autograd.gradcheck(module, few, eps=1e-6, atol=1e-4, rtol=1e-4)
    program = torch.export.export(module, (few.detach(),), dynamic_shapes={"X": {0: torch.export.Dim("n")}})
    more = torch.from_numpy(pictures)
    torch.testing.assert_close(program.module()(more), module(more))
    assert_near(module(more).numpy(), model.transform(pictures))


def test_a_module_takes_pictures_with_channels_first_and_no_other_shape():
    """Whatever had as many numbers was taken, and gave other results without a word."""
    pictures = crops(12, 60)
    module = KernelEmbedding(3, kernel="gaussian", n_landmarks=20, random_state=0).fit(pictures).as_module()
    X = torch.from_numpy(pictures[:5]).float()
    torch.testing.assert_close(module(X.permute(0, 3, 1, 2)), module(X))
    for wrong in (X.flatten(1), X.transpose(1, 3)[:, :, :6], X[:, :6]):
        with pytest.raises(ValueError, match=r"\(12, 12, 3\)"):
            module(wrong)
