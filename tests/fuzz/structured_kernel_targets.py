"""Kernels of histograms, series, mixed rows and columns, and kernel matrices: alone, and in estimators."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st

from fuzz.label_strategies import objects
from fuzz.outcome import check_shape
from fuzz.parts import WRONG, kernels, overlap
from fuzz.strategies import WRONG as WRONG_FORMS
from fuzz.strategies import features, forms_of, matrices, mostly, n_rows, often, sane_matrices, tables
from fuzz.target import Draw, target
from krepes import KernelEmbedding
from krepes.kernels import (
    ChiSquared,
    ColumnKernel,
    Custom,
    Gaussian,
    GlobalAlignment,
    Gower,
    Intersection,
    Kernel,
    NGrams,
    Precomputed,
    RandomWarping,
)
from krepes.machines import KernelRidgeClassifier

SMALL = {"n_components": 2, "n_landmarks": 5, "loss": "kernel_pca", "random_state": 0}
LENGTHS = ["median", 0.5, 2.0, "4 median"]
ARGUMENTS: dict[type[Kernel], dict[str, list[Any]]] = {
    ChiSquared: {"lengthscale": LENGTHS, "additive": [True, False]},
    Intersection: {},
    GlobalAlignment: {"lengthscale": LENGTHS, "triangular": [None, 1, 4]},
    RandomWarping: {"n_series": [1, 8], "max_length": [1, 5], "scale": ["auto", 0.5], "seed": [0, 3]},
    Gower: {
        "lengthscale": LENGTHS,
        "combine": ["product", "mean"],
        "profile": ["laplacian", "gaussian"],
        "missing": [0.0, 0.5, 1.0],
    },
}


@st.composite
def structured(draw: st.DrawFn, *classes: type[Kernel]) -> Kernel:
    """A kernel of one of the classes, now and then with an argument that it cannot have."""
    cls = draw(st.sampled_from(classes))
    given = {name: draw(mostly(values, WRONG)) for name, values in ARGUMENTS[cls].items()}
    assert given.keys() <= inspect.signature(cls).parameters.keys()
    return cls(**given)


def values(kernel: Kernel, X: Any, Y: Any) -> Any:
    """All that a kernel says of rows."""
    fitted = kernel.fitted(X, torch.Generator().manual_seed(0))
    K, diagonal = fitted(X, Y), fitted.diag(X)
    check_shape(K, (n_rows(X), n_rows(Y)), "kernel(X, Y)")
    check_shape(diagonal, (n_rows(X),), "kernel.diag(X)")
    return K, diagonal


@target("ChiSquared", "Intersection", "Gower", weight=2)
def kernel_of_histograms_and_mixed_rows(draw: Draw) -> Any:
    X = draw(
        often((3, sane_matrices().map(np.abs)), (1, matrices(min_columns=1).map(np.abs)), (2, features()))
    )
    Y = draw(often((3, st.just(X)), (1, features().filter(lambda rows: rows is not None))))
    return values(draw(structured(ChiSquared, Intersection, Gower)), X, Y)


def some_series(n_channels: int | None = None) -> st.SearchStrategy[Any]:
    """Lists of series of unequal length, of one or more channels."""

    def made(seed: int, n: int, channels: int | None) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        shape = () if channels is None else (channels,)
        return [rng.normal(size=(rng.integers(1, 7), *shape)).cumsum(0) for _ in range(n)]

    width = st.sampled_from([None, 1, 2]) if n_channels is None else st.just(n_channels)
    return st.builds(made, st.integers(0, 99), st.integers(2, 8), width)


ODD_SERIES: list[Any] = [
    [],
    [[]],
    [[1.0], []],
    [[1.0, float("nan")]],
    [[1.0, float("inf")], [0.0]],
    [[1e100, -1e100], [1e90]],
    [[5e-324], [0.0, 0.0]],
    [["a"], ["b"]],
    [[[1.0, 2.0]], [[1.0]]],
    [np.zeros((2, 2, 2))],
    ["word", "other"],
    [None, None],
    [3.0, 4.0],
    None,
    3,
]


@target("GlobalAlignment", "RandomWarping", weight=2)
def kernel_of_series(draw: Draw) -> Any:
    X = draw(often((5, some_series()), (1, features()), (1, st.sampled_from(ODD_SERIES)), (1, objects())))
    Y = draw(often((4, st.just(X)), (1, some_series(1)), (1, st.sampled_from(ODD_SERIES[:-2]))))
    return values(draw(structured(GlobalAlignment, RandomWarping)), X, Y)


@target("GlobalAlignment", "RandomWarping", weight=1)
def embedding_of_series(draw: Draw) -> Any:
    X = draw(often((5, some_series()), (1, features()), (1, st.sampled_from(ODD_SERIES))))
    model = KernelEmbedding(**SMALL, kernel=draw(structured(GlobalAlignment, RandomWarping))).fit(X)
    return model.transform(X), model.coverage(X)


COLUMNS = mostly(
    ["a", ["a", "b"], 0, [0, 1], -1, slice(2), slice(None)],
    ["nothing", [], [9], ["a", "a"], [0, 0], slice(0), None, 2.5, [None], object],
)
PARTS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "three"]), st.one_of(kernels(), structured(Gower, ChiSquared)), COLUMNS
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part[0],
)
ODD_PARTS: list[Any] = [
    None,
    [],
    {},
    3,
    "all",
    [("a", Gaussian())],
    [3],
    {0: "gaussian"},
    {"a, b": "gausian"},
    [("a", 3, 0)],
    [("a", Gaussian(), 0), ("a", Gaussian(), 1)],
]


@st.composite
def column_kernels(draw: st.DrawFn) -> ColumnKernel:
    parts = draw(
        often(
            (6, PARTS),
            (1, st.sampled_from([{"a": "gaussian"}, {0: Gaussian()}])),
            (1, st.sampled_from(ODD_PARTS)),
        )
    )
    weights = mostly(
        [None, [1.0] * len(parts) if hasattr(parts, "__len__") else None], [[0.0], "all", [1.0, -1.0], 3]
    )
    return ColumnKernel(parts, draw(mostly(["sum", "product"], ["mean", None])), draw(weights))


def records() -> st.SearchStrategy[list[Any]]:
    row = st.fixed_dictionaries(
        {
            "a": st.sampled_from([0.0, 1.5, 1e6]),
            "b": st.sampled_from([1.0, -1.0]),
            "word": st.sampled_from(["x", ""]),
        }
    )
    odd = st.sampled_from([{"a": 1.0}, {}, {"a": None, "b": "x", "word": 3}, (1.0, 2.0), "word", None])
    return often((4, st.lists(row, min_size=2, max_size=6)), (1, st.lists(st.one_of(row, odd), max_size=5)))


@target("ColumnKernel", weight=2)
def kernel_of_columns(draw: Draw) -> Any:
    X = draw(often((3, sane_matrices()), (2, records()), (1, features())))
    return values(draw(column_kernels()), X, X)


TEXT = {"text": NGrams("char", (1, 2)), "words": Custom(overlap, pairwise=True)}


@target("ColumnKernel", "Gower", "ChiSquared", "Intersection", weight=2)
def embedding_of_columns(draw: Draw) -> Any:
    """Tables, whose columns are encoded for kernels of vectors and come as they are to the others."""
    sane = sane_matrices().map(
        lambda X: pd.DataFrame({"a": X[:, 0], "b": [f"{x:.1f}" for x in X[:, -1]], "c": 1.0})
    )
    X = draw(
        often(
            (4, sane),
            (2, tables()),
            (1, sane_matrices()),
            (1, forms_of(matrices(min_columns=1), WRONG_FORMS)),
        )
    )
    parts = [("numbers", Gower(), "a"), ("text", draw(st.sampled_from(list(TEXT.values()))), "b")]
    of_text = ColumnKernel(parts, draw(st.sampled_from(["sum", "product"])))
    kernel = draw(
        often((2, column_kernels()), (2, st.just(of_text)), (2, structured(Gower, ChiSquared, Intersection)))
    )
    model = KernelEmbedding(**SMALL, kernel=kernel).fit(X)
    other = draw(often((3, st.just(X[:3] if isinstance(X, pd.DataFrame | np.ndarray) else X)), (1, tables())))
    return model.transform(X), model.transform(other)


def matrices_of_kernels() -> st.SearchStrategy[Any]:
    """K of some rows; and square matrices that are not symmetric, or not definite."""
    definite = sane_matrices().map(lambda X: Gaussian(2.0)(X).numpy())
    odd = [
        lambda X: X @ X.T + np.arange(len(X)),
        lambda X: -X @ X.T,
        lambda X: np.zeros((len(X), len(X))),
        lambda X: 1e300 * (X @ X.T),
        lambda X: np.full((len(X), len(X)), np.nan),
    ]
    other = st.builds(lambda X, change: change(X), sane_matrices(), st.sampled_from(odd))
    return often((4, definite), (2, other), (1, features()))


@target("Precomputed", weight=2)
def embedding_of_a_kernel_matrix(draw: Draw) -> Any:
    """Any matrix in the place of rows; new rows have as many columns."""
    K = draw(matrices_of_kernels())
    kernel = draw(
        often(
            (4, st.just("precomputed")), (2, st.just(Precomputed())), (1, st.just(Precomputed() + Gaussian()))
        )
    )
    new = draw(
        often((3, st.just(K)), (2, st.just(K[:2] if isinstance(K, np.ndarray) else K)), (1, features()))
    )
    if draw(st.booleans()):
        model = KernelEmbedding(
            **SMALL, kernel=kernel, dtype=draw(st.sampled_from(["float32", "float64"]))
        ).fit(K)
        return model.transform(K), model.transform(new)
    machine = KernelRidgeClassifier(kernel=kernel, n_landmarks=5, random_state=0).fit(
        K, np.arange(n_rows(K)) % 2
    )
    return machine.predict_proba(new)


@target("Precomputed", weight=1)
def precomputed_rows(draw: Draw) -> Any:
    """The kernel itself: rows with their number in front."""
    X = draw(often((2, sane_matrices()), (1, features())))
    rows = (
        np.column_stack([np.arange(n_rows(X)), X @ X.T])
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.size
        else X
    )
    overflowing = isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and not np.isfinite(rows).all()
    # kernels of tensors do not look for infinite numbers, because models have done so
    overflowing |= isinstance(rows, torch.Tensor) and not bool(torch.isfinite(rows).all())
    found = values(Precomputed(), rows, rows)
    return None if overflowing else found
