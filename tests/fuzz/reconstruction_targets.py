"""Rows that come back: kernel autoencoders, inverses of representations, and of encoded tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fuzz.outcome import ChangedError, check_same, check_shape
from fuzz.parts import kernels, parts
from fuzz.strategies import features, images, matrices, mostly, n_rows, often, rows, sane_matrices, tables
from fuzz.target import Draw, target
from krepes import KernelAutoencoder, KernelEmbedding, TableEncoder, load
from krepes.landmarks import LandmarkSelector

SMALL = {"n_components": 2, "n_landmarks": 6, "max_iter": 3, "random_state": 0}
DRAWN = {
    "n_components": mostly([2, 3, 20], [1, 0, "auto", 2.5]),
    "kernel": kernels(),
    "decoder_kernel": kernels(),
    "regularization": mostly([0.1, 1e-6, 1e6], [0, -1, "low", None, float("inf")]),
    "encoder_regularization": mostly([None, 0.01, 1e6], [0, -1, "low", float("nan")]),
    "encoder_noise": mostly([0.0, 1e-3, 1e6], [-1, "low", None, float("inf")]),
    "landmarks": parts(LandmarkSelector),
    "n_landmarks": mostly([1, 3, 12, None], [0, -3, "all", 2.5]),
    "max_rows": mostly([2, 5, 100], [1, 0, None, "all"]),
    "max_iter": mostly([0, 1, 5], [-1, None, 2.5]),
    "tol": mostly([0.0, 0.1], [-1, None, "low"]),
    "preprocess": mostly(["auto", None, "table", "normalize"], ["scale", 3]),
    "dtype": mostly(["float32", "float64"], ["int8", None]),
}


@st.composite
def autoencoders(draw: DrawFn) -> KernelAutoencoder:
    changed = draw(st.lists(st.sampled_from(sorted(DRAWN)), max_size=3, unique=True))
    return KernelAutoencoder(**(SMALL | {name: draw(DRAWN[name]) for name in changed}))


def numbers(found: np.ndarray | pa.Table, n: int) -> Any:
    """What came back, of as many rows; text and missing values of tables are left out."""
    if found.shape[0] != n:
        raise ChangedError(f"{found.shape[0]} rows came back of {n}")
    if isinstance(found, pa.Table):
        return [
            column.drop_null().to_numpy() for column in found.columns if pa.types.is_floating(column.type)
        ]
    return found


def decoded(model: KernelAutoencoder, X: Any) -> Any:
    """All that a fitted autoencoder says of rows; points of the sphere have length one or zero."""
    Z = model.transform(X)
    check_shape(Z, (n_rows(X), model.bottleneck_.shape[1]), "transform")
    length = np.linalg.norm(Z, axis=1)
    if not (np.isclose(length, 1) | (length == 0)).all():
        raise ChangedError("points that are not on the sphere")
    if any(later > before for before, later in zip(model.history_, model.history_[1:])):
        raise ChangedError("an objective that rises")
    return [Z, numbers(model.reconstruct(X), n_rows(X)), model.history_, model.score(X)]


@target("KernelAutoencoder", weight=4)
def autoencoder(draw: Draw) -> Any:
    X = draw(often((3, rows()), (1, matrices(min_rows=2, min_columns=1)), (1, images())))
    return decoded(draw(autoencoders()).fit(X), X)


@target("KernelAutoencoder", weight=2)
def autoencoder_in_parts(draw: Draw) -> Any:
    """Targets, more rows, merging; points that nobody encoded; a saved model gives the same bits."""
    X = draw(sane_matrices())
    targets = draw(often((3, st.none()), (2, st.just(X + 0.1)), (1, rows())))
    model = KernelAutoencoder(**SMALL).fit(X, targets=targets)
    second = draw(often((3, st.just(X[::-1])), (1, rows())))
    model.partial_fit(second, targets=None if targets is None else second)
    model.merge(model.empty_copy().partial_fit(X, targets=None if targets is None else X, first_row=1000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.krepes"
        model.save(path)
        check_same(load(path).reconstruct(X), model.reconstruct(X), "a saved autoencoder")
    points = draw(often((2, points_of_width(2)), (1, features())))
    return decoded(model, X), numbers(model.inverse_transform(points), n_rows(points))


def points_of_width(h: int) -> st.SearchStrategy[np.ndarray]:
    """Representations that nobody computed, at any scale."""
    return matrices(min_rows=1, min_columns=1).map(lambda Z: np.resize(Z, (len(Z), h)))


def estimated(found: Any, n: int) -> Any:
    """Rows that came back with the estimate of their errors."""
    back, error = found
    if not (error.upper > 0).all() or not (error.expected > 0).all():
        raise ChangedError("an error of no size is expected")
    return [numbers(back, n), error.expected, error.upper]


@target("KernelEmbedding", weight=3)
def embedding_and_back(draw: Draw) -> Any:
    """Inverses learned from landmarks or rows, of rows that were seen or not, and of any points."""
    X = draw(often((3, sane_matrices()), (1, rows()), (1, tables()), (1, images())))
    loss = draw(st.sampled_from(["kernel_pca", "spectral_contrastive", "barlow_twins"]))
    model = KernelEmbedding(2, n_landmarks=6, random_state=0, loss=loss).fit(X)
    if draw(st.booleans()):
        model.fit_inverse(X, max_rows=draw(mostly([3, 100], [0, 2, "all", None])))
    other = draw(often((3, st.just(X)), (1, rows()), (1, tables())))
    found = estimated(model.reconstruct(other, return_error=True), n_rows(other))
    Z = draw(
        often((2, st.just(model.transform(X))), (2, points_of_width(len(model.intercept_))), (1, features()))
    )
    return found, estimated(model.inverse_transform(Z, return_error=True), n_rows(Z))


@target("TableEncoder", weight=1)
def table_and_back(draw: Draw) -> Any:
    """Encoded rows come back as columns; so do rows that nobody encoded."""
    X = draw(often((3, tables()), (1, rows())))
    encoder = TableEncoder().fit(X)
    Z = encoder.transform(X)
    given = draw(often((2, st.just(Z)), (1, st.just(Z * 0.3 + 0.2)), (1, features())))
    back = encoder.inverse_transform(given)
    if back.shape[0] != n_rows(given):
        raise ChangedError(f"{back.shape[0]} rows came back of {n_rows(given)}")
    return None
