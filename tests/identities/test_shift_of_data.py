"""M5: where zero is does not matter to kernels of differences, in single precision either."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from krepes import KernelEmbedding, load
from krepes.base.components import named
from krepes.explain import landmarks_are_rows_of
from krepes.kernels import Gaussian, Kernel, Laplacian, Linear, Matern
from krepes.preprocessing import InputSpace
from krepes.report import write_report
from krepes.views import Image, Tabular
from refusals import refuses, warns_of
from report_content import content, unpacked

X = np.random.default_rng(0).normal(size=(400, 5))
SMALL = {"n_components": 4, "n_landmarks": 60, "random_state": 0}
INVARIANT = [
    *(Gaussian(3.0), Gaussian(), Gaussian([1.0, 2.0, 3.0, 4.0, 5.0])),
    *(Laplacian(), Laplacian(norm=1), Matern(nu=0.5), Matern(nu=1.5), Matern(nu=2.5)),
    *(Gaussian(3.0) + 2.0 * Laplacian(2.0), Gaussian(3.0) * Matern()),
]
AFAR = 1e7


def fitted(rows: object, **options: object) -> KernelEmbedding:
    return KernelEmbedding(**{**SMALL, **options}).fit(rows)


def sine(Z: np.ndarray, other: np.ndarray) -> float:
    """The sine of the largest angle between the spans of two representations' centred columns."""
    Q, R = (np.linalg.qr((each - each.mean(0)).astype(np.float64))[0] for each in (Z, other))
    return float(np.linalg.norm(R - Q @ (Q.T @ R), 2))


def test_rows_at_ten_million():
    """M5: a sine of 0.43 between the subspaces of X and of X + 1e7, silently."""
    rows = np.random.default_rng(0).normal(size=(1500, 5))
    kernel = Gaussian(3.0)
    plain, moved = fitted(rows, kernel=kernel), fitted(rows + 1e7, kernel=kernel)
    assert sine(plain.transform(rows), moved.transform(rows + 1e7)) < 1e-4


@settings(max_examples=40)
@given(
    st.sampled_from(INVARIANT),
    st.sampled_from(["kernel_pca", "simple_contrastive", "spectral_contrastive"]),
    st.lists(st.floats(-1e8, 1e8), min_size=5, max_size=5).map(np.array),
)
def test_a_shift_of_the_columns_does_not_matter(kernel, loss, shift):
    """fit(X + c).transform(X + c) is fit(X).transform(X) up to rotation, for every kernel of x - y."""
    points = X[:60]  # because drawn ones may differ where weights are equal but for rounding
    plain = fitted(X, kernel=kernel, loss=loss, landmarks=points).transform(X)
    moved = fitted(X + shift, kernel=kernel, loss=loss, landmarks=points + shift).transform(X + shift)
    assert np.linalg.norm(moved @ moved.T - plain @ plain.T) <= 5e-3 * np.linalg.norm(plain @ plain.T)


def test_every_kernel_says_rightly_whether_it_sees_a_shift():
    """k(x + c, y + c) = k(x, y): found for every named kernel on vectors by trying."""
    rows, shift = torch.from_numpy(X[:20]), torch.tensor([3.0, -2.0, 1.0, 0.5, 4.0], dtype=torch.float64)
    for name, cls in named(Kernel).items():
        if name in ("custom", "empirical_ntk", "patches") or cls.only_objects:
            assert not cls.shift_invariant.fget(cls())
            continue
        kernel = cls().fitted(rows)
        same = torch.allclose(kernel(rows + shift), kernel(rows), rtol=1e-9)
        assert kernel.shift_invariant == same, name


def test_ordinary_data_are_not_shifted():
    for rows in (X, X + 100, X.astype(np.float32) + AFAR, (X > 0).astype(np.int64), np.ones((50, 2))):
        inputs = fitted(
            rows, kernel=Gaussian(3.0), loss="kernel_pca" if len(rows) > 50 else "spectral_contrastive"
        )
        assert "shift_" not in vars(inputs.input_space_)
    assert "shift_" not in vars(fitted(X + AFAR, dtype="float64").input_space_)
    assert "shift_" not in vars(fitted(pd.DataFrame(X + AFAR)).input_space_)  # centred by the encoder


