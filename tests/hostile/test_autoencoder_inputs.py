"""What KernelAutoencoder refuses, and what it survives."""

from __future__ import annotations

import numpy as np
import pytest

from krepes import KernelAutoencoder
from krepes.kernels import Laplacian, Spectrum
from refusals import refuses

X = np.random.default_rng(0).normal(size=(30, 3))
pytestmark = pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
SMALL = {"n_components": 2, "max_iter": 5, "tol": 0.1, "random_state": 0}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 1}, ("n_components=1", "2")),
        ({"n_components": "auto"}, ("2", "integer")),
        ({"regularization": 0.0}, ("regularization=0.0", "1e")),
        ({"encoder_regularization": -1.0}, "encoder_regularization=-1.0"),
        ({"encoder_noise": np.nan}, "encoder_noise=nan"),
        ({"tol": -1}, "tol=-1"),
        ({"max_rows": 1}, "max_rows"),
        ({"max_iter": -1}, "max_iter=-1"),
        ({"n_landmarks": 0}, "n_landmarks"),
        ({"decoder_kernel": "rbf"}, "'gaussian'"),
        (
            {"decoder_kernel": "spectrum"},
            "decoder_kernel='spectrum'",
        ),
        ({"decoder_kernel": 2.0 * Spectrum(2)}, ("compares", "objects")),
        ({"decoder_kernel": "shortest_path"}, ("compares", "objects")),
    ],
)
def test_parameters_that_make_no_sense(parameters, message):
    with refuses(ValueError, message):
        KernelAutoencoder(**(SMALL | parameters)).fit(X)


def test_a_decoder_without_a_derivative_is_refused():
    with refuses(TypeError, "derivative"):
        KernelAutoencoder(decoder_kernel=Laplacian(norm=1), **SMALL).fit(X)


def test_too_many_rows_for_the_exact_form_name_memory_and_the_alternative():
    many = np.zeros((5001, 2), dtype=np.float32)
    with refuses(ValueError, "5,001 rows", "1.0 GB", "n_landmarks=500"):
        KernelAutoencoder(n_landmarks=None, **SMALL).fit(many)


def test_objects_cannot_be_reconstructed():
    with refuses(ValueError, "rows", "objects"):
        KernelAutoencoder(kernel=lambda a, b: np.ones((len(a), len(b))), **SMALL).fit(["a", "b", "c"])
    with refuses(ValueError, "rows", "objects"):
        KernelAutoencoder(kernel=Spectrum(1), **SMALL).fit(["ab", "bc", "cd"] * 5)


def test_targets_must_be_like_the_rows():
    with refuses(ValueError, "29 rows"):
        KernelAutoencoder(**SMALL).fit(X, targets=X[:29])
    with refuses(ValueError, "2 features"):
        KernelAutoencoder(**SMALL).fit(X, targets=X[:, :2])


def test_points_of_another_width_are_refused():
    model = KernelAutoencoder(**SMALL).fit(X)
    with refuses(ValueError, "3 columns", "2"):
        model.inverse_transform(np.ones((1, 3)))
    with refuses(ValueError, "NaN"):
        model.inverse_transform(np.full((1, 2), np.nan))


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = KernelAutoencoder(**SMALL).fit(X)
    before = model.reconstruct(X)
    with refuses(ValueError, "NaN"):
        model.fit(np.full((30, 3), np.nan))
    assert np.array_equal(model.reconstruct(X), before)


@pytest.mark.parametrize(
    "rows", [np.ones((10, 3)), np.repeat(X[:3], 5, axis=0), X[:2], 1e6 + 1e-3 * X, 1e-12 * X]
)
def test_degenerate_rows_give_finite_numbers(rows):
    """Equal rows, duplicates, fewer rows than components, far from zero, tiny."""
    model = KernelAutoencoder(3, max_iter=5, tol=0.1, random_state=0).fit(rows)
    assert np.isfinite(model.transform(rows)).all()
    assert np.isfinite(model.reconstruct(rows)).all()
    assert (np.diff(model.history_) <= 0).all()


@pytest.mark.parametrize("value", [0.0, 0.1, 1.257302210933933e149])
def test_the_score_of_equal_rows_is_finite(value):
    """A mean differs from its rows by rounding, whose square is no spread to divide by."""
    X = np.full((3, 1), value)
    model = KernelAutoencoder(2, n_landmarks=3, max_iter=3, random_state=0).fit(X)
    assert model.score(X) in (0.0, 1.0)


def test_the_score_of_rows_whose_squares_vanish_is_a_number():
    X = np.array([[3.5e-323], [1.5e-323]])
    model = KernelAutoencoder(2, n_landmarks=6, max_iter=3, random_state=0).fit(X)
    assert np.isfinite(model.score(X))


def test_a_row_unlike_all_others_is_near_the_mean():
    model = KernelAutoencoder(**SMALL).fit(X)
    far = np.full((1, 3), 1e6)
    assert np.array_equal(model.transform(far), np.zeros((1, 2)))
    assert np.abs(model.reconstruct(far) - X.mean(0)).max() < 2


def test_targets_are_called_targets():
    with refuses(ValueError, "targets=", "20 rows", "X", "30"):
        KernelAutoencoder(**SMALL).fit(X, targets=X[:20])
    with refuses(ValueError, "targets=", "20 rows", "X", "30"):
        KernelAutoencoder(**SMALL).fit(X).partial_fit(X, targets=X[:20])
