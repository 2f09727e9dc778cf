"""Image views against what crop, flip, shift and rotation mean pixel by pixel."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import krepes
from krepes import KernelEmbedding
from krepes.views import Image
from krepes.views.image import N_DRAWS, affine_matrices, sampling_grid, warp
from refusals import refuses
from tolerances import assert_same

STILL = {"crop": None, "ratio": None, "flip": 0.0, "shift": 0.0, "rotation": 0.0, "zoom": 1.0, "shear": 0.0}
PADDINGS = ["zeros", "border", "reflection"]


def pictures(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def warped(X, angle=0.0, shift=(0.0, 0.0), size=(1.0, 1.0), center=(0.0, 0.0), slant=0.0, padding="zeros"):
    """Images (b, h, w, c) under one transformation; shift, size and center are (x, y), in half images."""
    b, (height, width) = len(X), X.shape[1:3]

    def pair(values):
        return tuple(torch.full((b,), float(v), dtype=X.dtype) for v in values)

    angles = torch.full((b,), math.radians(angle), dtype=X.dtype)
    slants = torch.full((b,), float(slant), dtype=X.dtype)
    matrices = affine_matrices(angles, pair(shift), pair(size), pair(center), slants, width / height)
    return warp(X, sampling_grid(matrices, X), padding)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("shape", [(5, 8, 8), (5, 6, 9), (5, 6, 9, 3), (5, 1, 4), (5, 1, 1)])
def test_views_without_strength_are_the_images(shape, padding):
    X = pictures(*shape)
    for view in Image(**STILL, padding=padding)(X, torch.arange(5), seed=0):
        assert_same(view, X)


def test_flattened_images_have_the_views_of_the_images():
    X, rows = pictures(5, 6, 9, 3), torch.arange(5)
    whole = Image()(X, rows, seed=0)
    flat = Image(shape=(6, 9, 3))(X.reshape(5, -1), rows, seed=0)
    assert all(torch.equal(a.reshape(5, -1), b) for a, b in zip(whole, flat))


def test_a_certain_flip_is_torch_flip():
    X = pictures(5, 6, 9, 3)
    for view in Image(**{**STILL, "flip": 1.0})(X, torch.arange(5), seed=0):
        assert_same(view, X.flip(2))


def test_flips_happen_with_their_probability():
    X = torch.tensor([[[0.0, 1.0]]]).expand(4000, 1, 2)
    view = Image(**{**STILL, "flip": 0.3})(X, torch.arange(4000), seed=0)[0]
    flipped = (view[:, 0, 0] > 0.5).double().mean().item()
    assert abs(flipped - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 4000)


@pytest.mark.parametrize(("right", "down"), [(1, 0), (0, 1), (-2, 3), (3, -1)])
def test_a_shift_by_whole_pixels_moves_pixels(right, down):
    X = pictures(4, 6, 9, 2)
    moved = warped(X, shift=(2 * right / 9, 2 * down / 6))
    expected = torch.zeros_like(X)
    for i in range(6):
        for j in range(9):
            if 0 <= i - down < 6 and 0 <= j - right < 9:
                expected[:, i, j] = X[:, i - down, j - right]
    assert_same(moved, expected)


@pytest.mark.parametrize("quarters", [1, 2, 3, -1])
@pytest.mark.parametrize("side", [7, 8])
def test_quarter_turns_are_torch_rot90(quarters, side):
    X = pictures(4, side, side, 2)
    assert_same(warped(X, angle=90 * quarters), torch.rot90(X, quarters, dims=(1, 2)))


def test_rotation_turns_pixels_also_where_images_are_not_square():
    """The middle square of a wide image turns as a square image does."""
    X = pictures(4, 6, 10, 1)
    turned = warped(X, angle=90)
    assert_same(turned[:, :, 2:8], torch.rot90(X[:, :, 2:8], 1, dims=(1, 2)))


def test_rotated_views_keep_distances_between_pixels():
    """Seen in pixels, the map of a rotation is orthogonal, whatever the shape of the image."""
    draws = torch.rand(50, N_DRAWS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    M = Image(**{**STILL, "rotation": 90.0})._matrices(draws, height=5, width=11)[:, :, :2]
    pixels = torch.tensor([11.0, 5.0], dtype=torch.float64)
    R = pixels[:, None] * M / pixels[None, :]
    assert_same(R @ R.mT, torch.eye(2, dtype=torch.float64).expand(50, 2, 2))


def test_a_crop_of_a_quarter_is_that_quarter_enlarged():
    """Enlarging by two takes pixels at quarter positions: weights 3/4 and 1/4 of the neighbours."""
    X = pictures(4, 8, 8, 1)
    enlarged = warped(X, size=(0.5, 0.5), center=(-0.5, -0.5))
    row = 0.25 * X[:, 0, 1:3, 0] + 0.75 * X[:, 1, 1:3, 0]  # output row 2 lies at input row 0.75
    assert_same(enlarged[:, 2, 3, 0], 0.75 * row[:, 0] + 0.25 * row[:, 1])  # column 3 at 1.25


def test_crops_stay_inside_and_have_the_area_asked_for():
    draws = torch.rand(3000, N_DRAWS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    views = Image(**{**STILL, "crop": (0.3, 0.6), "ratio": (0.8, 1.25)})
    M = views._matrices(draws, 10, 10)
    w, h, x, y = M[:, 0, 0], M[:, 1, 1], M[:, 0, 2], M[:, 1, 2]
    assert bool((x.abs() + w <= 1 + 1e-12).all())
    assert bool((y.abs() + h <= 1 + 1e-12).all())
    assert 0.3 <= (w * h).min() < 0.31
    assert 0.59 < (w * h).max() <= 0.6 + 1e-12
    assert 0.8 - 1e-12 <= (w / h).min() < 0.81
    assert 1.24 < (w / h).max() <= 1.25 + 1e-12


def test_rotations_and_shifts_stay_in_their_ranges_and_fill_them():
    draws = torch.rand(3000, N_DRAWS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turned = Image(**{**STILL, "rotation": 30.0})._matrices(draws, 10, 10)
    angles = torch.rad2deg(torch.atan2(-turned[:, 0, 1], turned[:, 0, 0]))
    assert -30 - 1e-9 <= angles.min() < -29.5
    assert 29.5 < angles.max() <= 30 + 1e-9
    moved = Image(**{**STILL, "shift": (0.1, 0.2)})._matrices(draws, 10, 10)
    assert 0.39 < moved[:, 0, 2].abs().max() <= 0.4 + 1e-12  # horizontal, a fifth of a side of length 2
    assert 0.19 < moved[:, 1, 2].abs().max() <= 0.2 + 1e-12


@pytest.mark.parametrize(("padding", "value"), [("zeros", 0.0), ("border", 1.0), ("reflection", 1.0)])
def test_padding_is_what_lies_beyond_the_edge(padding, value):
    moved = warped(torch.ones(1, 4, 4, 1, dtype=torch.float64), shift=(1.0, 0.0), padding=padding)
    assert_same(moved[0, :, :2, 0], torch.full((4, 2), value, dtype=torch.float64))


@pytest.mark.parametrize("slant", [1, -2])
def test_a_shear_by_whole_pixels_shifts_rows(slant):
    """Row i, counted from the middle, is read `slant` * i pixels further right."""
    X = pictures(3, 5, 9, 2)
    sheared = warped(X, slant=slant)
    for i in range(5):
        for j in range(9):
            source = j + slant * (i - 2)
            expected = X[:, i, source] if 0 <= source < 9 else torch.zeros(3, 2, dtype=X.dtype)
            assert_same(sheared[:, i, j], expected)


def test_zoom_stays_within_its_factor():
    """The support of a centred square grows and shrinks by at most the zoom."""
    X = torch.zeros(300, 40, 40, dtype=torch.float64)
    X[:, 10:30, 10:30] = 1
    view = Image(**{**STILL, "zoom": 1.5})(X, torch.arange(300), seed=0)[0]
    side = view.sum((1, 2)).sqrt() / 20
    assert 1 / 1.5 - 0.02 < side.min() < 0.75
    assert 1.35 < side.max() < 1.5 + 0.02
    assert abs(side.log().mean().item()) < 4 * math.log(1.5) / math.sqrt(3 * 300)


# Strength, and how "auto" finds it


def test_strength_multiplies_every_range():
    draws = torch.rand(20, 10, dtype=torch.float64)
    half = Image(strength=0.5)._matrices(draws, 9, 7)
    same = Image(shift=0.025, rotation=7.5, zoom=1.15**0.5, shear=5.0)._matrices(draws, 9, 7)
    torch.testing.assert_close(half, same)
    X = torch.rand(5, 9, 7)
    torch.testing.assert_close(Image(strength=0.0)(X, torch.arange(5), seed=0)[0], X)


def naive_movement(X: torch.Tensor, views: Image) -> float:
    """The median over images of how far a view moves it, as a share of the distance to the nearest other image."""
    shares = []
    for i, image in enumerate(X):
        moved = (views.view(image[None], torch.tensor([i]), seed=0, index=0)[0] - image).norm()
        nearest = min((other - image).norm() for j, other in enumerate(X) if j != i)
        shares.append(float(moved / nearest))
    return float(np.median(shares))


def test_auto_strength_goes_near_the_nearest_other_image():
    X = torch.from_numpy(load_digits().images[:101] / 16)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(3))
    found = Image(strength="auto").fitted(X, torch.Generator().manual_seed(3))
    assert 0.1 < found.strength < 0.9
    assert found.flip == 0.0
    assert naive_movement(X[order], found) == pytest.approx(0.75, rel=0.1)
    weaker = Image(strength="auto", rotation=60.0, shift=0.2).fitted(X, torch.Generator().manual_seed(3))
    assert weaker.strength < found.strength
    assert Image(strength="auto", rotation=0.01, shift=0, zoom=1, shear=0).fitted(X).strength == 1.0


def test_auto_flips_where_mirrored_images_look_like_the_others():
    digits = torch.from_numpy(load_digits().images / 16)
    assert Image(flip="auto").fitted(digits, torch.Generator().manual_seed(0)).flip == 0.0
    either_way = torch.cat([digits[:400], digits[:400].flip(2)])
    found = Image(flip="auto", shape=(8, 8)).fitted(either_way.flatten(1), torch.Generator().manual_seed(0))
    assert found.flip == 0.5
    assert found.strength == 1.0


@pytest.mark.parametrize("X", [torch.ones(6, 4, 4), torch.rand(1, 4, 4), torch.rand(1, 4, 4).repeat(9, 1, 1)])
def test_auto_without_two_different_images_changes_nothing(X):
    found = Image(strength="auto", flip="auto").fitted(X)
    assert (found.strength, found.flip) == (1.0, 0.0)


def test_auto_must_be_fitted_first():
    with refuses(ValueError, "views.fitted"):
        Image(strength="auto")(torch.rand(2, 4, 4), torch.arange(2), seed=0)
    for wrong in ({"strength": 1.5}, {"strength": "weak"}, {"flip": "yes"}, {"strength": None}):
        with refuses(ValueError, f"{next(iter(wrong))}="):
            Image(**wrong).fitted(torch.rand(2, 4, 4))


def test_models_of_images_use_auto_and_files_keep_what_it_found(tmp_path):
    X = load_digits().images[:300] / 16
    model = KernelEmbedding(4, n_landmarks=50, random_state=0).fit(X)
    assert isinstance(model.views_, Image)
    assert 0 < model.views_.strength < 1
    model.save(tmp_path / "m.krepes")
    assert krepes.load(tmp_path / "m.krepes").views_.get_params() == model.views_.get_params()