def test_only_columns_that_need_it_are_shifted():
    model = fitted(X + np.array([0, 0, AFAR, 0, 10]))
    shift = model.input_space_.shift_.numpy()
    assert shift[2] == pytest.approx(AFAR, abs=1)
    assert (shift[[0, 1, 3, 4]] == 0).all()


@pytest.mark.parametrize("rows", [(1000 * X).astype(np.int64) + 10**9, torch.from_numpy(X + AFAR)])
def test_integers_and_tensors_are_shifted(rows):
    near = rows - rows.mean(0) if isinstance(rows, torch.Tensor) else rows - 10**9
    assert sine(fitted(rows).transform(rows), fitted(near).transform(near)) < 1e-3


def test_everything_that_takes_rows_takes_them_where_they_are(tmp_path):
    """Files, parts, pairs, landmarks by index and by point, memory maps, and coverage."""
    far = X + AFAR
    model = fitted(far)
    Z = model.transform(far)
    model.save(tmp_path / "m.krepes")
    again = load(tmp_path / "m.krepes")
    np.testing.assert_array_equal(again.transform(far), Z)
    assert again.fingerprint() == model.fingerprint()
    assert landmarks_are_rows_of(model, far)
    parts = model.empty_copy().partial_fit(far[:200])
    parts.merge(again.empty_copy().partial_fit(far[200:], first_row=200))
    assert sine(parts.transform(far), Z) < 1e-4
    with refuses(ValueError, "preprocessing"):
        model.merge(fitted(X))
    np.save(tmp_path / "far.npy", far)
    np.testing.assert_array_equal(fitted(tmp_path / "far.npy").transform(tmp_path / "far.npy"), Z)
    np.testing.assert_allclose(model.coverage(far), fitted(X).coverage(X), atol=1e-3)
    noise = 0.1 * np.random.default_rng(1).normal(size=X.shape)
    for landmarks in (list(range(60)), None):
        given = {} if landmarks is None else {"landmarks": landmarks}
        plain, moved = (
            KernelEmbedding(**SMALL, **given).fit(rows, positives=rows + noise).transform(rows)
            for rows in (X, far)
        )
        assert sine(plain, moved) < 1e-3


def test_the_report_shows_the_numbers_of_the_data(tmp_path):
    far = X + AFAR
    model = fitted(far)
    write_report(model, far, tmp_path / "report.html")
    for feature in content(tmp_path / "report.html")["features"]:
        column = far[:, int(feature["name"].removeprefix("x"))]
        np.testing.assert_allclose(unpacked(feature["values"]), column, atol=1e-5)
        np.testing.assert_allclose(
            unpacked(feature["of_landmarks"]), column[model.landmark_indices_], atol=1e-5
        )


@pytest.mark.filterwarnings("ignore:n_components")
@pytest.mark.parametrize("kernel", [Linear(), "polynomial", "arc_cosine"], ids=str)
def test_kernels_that_see_zero_warn_of_what_is_lost(kernel):
    with warns_of(UserWarning, "columns 0, 1, 2", "dtype='float64'"):
        fitted(X + 1000, kernel=kernel)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The values of")
        fitted(X + 10, kernel=kernel)
        fitted(X + 1000, kernel=kernel, dtype="float64")


def test_views_that_see_zero_are_not_shifted():
    """A dropped feature becomes 0 in the units of the data."""
    with warns_of(UserWarning, "single", "precision"):
        model = fitted(X + AFAR, views=Tabular(drop=0.2, fill=0.0))
    assert model.input_space_.shift_ is None
    assert fitted(X + AFAR, views=Tabular(drop=0.2)).input_space_.shift_ is not None
    assert not Image().shift_equivariant


def test_a_shift_of_another_shape_is_damage():
    space = InputSpace("vectors", (5,))
    for wrong in (torch.zeros(4, dtype=torch.float64), torch.zeros(5)):
        space.shift_ = wrong
        with refuses(ValueError, "shift_"):
            space.check_restored()
