"""What an inverse refuses, with errors that say what to do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from krepes import KernelEmbedding, load
from krepes.base.storage import model_file
from refusals import refuses

IRIS = load_iris().data
SMALL = {"n_components": 3, "n_landmarks": 30, "random_state": 0}


@pytest.fixture(scope="module")
def model() -> KernelEmbedding:
    return KernelEmbedding(**SMALL).fit(IRIS)


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.ones((2, 4)), ("4 columns", "3 components")),
        (np.array([[1.0, np.nan, 0.0]]), "NaN"),
        (np.array([[1.0, np.inf, 0.0]]), "infin"),
        (np.ones(3), ("numbers", "sample")),
        (np.ones((2, 3, 1)), ("numbers", "sample")),
        (np.ones((0, 3)), "shape"),
    ],
)
def test_representations_that_are_none(model, Z, message):
    with refuses(ValueError, message):
        model.inverse_transform(Z)


def test_text_is_no_representation(model):
    with refuses((TypeError, ValueError), "Z"):
        model.inverse_transform([["a", "b", "c"]])


@pytest.mark.parametrize("max_rows", [0, 2, 2.5, "all", True])
def test_a_number_of_rows_that_is_none(model, max_rows):
    with refuses(ValueError, "max_rows"):
        model.fit_inverse(IRIS, max_rows=max_rows)


def test_rows_of_another_width(model):
    for method in (model.reconstruct, model.fit_inverse):
        with refuses(ValueError, "4 features"):
            method(IRIS[:, :2])


def test_a_model_that_is_not_fitted():
    for method in ("inverse_transform", "reconstruct", "fit_inverse"):
        with pytest.raises(NotFittedError):
            getattr(KernelEmbedding(), method)(IRIS)


def test_objects_cannot_be_rebuilt():
    words = [f"{a}{b}" for a in "abcdef" for b in "uvwxyz"]

    def shared_letters(X, Y):
        return np.array([[len(set(x) & set(y)) + 1.0 for y in Y] for x in X])

    model = KernelEmbedding(2, kernel=shared_letters, loss="kernel_pca", n_landmarks=10, random_state=0).fit(
        words
    )
    for method, given in (
        ("inverse_transform", np.ones((1, 2))),
        ("reconstruct", words),
        ("fit_inverse", words),
    ):
        with refuses(ValueError, "vectors", "inverse"):
            getattr(model, method)(given)


def test_too_few_landmarks_to_learn_from():
    model = KernelEmbedding(1, landmarks=IRIS[:2], random_state=0).fit(IRIS)
    with refuses(ValueError, "2 landmarks"):
        model.reconstruct(IRIS)
    assert model.fit_inverse(IRIS).reconstruct(IRIS, return_error=True)[0].shape == IRIS.shape


def test_a_constant_column_and_equal_landmarks():
    X = np.column_stack([np.repeat([0.0, 1.0], 20), np.ones(40)])
    rows = KernelEmbedding(1, kernel="gaussian", random_state=0).fit(X).reconstruct(X)
    assert np.isfinite(rows).all()
    assert np.abs(rows[:, 1] - 1).max() < 1e-4


@pytest.mark.parametrize("name", ["centres", "mean", "coefficients", "constant", "scale", "kernel"])
def test_a_forged_inverse_is_refused(tmp_path, model, name):
    path = tmp_path / "m.krepes"
    copy = KernelEmbedding(**SMALL).fit(IRIS).fit_inverse(IRIS)
    copy.save(path)
    header, state = model_file.read(path, "KernelEmbedding")
    decoder = state["inverse"]["decoder"]
    forged = {"scale": -1.0, "kernel": "gaussian"}
    decoder[name] = forged[name] if name in forged else decoder[name][..., :-1]
    model_file.write(path, header["class"], state, True)
    with refuses(ValueError, "damaged", f"RidgeDecoder.{name}" if name != "centres" else "RidgeDecoder"):
        load(path)


@pytest.mark.parametrize("value", [None, float("nan")])
def test_forged_figures_of_an_inverse_are_refused(tmp_path, value):
    path = tmp_path / "m.krepes"
    KernelEmbedding(**SMALL).fit(IRIS).fit_inverse(IRIS).save(path)
    header, state = model_file.read(path, "KernelEmbedding")
    state["inverse"]["figures"]["spread"] = value
    model_file.write(path, header["class"], state, True)
    with refuses(ValueError, "ErrorFigures.spread"):
        load(path)


def test_given_arrays_are_not_changed(model):
    Z = model.transform(IRIS)
    before = Z.copy()
    model.inverse_transform(Z)
    assert np.array_equal(Z, before)
