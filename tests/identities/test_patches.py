"""Kernels on patches: theorems, each against a naive loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from krepes import KernelEmbedding
from krepes.base.blocks import Block
from krepes.base.linalg import inverse_sqrt
from krepes.explain import matching_maps, position_maps
from krepes.explain.position_maps import own_maps
from krepes.features import PatchMoments, learn_patches
from krepes.kernels import Gaussian, Patches
from krepes.kernels.patches.layer import PatchLayer
from krepes.machines import KernelRidgeClassifier
from refusals import refuses
from tolerances import assert_same


def pictures(n: int = 12, shape: tuple[int, ...] = (8, 9, 2), seed: int = 0) -> torch.Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def naive_patches(image: np.ndarray, side: int, floor: float, whitening: np.ndarray) -> dict:
    """The patch of every position, beyond the edge reflected, without its mean and contrast, whitened."""
    height, width, _ = image.shape
    before = (side - 1) // 2
    found = {}
    for i in range(height):
        for j in range(width):
            rows = [reflected(i - before + a, height) for a in range(side)]
            columns = [reflected(j - before + b, width) for b in range(side)]
            patch = np.array([[image[r, c] for c in columns] for r in rows])
            patch = patch.ravel() - patch.mean()
            found[i, j] = patch / math.sqrt(np.mean(patch**2) + floor) @ whitening
    return found


def reflected(i: int, n: int) -> int:
    return -i if i < 0 else 2 * (n - 1) - i if i >= n else i


def naive_kernel(left: dict, right: dict, height: int, width: int, cells: int, bandwidth: float) -> float:
    """The sum over cells of the mean over pairs of patches of |p| |q| exp(g (cos - 1)) / d."""
    total = 0.0
    for a in range(cells):
        for b in range(cells):
            rows = range(a * height // cells, math.ceil((a + 1) * height / cells))
            columns = range(b * width // cells, math.ceil((b + 1) * width / cells))
            places = [(i, j) for i in rows for j in columns]
            for p in (left[place] for place in places):
                for q in (right[place] for place in places):
                    lengths = np.linalg.norm(p) * np.linalg.norm(q)
                    cosine = p @ q / lengths
                    total += lengths / len(p) * math.exp(bandwidth * (cosine - 1)) / len(places) ** 2
    return total


def test_the_kernel_is_the_mean_over_all_pairs_of_patches():
    """With every patch in the dictionary, nothing is approximated."""
    X = pictures(3, (7, 8, 2))
    kernel = Patches(8192, side=3, cells=2, bandwidth=1.5, standardize=False, precision="double")
    kernel = kernel.fitted(X)
    layer = kernel.layers_[0]
    assert len(layer.dictionary_) == 3 * 7 * 8
    each = [naive_patches(image, 3, layer.floor_, layer.whitening_.numpy()) for image in X.numpy()]
    expected = [[naive_kernel(a, b, 7, 8, 2, 1.5) for b in each] for a in each]
    assert np.abs(kernel(X).numpy() - expected).max() <= 1e-10 * np.max(expected)


def test_whitened_patches_have_unit_second_moments():
    X = pictures(40)
    layer = Patches(16, side=3, whitening=0.0).fitted(X).layers_[0]
    assert layer.whitening_.shape == (18, 18)
    p = layer.contrasted(layer.cut(X)).flatten(0, 2) @ layer.whitening_
    S = p.mT @ p / len(p)
    values = torch.linalg.eigvalsh(S)  # the mean of a patch is zero: one direction is empty
    assert values[0].abs() < 1e-6
    assert_same(values[1:], torch.ones(17, dtype=torch.float64))


@pytest.mark.parametrize("kernel", ["linear", Gaussian(0.7)], ids=str)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("pooling", ["average", "gaussian"])
def test_heat_maps_add_up_to_the_score(kernel, layers, pooling):
    """f(I) - f(blank) is the sum over positions of what each adds."""
    X = pictures()
    kernel = Patches(
        8, 3, pooling=pooling, layers=layers, mirror=True, kernel=kernel, precision="double"
    ).fitted(X)
    A = torch.randn(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = kernel(X) @ A
    start = (kernel.top(kernel.blank_like(X), kernel.features(X)) @ A).item()
    maps = kernel.contributions(X, X, A)
    assert maps.shape == ((12, 8, 9) if layers == 1 else (12, 4, 5))
    assert (maps.sum((1, 2)) + start - scores).abs().max() <= 1e-10 * scores.abs().max()


def test_a_position_adds_what_its_patch_is_worth():
    """The map of the linear kernel is |p| <psi(p), direction>: a picture that differs in one corner differs there."""
    X = pictures(6, (12, 12))
    kernel = Patches(8, side=3, precision="double").fitted(X)
    other = X.clone()
    other[:, 0, 0] += 0.5
    A = torch.eye(6, dtype=torch.float64)[0]
    changed = kernel.contributions(other, X, A) - kernel.contributions(X, X, A)
    assert changed[:, 3:, 3:].abs().max() < 1e-12
    assert changed[:, :2, :2].abs().max() > 1e-6


def test_pooled_features_are_standardised_and_mirror_images_may_be_the_same():
    X = pictures(30)
    kernel = Patches(8, mirror=True, precision="double").fitted(X)
    Psi = kernel.features(X)
    assert_same(Psi.mean(0), torch.zeros(32, dtype=torch.float64))
    assert_same(Psi.square().mean(0), torch.full((32,), 1 / 32, dtype=torch.float64))
    assert_same(kernel.features(X.flip(2)), Psi)


def test_flattened_grey_and_colour_pictures_are_read_alike():
    X = pictures(12, (8, 8, 3))
    kernel = Patches(8).fitted(X)
    flat = Patches(8, shape=(8, 8, 3)).fitted(X.flatten(1))
    assert torch.equal(kernel(X), flat(X.flatten(1)))
    grey = X[..., 0]
    assert torch.equal(Patches(8).fitted(grey)(grey), Patches(8).fitted(grey[..., None])(grey[..., None]))


def test_brightness_and_contrast_of_all_pictures_do_not_matter():
    X = pictures()
    assert_same(Patches(8).fitted(X)(X), Patches(8).fitted(7 * X + 3)(7 * X + 3), torch.float32)


@pytest.mark.parametrize("size", [(8, 8), (31, 17), (65, 64), (256, 200)])
def test_pictures_of_any_size(size):
    X = pictures(4, size)
    kernel = Patches(6).fitted(X)
    assert torch.linalg.eigvalsh(kernel(X).double())[0] > 0
    with pytest.warns(UserWarning, match="300 × 8"):
        Patches(6).fitted(pictures(3, (300, 8)))


@pytest.mark.parametrize("layers", [1, 2])
def test_blocks_do_not_change_features(layers, monkeypatch):
    X = pictures()
    kernel = Patches(8, layers=layers, precision="double").fitted(X)
    whole = kernel.features(X)
    monkeypatch.setattr("krepes.kernels.patches.layer.BLOCK_VALUES", 1)
    assert_same(kernel.features(X.clone()), whole)


@pytest.mark.parametrize("rule", ["kmeans", "uniform", "pivoted_cholesky", "kmeans_plus_plus"])
def test_every_landmark_rule_gives_a_dictionary(rule):
    X = pictures()
    dictionary = Patches(10, dictionary=rule).fitted(X).layers_[0].dictionary_
    assert dictionary.shape[0] == 10
    assert_same(dictionary.norm(dim=1), torch.ones(10))


def test_features_of_the_last_pictures_are_kept_until_they_change():
    X = pictures()
    kernel = Patches(8).fitted(X)
    first = kernel.features(X)
    assert kernel.features(X) is first
    X += torch.rand_like(X)
    assert not torch.equal(kernel.features(X), first)


@pytest.mark.parametrize("pairs", ["neighbours", "picture"])
def test_patch_moments_are_loops_over_pairs_of_patches(pairs):
    X = pictures(5, (6, 7))
    kernel = Patches(6, side=3, precision="double").fitted(X)
    psi = next(kernel.patch_values(X))[:, ::2, ::2] @ kernel.layers_[-1].root
    S, plus = torch.zeros(6, 6).double(), torch.zeros(6, 6).double()
    for image in psi:
        height, width, _ = image.shape
        places = [(i, j) for i in range(height) for j in range(width)]
        two = [(p, q) for p in places for q in places if p != q]
        if pairs == "neighbours":
            two = [(p, q) for p, q in two if abs(p[0] - q[0]) + abs(p[1] - q[1]) == 1]
        S += sum(torch.outer(image[p], image[p]) for p in places) / len(places)
        plus += sum(torch.outer(image[p], image[q]) for p, q in two) / len(two)
    found = PatchMoments(kernel, pairs)
    found.add(Block(torch.arange(2), (X[:2],)))
    found.add(Block(torch.arange(2, 5), (X[2:],)))
    moments = found.result()
    assert_same(moments.S, S / 5)
    assert_same(moments.S_plus, plus / 5)


def test_patch_self_supervision_is_its_eigenproblem():
    """W W^T = S^(-1/2) V (E)_+ V^T S^(-1/2), E and V leading eigenpairs of S^(-1/2) (S_+ - lam / 2) S^(-1/2)."""
    X = pictures(30).numpy()
    start = Patches(6, side=3, precision="double").fitted(X, torch.Generator().manual_seed(0))
    kernel = learn_patches(X, start, n_components=3, regularization=1e-3)
    layer = kernel.layers_[-1]
    sums = PatchMoments(start)
    sums.add(Block(torch.arange(30), (torch.from_numpy(X).float(),)))
    moments = sums.result()
    half = inverse_sqrt(moments.S)
    lam = 1e-3 * moments.S.trace()
    values, vectors = torch.linalg.eigh(half @ (moments.S_plus - lam / 2 * torch.eye(6)) @ half)
    top = half @ vectors[:, -3:]
    expected = layer.root @ top @ torch.diag(values[-3:].clamp(min=0)) @ top.mT @ layer.root
    assert (layer.components_ @ layer.components_.mT - expected).abs().max() < 1e-8 * expected.abs().max()
    assert kernel.features(X).shape == (30, 3 * 4)
    maps = kernel.contributions(X, X[:2], torch.ones(2))
    score = kernel(torch.from_numpy(X), torch.from_numpy(X[:2])).sum(1)
    blank = (kernel.blank_like(X) @ kernel.features(X[:2]).double().mT).sum()
    assert_same(maps.sum((1, 2)) + blank, score)


@pytest.mark.parametrize("top", ["linear", "gaussian"])
def test_maps_of_models_add_up_to_their_scores(top):
    X, y = pictures(40).numpy(), np.arange(40) % 3
    kernel = Patches(8, side=3, kernel=top, precision="double")
    model = KernelEmbedding(3, kernel=kernel, n_landmarks=15, dtype="float64", random_state=0).fit(X)
    maps = position_maps(model, X[:6], 1)
    assert_same(torch.from_numpy(maps.scores), torch.from_numpy(model.transform(X[:6])[:, 1]))
    own = own_maps(model, X[:6])
    lengths = np.linalg.norm(model.transform(X[:6]) - model.intercept_, axis=1)
    assert np.abs(own.scores - lengths).max() <= 1e-10 * lengths.max()
    machine = KernelRidgeClassifier(kernel=kernel, random_state=0).fit(X, y)
    scores = machine.decision_function(X[:6])[:, 2]
    assert np.abs(position_maps(machine, X[:6], 2).scores - scores).max() <= 1e-10 * np.abs(scores).max()
    left, right = matching_maps(model, X[:6], [5, 4, 3, 2, 1, 0])
    landmarks = model.landmarks_[[5, 4, 3, 2, 1, 0]]
    expected = model.kernel_(torch.from_numpy(X[:6]), landmarks).diagonal()
    assert_same(torch.from_numpy(left.scores), expected)
    assert_same(torch.from_numpy(right.scores), expected)
    with pytest.raises(TypeError, match="whole pictures"):
        position_maps(KernelEmbedding(2, n_landmarks=5, kernel="gaussian").fit(X), X, 0)


def test_maps_along_a_direction_that_is_too_long_are_refused():
    images = pictures(20).numpy()
    model = KernelEmbedding(2, kernel=Patches(8), n_landmarks=10, random_state=0).fit(images)
    with refuses(ValueError, "e+299", "float32"):
        position_maps(model, images[:4], [1e300, 1e300])


def test_contrast_in_single_precision_is_that_of_double():
    """A flat window far from the mean of its picture: the mean of squares minus the square of the mean cancels."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(2, 12, 12, 3, generator=generator)
    pictures[:, :, :6] = pictures[:, :, :6] / 100 + 0.99
    layer = PatchLayer(side=4)
    layer.floor_ = 1e-4
    single, double = (layer._contrast(layer._padded(each)) for each in (pictures, pictures.double()))
    assert single.dtype == torch.float32
    assert ((single - double).abs() / double).max() < 1e-6
