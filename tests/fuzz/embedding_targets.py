"""KernelEmbedding, in every way to fit, continue, save and use it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from sklearn.base import clone

from fuzz.label_strategies import objects, weights
from fuzz.outcome import ChangedError, check_same, check_shape
from fuzz.parts import embedding_parameters, kernels, overlap, parts
from fuzz.strategies import (
    USUAL,
    forms_of,
    images,
    matrices,
    mostly,
    n_rows,
    often,
    rows,
    sane_matrices,
    tables,
)
from fuzz.target import Draw, cached, target
from krepes import KernelEmbedding, load
from krepes.kernels import Custom
from krepes.losses import Loss
from krepes.solvers import SGD

SMALL = {"n_components": 2, "n_landmarks": 6, "random_state": 0}
MOMENTS = ["spectral_contrastive", "barlow_twins", "simple_contrastive", "vicreg", "kernel_pca"]


def used(model: KernelEmbedding, X: Any) -> dict[str, Any]:
    """All that a fitted model says of rows."""
    Z = model.transform(X)
    check_shape(Z, (n_rows(X), len(model.intercept_)), "transform")
    coverage = model.coverage(X)
    check_shape(coverage, (n_rows(X),), "coverage")
    if not (coverage.min() > -1e-3 and coverage.max() < 1 + 1e-3):
        raise ChangedError(f"coverage from {coverage.min()} to {coverage.max()}, outside [0, 1]")
    check_same(model.transform(X), Z, "transform, twice")
    return {
        "Z": Z,
        "coverage": coverage,
        "residual": model.residual(X),
        "coefficients": model.coefficients_,
        "history": model.history_[-1],
    }


@target("KernelEmbedding", weight=12)
def embedding(draw: Draw) -> Any:
    """Any rows, any parameters."""
    X, parameters = draw(rows()), draw(embedding_parameters())
    return used(KernelEmbedding(**parameters).fit(X), X)


@target("KernelEmbedding", weight=10)
def embedding_of_sane_rows(draw: Draw) -> Any:
    """Rows and parameters that make sense; a second fit gives the same bits."""
    X, parameters = draw(sane_matrices()), draw(embedding_parameters(wrong=False))
    model = KernelEmbedding(**parameters).fit(X)
    if draw(st.integers(0, 3)) == 0:
        check_same(clone(model).fit(X).coefficients_, model.coefficients_, "a second fit")
    return used(model, X)


@target("KernelEmbedding", weight=5)
def embedding_of_extreme_rows(draw: Draw) -> Any:
    """Numbers at the ends of what floats can hold."""
    X = draw(forms_of(matrices(min_rows=4, min_columns=1), USUAL))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    parameters = draw(embedding_parameters(wrong=False)) | {"dtype": dtype}
    return used(KernelEmbedding(**parameters).fit(X), X)


@target("KernelEmbedding", weight=3)
def embedding_of_images(draw: Draw) -> Any:
    X, parameters = draw(images()), draw(embedding_parameters(wrong=False))
    return used(KernelEmbedding(**parameters).fit(X), X)


@target("KernelEmbedding", weight=3)
def embedding_of_tables(draw: Draw) -> Any:
    """Text, dates and missing values; and other rows than those of the fit."""
    X = draw(tables())
    other = draw(often((2, st.just(X[:3] if isinstance(X, pd.DataFrame) else X)), (1, tables())))
    model = KernelEmbedding(**SMALL, loss=draw(st.sampled_from(MOMENTS))).fit(X)
    return used(model, X), used(model, other)


@target("KernelEmbedding", weight=2)
def embedding_of_objects(draw: Draw) -> Any:
    """Words and other objects, with a kernel of their own."""
    words = draw(objects())
    positives = draw(often((3, st.none()), (2, st.just(words[::-1])), (1, objects())))
    kernel = draw(st.sampled_from([Custom(overlap, pairwise=True), Custom(overlap), "gaussian"]))
    loss = draw(st.sampled_from(["kernel_pca", "spectral_contrastive"]))
    model = KernelEmbedding(**SMALL, kernel=kernel, loss=loss).fit(words, positives=positives)
    return used(model, words)


@target("KernelEmbedding", weight=3)
def embedding_of_pairs(draw: Draw) -> Any:
    """Given views, in any form."""
    X = draw(sane_matrices())
    same = st.just(X + 0.1)
    positives = draw(often((5, same), (1, sane_matrices()), (1, rows())))
    negatives = draw(often((4, st.none()), (2, same), (1, sane_matrices())))
    parameters = draw(embedding_parameters(wrong=False)) | {"loss": draw(parts(Loss, wrong=False))}
    parameters.setdefault("solver", "auto" if negatives is None else SGD(max_epochs=1))
    if parameters["solver"] == "auto":
        parameters["loss"] = draw(st.sampled_from(MOMENTS))
    return used(KernelEmbedding(**parameters).fit(X, positives=positives, negatives=negatives), X)


@target("KernelEmbedding", weight=3)
def embedding_with_weights(draw: Draw) -> Any:
    X = draw(often((4, sane_matrices()), (1, rows())))
    loss = draw(st.sampled_from([*MOMENTS, "simclr"]))
    model = KernelEmbedding(**SMALL, loss=loss, dtype=draw(st.sampled_from(["float32", "float64"])))
    return used(model.fit(X, sample_weight=draw(weights(n_rows(X)))), X)


@target("KernelEmbedding", weight=3)
def embedding_in_parts(draw: Draw) -> Any:
    """partial_fit, empty_copy, merge and refit."""
    first = draw(sane_matrices())
    second = draw(often((4, st.just(first[::-1] + 0.1)), (1, sane_matrices()), (1, rows())))
    model = KernelEmbedding(**SMALL, loss=draw(st.sampled_from(MOMENTS)))
    model.partial_fit(first, sample_weight=draw(often((2, st.none()), (1, weights(len(first))))))
    other = model.empty_copy().partial_fit(
        second, first_row=draw(mostly([None, 0, len(first)], [-1, "last"]))
    )
    merged = model.merge(other)
    if merged.n_samples_seen_ < len(first):
        raise ChangedError("rows were lost when models were merged")
    wider = merged.refit(**draw(REFITTED))
    return used(merged, first), used(wider, first)


REFITTED = mostly(
    [
        {},
        {"n_components": 1},
        {"n_components": 50},
        {"loss": "vicreg"},
        {"loss": "kernel_pca"},
        {"regularization": 0.0},
        {"solver": "moment_descent"},
    ],
    [
        {"loss": "simclr"},
        {"regularization": 1e9},
        {"loss__redundancy": 0.1},
        {"kernel": "linear"},
        {"n_components": -1},
        {"nothing": 1},
    ],
)


@target("KernelEmbedding", "load", weight=3)
def embedding_in_a_file(draw: Draw) -> Any:
    """What was saved and loaded again says the same of every row, bit for bit."""
    X = draw(often((3, sane_matrices()), (1, tables()), (1, images())))
    model = KernelEmbedding(**draw(embedding_parameters(wrong=False))).fit(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.krepes"
        model.save(path, moments=draw(st.booleans()))
        kernel = (
            model.kernel if isinstance(model.kernel, Custom) or not isinstance(model.kernel, str) else None
        )
        again = load(path, kernel=kernel if _holds_function(kernel) else None)
        check_same(again.transform(X), model.transform(X), "the loaded model")
        if [file.name for file in Path(folder).iterdir()] != [path.name]:
            raise ChangedError("saving or loading has left other files")
    return used(again, X)


def _holds_function(kernel: Any) -> bool:
    return isinstance(kernel, Custom) or (callable(kernel) and not hasattr(kernel, "get_params"))


@cached
def fitted(kind: str) -> KernelEmbedding:
    """Models that other cases use."""
    rng = np.random.default_rng(0)
    if kind == "images":
        return KernelEmbedding(**SMALL).fit(rng.uniform(size=(12, 3, 3)))
    X = rng.normal(size=(14, 3))
    if kind == "table":
        X = USUAL["pandas"](X)
    loss = {"vectors": "spectral_contrastive", "table": "barlow_twins", "principal": "kernel_pca"}[kind]
    return KernelEmbedding(**SMALL, loss=loss).fit(X)


KINDS = ["vectors", "table", "images", "principal"]


@target("KernelEmbedding", weight=4)
def embedding_of_new_rows(draw: Draw) -> Any:
    """A good model meets any rows."""
    kind = draw(st.sampled_from(KINDS))
    model, fitting = fitted(kind), matrices(1, min_columns=1).map(lambda X: np.resize(X, (len(X), 3)))
    if kind == "images":
        fitting = fitting.map(lambda X: np.resize(X, (len(X), 3, 3)))
    X = draw(often((2, fitting), (1, rows())))
    size = draw(mostly([None, 1, 3], [0, -1, "few"]))
    return used(model, X), list(model.iter_transform(X, batch_rows=size))


@target("KernelEmbedding", weight=2)
def embedding_with_given_landmarks(draw: Draw) -> Any:
    X = draw(sane_matrices())
    indices = st.lists(st.integers(-2, 20), max_size=8)
    given = often(
        (3, st.just(X[:3])), (1, sane_matrices()), (1, rows()), (1, indices), (1, st.just([0, 0, 1]))
    )
    model = KernelEmbedding(**SMALL, landmarks=draw(given), kernel=draw(kernels(wrong=False)))
    return used(model.fit(X), X)


@target("KernelEmbedding", weight=2)
def embedding_settings(draw: Draw) -> Any:
    """set_params with any value, prepare, callbacks, and fits in a given space."""
    X = draw(sane_matrices())
    names = [
        "loss__redundancy",
        "kernel__lengthscale",
        "views__noise",
        "landmarks__block_size",
        "solver__max_iter",
    ]
    values = [0.5, 1, 0, -1, None, "word", float("nan"), [1.0, 2.0], 1e-300, 1e300]
    model = KernelEmbedding(**SMALL, loss="barlow_twins", views="tabular", solver="moment_descent")
    model.set_params(**{draw(st.sampled_from(names)): draw(st.sampled_from(values))})
    seen: list[int] = []
    space = model.prepare(X)
    model.fit(X, space=space, callback=lambda step, values: seen.append(step))
    return used(model, X), len(seen)
