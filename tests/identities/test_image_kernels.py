"""Pixels or patches: the rule against a loop, and what it takes for which images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding, load
from krepes.features.image_kernels import TriedByViews, choose_by_views, patches_for
from krepes.kernels import Gaussian, Patches
from krepes.machines import KernelRidgeClassifier
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates
from krepes.views import Image, NoViews

FEW = {"n_components": 2, "n_landmarks": 20, "random_state": 0}
MOVED = Image(shift=0.1, rotation=0.0, zoom=1.0, shear=0.0, padding="reflection")


def stripes(n: int = 80, side: int = 24) -> np.ndarray:
    """Stripes of n directions and widths: a view that moves them is another image to pixels, not to patches."""
    draws = np.random.default_rng(0)
    rows, columns = np.mgrid[:side, :side]
    angle, width, start = draws.uniform((0, 3, 0), (np.pi, 8, 2 * np.pi), (n, 3)).T[:, :, None, None]
    along = columns * np.cos(angle) + rows * np.sin(angle)
    return np.sin(2 * np.pi * along / width + start).astype(np.float32) / 2 + 0.5


def test_a_miss_is_a_nearer_view_of_another_image():
    """|psi(x_i) - psi(x'_j)| < |psi(x_i) - psi(x'_i)| for a j, in the kernel's space."""
    first = torch.rand(9, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    second = first + 0.4 * torch.rand(9, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    kernel = Gaussian(1.0)

    def distance(i: int, j: int) -> float:
        k = kernel(first[i : i + 1], second[j : j + 1])
        return (kernel.diag(first[i : i + 1]) + kernel.diag(second[j : j + 1]) - 2 * k).item()

    misses = [any(distance(i, j) < distance(i, i) for j in range(9) if j != i) for i in range(9)]
    found = TriedByViews.of(kernel, first, second)
    assert 0 < sum(misses) < 9
    assert found.misses.tolist() == misses
    assert found.error == pytest.approx(np.mean(misses))


def test_patches_are_taken_where_pixels_miss_views(tmp_path):
    X = stripes()
    model = KernelEmbedding(**FEW, views=MOVED).fit(X)
    pixels, patches = model.choice_.tried
    assert pixels.error > 1.5 * patches.error
    assert model.choice_.chosen is patches
    assert isinstance(model.kernel_, Patches)
    assert "Patches" in str(model.choice_)
    assert "Patches" in model._repr_html_()
    again = KernelEmbedding(**FEW, views=MOVED).fit(X)
    assert np.array_equal(again.transform(X), model.transform(X))
    model.save(tmp_path / "model.krepes")
    loaded = load(tmp_path / "model.krepes")
    assert isinstance(loaded.kernel_, Patches)
    assert loaded.choice_ is None
    assert np.array_equal(loaded.transform(X), model.transform(X))


def test_pixels_are_taken_where_chance_explains_the_difference():
    candidates = Candidates(torch.zeros(60, 8, 8), np.arange(60))  # all views are alike
    pixels, inputs = Gaussian(1.0), InputSpace("images", (8, 8))
    found = choose_by_views(pixels, candidates, inputs, NoViews(), seed=0)
    assert found.kernel is pixels
    assert [tried.error for tried in found.choice.tried] == [0.0, 0.0]


def test_a_kernel_that_is_named_is_not_compared():
    X = stripes(60)
    assert KernelEmbedding(**FEW, kernel="gaussian", views=MOVED).fit(X).choice_ is None


@pytest.mark.parametrize("shape", [(60, 4, 4), (40, 8, 8), (2, 8, 8), (60, 9, 9, 7), (60, 64)], ids=str)
def test_patches_are_not_tried_on(shape):
    """Tiny images, few images, many channels, and flattened images."""
    X = np.random.default_rng(0).random(shape)
    model = KernelEmbedding(**FEW, loss="kernel_pca").fit(X)
    assert model.choice_ is None
    assert not isinstance(model.kernel_, Patches)


def test_few_views_of_patches_are_drawn_unless_more_are_asked_for():
    X = stripes(60)
    assert KernelEmbedding(**FEW, kernel=Patches(8)).fit(X).views_.n_views == 2
    assert KernelEmbedding(**FEW, kernel="gaussian").fit(X).views_.n_views == 8
    more = Image(n_views=3)
    assert KernelEmbedding(**FEW, kernel=Patches(8), views=more).fit(X).views_.n_views == 3


def test_machines_try_patches_on_the_same_images():
    X, y = np.random.default_rng(0).random((40, 4, 4)), np.arange(40) % 2
    tried = KernelRidgeClassifier(random_state=0).fit(X, y).choice_.tried
    assert not any(isinstance(each.kernel, Patches) for each in tried)
    assert patches_for(InputSpace("images", (8, 8)), kernel="gaussian")[0].shape == (8, 8)
    assert patches_for(InputSpace("vectors", (64,))) == []
