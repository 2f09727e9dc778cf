"""Bad series, histograms, columns and kernel matrices: an exception that says what was given and what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from krepes import KernelEmbedding, check_kernel
from krepes.kernels import (
    ChiSquared,
    ColumnKernel,
    Custom,
    Gaussian,
    GlobalAlignment,
    Gower,
    Intersection,
    Linear,
    Precomputed,
    RandomWarping,
)
from krepes.machines import GaussianProcessClassifier, KernelRidgeClassifier
from refusals import refuses, warns_of
from structured_kernels import letters_in_common, records, vectors

X = vectors()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (ChiSquared(0.0), "lengthscale=0.0"),
        (ChiSquared("mean"), "'mean'"),
        (ChiSquared(), "fitted"),
        (GlobalAlignment(), "fitted"),
        (GlobalAlignment(-1.0), "-1.0"),
        (GlobalAlignment(1.0, triangular=0), "triangular=0"),
        (GlobalAlignment(1.0, triangular=1.5), "triangular=1.5"),
        (RandomWarping(), "fitted"),
        (RandomWarping(scale=1.0, n_series=0), "n_series"),
        (RandomWarping(scale=1.0, seed=-1), "seed=-1"),
        (Gower(1.0, combine="sum"), "combine='sum'"),
        (Gower(1.0, profile="cosine"), "profile='cosine'"),
        (Gower(1.0, missing=2.0), "missing=2.0"),
        (Gower(), "fitted"),
        (ColumnKernel(), "parts"),
        (ColumnKernel([("a", Linear())]), ("kernel", "columns")),
        (ColumnKernel([("a", Linear(), 0), ("a", Linear(), 1)]), "'a'"),
        (ColumnKernel([("a", Linear(), [0, 0])]), "twice"),
        (ColumnKernel([("a", Linear(), [3, -1])]), "twice"),
        (ColumnKernel([("a", Linear(), [])]), "columns"),
        (ColumnKernel([("a", Linear(), 9)]), "column 9"),
        (ColumnKernel({"age": Linear()}), "without names"),
        (ColumnKernel([("a", Linear(), 0)], combine="mean"), "combine='mean'"),
        (ColumnKernel([("a", Linear(), 0)], weights=[1.0, 2.0]), ("1", "positive", "numbers")),
        (ColumnKernel([("a", Linear(), 0)], weights=[-1.0]), "positive"),
        (ColumnKernel([("a", Linear(), 0)], "product", weights=[1.0]), "sums"),
    ],
    ids=str,
)
def test_bad_parameters_are_named_when_the_kernel_is_used(kernel, message):
    with refuses(ValueError, message):
        kernel(X.abs())


@pytest.mark.parametrize("kernel", [ChiSquared(1.0), ChiSquared(additive=True), Intersection()], ids=repr)
def test_negative_counts_are_refused(kernel):
    with refuses(ValueError, "column 1", "-2"):
        kernel([[1.0, -2.0]])
    with refuses(ValueError, "column 1", "-2"):
        kernel([[1.0, -2.0]], [[1.0, 2.0]])
    with refuses(ValueError, "column 1", "-2"):
        kernel.diag([[1.0, -2.0]])


@pytest.mark.parametrize("kernel", [GlobalAlignment(1.0), RandomWarping(3, scale=1.0)], ids=repr)
def test_bad_series_are_refused(kernel):
    good = [np.zeros(3), np.zeros(2)]
    for bad, message in [
        ([np.zeros(0)], ("0", "Series", "empty")),
        ([np.zeros(2), np.array([1.0, np.nan])], ("1", "NaN")),
        ([np.zeros(2), np.zeros((2, 2))], ("1", "2 channels")),
        ([np.zeros((2, 2, 2))], "(2, 2, 2)"),
        (np.zeros(4), "(n, t)"),
    ]:
        with refuses(ValueError, message):
            kernel(bad)
    with refuses(ValueError, "2 channels"):
        kernel([np.zeros((2, 2))], good)
    with refuses(TypeError, "Row 0"):
        kernel(["abc"])


TABLE = pd.DataFrame(
    {
        "age": X[:, 0],
        "id": np.arange(len(X)),
        "city": ["a", "b", "c"] * 15,
        "text": [f"t{i}" for i in range(45)],
    }
)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"agee": Gaussian()}, "'age'"),
        ({"age, age": Gaussian()}, "'age'"),
        ({"age, id": Gaussian()}, "'id'"),
        ({"age": Gaussian(), "text": Gaussian()}, "'text'"),
        ([("a", Gaussian(), 7)], "column 7"),
    ],
    ids=str,
)
def test_columns_that_cannot_be_compared_are_named(parts, message):
    with refuses(ValueError, message):
        KernelEmbedding(2, kernel=ColumnKernel(parts), loss="kernel_pca").fit(TABLE)


def test_what_a_column_kernel_cannot_do_is_said():
    text = ColumnKernel({"age": Gaussian(), "text": Custom(letters_in_common)})
    with refuses(ValueError, "augmentation", "text"):
        KernelEmbedding(2, kernel=text).fit(TABLE)
    with refuses(ValueError, "parts"):
        KernelEmbedding(2, kernel=text + Gaussian(), loss="kernel_pca").fit(TABLE)
    with refuses(ValueError, "'city'", "excluded", "label"):
        KernelRidgeClassifier(kernel=ColumnKernel({"city": Gaussian()})).fit(TABLE, "city")
    model = KernelEmbedding(2, kernel=text, loss="kernel_pca", n_landmarks=20).fit(TABLE)
    with refuses(ValueError, "'text'"):
        model.transform(TABLE[["age", "city"]].to_dict("list"))
    with refuses(ValueError, "'c'"):
        ColumnKernel({"c": Linear()})(records())
    with refuses(TypeError, "'word'", "Linear()", "kernel", "objects"):
        ColumnKernel({"word": Linear()})(records())


K = Gaussian(1.0)(X).numpy()
y = np.arange(len(X)) % 2


def test_kernel_matrices_that_are_none_are_refused():
    machine = KernelRidgeClassifier(kernel="precomputed", random_state=0)
    for bad, message in [
        (K[:20], "square"),
        (K + np.triu(K), "symmetric"),
        (-K, ("k(x, x)", "-1")),
        (np.where(np.eye(len(K)), np.nan, K), "NaN"),
        (K[:, :, None], "shape"),
    ]:
        with refuses(ValueError, message):
            machine.fit(bad, y[: len(bad)])
    with warns_of(UserWarning, "positive semi-definite"):
        KernelEmbedding(1, kernel="precomputed", loss="kernel_pca").fit(1 - K)


def test_what_a_precomputed_kernel_cannot_do_is_said(tmp_path):
    settings = {"loss": "kernel_pca", "n_landmarks": 20, "random_state": 0}
    model = KernelEmbedding(2, kernel="precomputed", **settings).fit(K)
    with refuses(ValueError, "45 features"):
        model.transform(X.numpy())
    for call in (model.coverage, model.partial_fit):
        with refuses(ValueError, "kernel", "matrix"):
            call(K[:9])
    with refuses(ValueError, "kernel='precomputed'", "views"):
        KernelEmbedding(2, kernel="precomputed").fit(K)
    with refuses(ValueError, "kernel='precomputed'", "views"):
        KernelEmbedding(2, kernel="precomputed").fit(K, positives=K)
    np.save(tmp_path / "K.npy", K)
    with refuses(TypeError, "kernel='precomputed'", "files"):
        KernelEmbedding(2, kernel="precomputed", **settings).fit(tmp_path / "K.npy")
    with refuses(ValueError, "kernel='precomputed'"):
        KernelEmbedding(2, kernel=Gaussian() + Precomputed(), **settings).fit(K)
    with refuses(ValueError, "kernel='precomputed'"):
        KernelRidgeClassifier(kernel=["gaussian", "precomputed"]).fit(K, y)
    with refuses(ValueError, "X_unlabelled"):
        KernelRidgeClassifier(kernel="precomputed").fit(K, y, X_unlabelled=K)
    with refuses(ValueError, "model", "never"):
        model.reconstruct(K)
    with refuses(ValueError, "k(x, x)", "last column"):
        GaussianProcessClassifier(kernel="precomputed").fit(K, y).predict_proba(K)
    with refuses(ValueError, "kernel='precomputed'"):
        check_kernel("precomputed", K)
