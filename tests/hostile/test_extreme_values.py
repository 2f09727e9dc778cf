"""Every public function of alignment, machines, clustering, explain and report on hostile values.

A call gives finite numbers (NaN only where that is documented), or a ValueError or TypeError that says something. No
other exception, and no RuntimeWarning, leaves it. What is tested is found in the packages' `__all__`: a new name
without a call here fails.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import krepes.alignment
import krepes.clustering
import krepes.explain
import krepes.machines
import krepes.regression
import krepes.report
from krepes import KernelAutoencoder, KernelEmbedding
from krepes.alignment import (
    AlignmentSelector,
    LayerTransferClassifier,
    SketchedCKA,
    StreamedCKA,
    TransferStatistics,
    TransferTarget,
    cka,
    cka_test,
    combine_kernels,
    combine_sketches,
    compare_networks,
    h_score,
    iter_layers,
    layer_names,
    leep,
    logme,
    one_hot,
    plot_alignment,
    plot_transferability,
    prune_ensemble,
    sketch_layers,
    stable_rank,
    transferability,
)
from krepes.base.components import named
from krepes.clustering import (
    SubspaceClustering,
    clustering_error,
    plot_iterations,
    plot_selection,
    within_share,
)
from krepes.evaluation.linear import LinearClassifier
from krepes.explain import (
    Concept,
    as_direction,
    attribution,
    class_direction,
    coefficient_spectrum,
    column_values,
    counterfactuals,
    effective_rank,
    explain,
    faithfulness,
    landmark_norms,
    landmarks_are_rows_of,
    matching_maps,
    position_maps,
    row_effect,
    target_direction,
)
from krepes.features.kernel_choice import Tried
from krepes.kernels import Gaussian, Patches
from krepes.machines import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.regression import (
    LeaveOneOutRidge,
    TransductiveRidge,
    expected_calibration_error,
    temperature,
)
from krepes.report import write_machine_page, write_report
from refusals import refuses
from report_content import content, tops_of, unpacked

N = 24
Y = np.arange(N) % 3
X = np.random.default_rng(0).normal(size=(N, 3)) + np.eye(3)[Y]
F = np.random.default_rng(1).normal(size=(N, 2)) + X[:, :2]
GRAM = X @ X.T
DATES = np.datetime64("2020-01-01") + np.arange(3 * N).reshape(N, 3)
PROBABILITIES = np.abs(X) / np.abs(X).sum(1, keepdims=True)
NETWORK = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).requires_grad_(False)
PROBE = LinearClassifier(np.eye(3), np.zeros(3), np.array([0, 1, 2]))


def where(value: Any) -> np.ndarray:
    bad = X.copy()
    bad[3, 1] = value
    return bad


def scaled(columns: list[float]) -> np.ndarray:
    return X * columns


ROWS: dict[str, Any] = {
    "NaN": where(np.nan),
    "infinite": where(-np.inf),
    "no rows": np.empty((0, 3)),
    "no columns": np.empty((N, 0)),
    "nothing": [],
    "a vector": X[:, 0],
    "three dimensions": X[:, :, None],
    "four dimensions": X[:, :, None, None],
    "a number": 3.0,
    "None": None,
    "a word": "rows",
    "text": np.array([["a", "b", "c"]] * N),
    "digits as text": np.full((N, 3), "1.5"),
    "objects of text": np.array([["a", 1.0, None]] * N, dtype=object),
    "objects of numbers": X.astype(object),
    "objects": np.array([[object()] * 3] * N, dtype=object),
    "dates": DATES,
    "durations": DATES - DATES[0],
    "complex": X + 1j,
    "structured": np.zeros((N, 3), dtype=[("a", float), ("b", int)]),
    "masked": np.ma.masked_greater(X, 1.0),
    "sparse": scipy.sparse.csr_array(X),
    "sparse tensor": torch.from_numpy(X).to_sparse(),
    "complex tensor": torch.from_numpy(X + 1j),
    "five rows": X[:5],
    "two rows": X[:2],
    "a single row": X[:1],
    "two columns": X[:, :2],
    "ragged": [[1.0, 2.0, 3.0]] * (N - 1) + [[1.0]],
    "a set": {1.0, 2.0},
    "a mapping": {"a": 1.0},
    "an object": object(),
    "zeros": np.zeros((N, 3)),
    "equal rows": np.full((N, 3), 0.1),
    "equal rows, float32": np.full((N, 3), 0.1, dtype=np.float32),
    "two kinds of rows": X[Y % 2],
    "a constant column": scaled([1, 1, 0]) + np.array([0, 0, 0.1]),
    "a huge constant column": scaled([1, 1, 0]) + np.array([0, 0, 1e200]),
    "equal columns": X[:, [0, 0, 0]],
    "1e100": 1e100 * X,
    "1e160": 1e160 * X,
    "1e200": 1e200 * X,
    "1e305": 1e305 * X,
    "-1e308": np.where(X > 1, -1e308, 1e308),
    "1e-100": 1e-100 * X,
    "1e-200": 1e-200 * X,
    "denormal": 1e-310 * X,
    "smallest": np.where(X > 1, 5e-324, 0.0),
    "mixed scales": scaled([1e200, 1, 1e-200]),
    "far from zero": X + 1e12,
    "largest float32": (1e38 * X).astype(np.float32),
    "integers": np.round(10 * X).astype(int),
    "bytes": np.round(np.abs(10 * X)).astype(np.uint8),
    "true and false": X > 0,
    "float16": X.astype(np.float16),
    "longdouble": X.astype(np.longdouble),
    "big endian": X.astype(">f8"),
    "a list": X.tolist(),
    "a tensor": torch.from_numpy(X),
    "bfloat16": torch.from_numpy(X).bfloat16(),
    "with a gradient": torch.from_numpy(X).requires_grad_(),
    "a frame": pd.DataFrame(X, columns=["a", "b", "c"]),
    "a frame of polars": pl.DataFrame(X, schema=["a", "b", "c"]),
    "a frame with text": pd.DataFrame({"a": X[:, 0], "b": ["x"] * N, "c": X[:, 1]}),
    "a frame of dates": pd.DataFrame(DATES.astype("datetime64[ns]")),
    "a frame with gaps": pd.DataFrame({"a": pd.array([1, None] * 12, dtype="Int64"), "b": 1.0, "c": 2.0}),
}
LABELS: dict[str, Any] = {
    "None": None,
    "a number": 3,
    "a word": "cat",
    "nothing": [],
    "one class": np.zeros(N, dtype=int),
    "all different": np.arange(N),
    "fractions": Y + 0.5,
    "NaN": np.where(Y == 1, np.nan, Y),
    "all missing": [None] * N,
    "some missing": ["a", None, "b"] * 8,
    "infinite": np.where(Y == 1, np.inf, Y),
    "dates": DATES[:, 0],
    "complex": Y + 1j,
    "text": np.array(["a", "b", "c"])[Y],
    "mixed objects": np.array(["a", 1, 2.5] * 8, dtype=object),
    "two columns": np.column_stack([Y, Y]),
    "one column": Y[:, None],
    "three dimensions": Y[:, None, None],
    "too few": Y[:5],
    "ragged": [[1], [1, 2]] * 12,
    "sparse": scipy.sparse.csr_array(np.eye(N)),
    "true and false": Y > 0,
    "bytes": np.array([b"a", b"b", b"c"])[Y],
    "negative": Y - 5,
    "huge": Y * 1e200,
    "denormal": Y * 1e-310,
    "a tensor": torch.from_numpy(Y),
    "a series": pd.Series(Y),
    "categories": pd.Series(Y).astype("category"),
}


class Call(NamedTuple):
    """A public function as a function of hostile rows or labels; `nan` where NaN, or a log CKA of -inf, is right.

    `long` is for the long checks only.
    """

    function: Callable[[Any], Any]
    nan: bool = False
    long: bool = False


@functools.cache
def model() -> KernelEmbedding:
    return KernelEmbedding(3, n_landmarks=8, random_state=0).fit(X)


@functools.cache
def of_pictures() -> KernelEmbedding:
    pictures = np.random.default_rng(0).random((20, 8, 8))
    return KernelEmbedding(3, kernel=Patches(4), n_landmarks=8, random_state=0).fit(pictures)


@functools.cache
def concept() -> Concept:
    return Concept(X[:10], X[10:], n_permutations=3, n_resamples=2).fit(model())


def in_batches(Z: Any) -> Any:
    """A stream of three batches, the last of which is ordinary: what is kept of the first two must not spoil it."""
    stream = StreamedCKA().update(Z, X)
    return stream.merge(StreamedCKA().update(X, X)).score()


def fitted_then_used(estimator: Any, *methods: str) -> Callable[[Any], Any]:
    """Fit on hostile rows; and fit on ordinary ones, once, then use on hostile ones."""
    ordinary = functools.cache(lambda: clone_of(estimator).fit(X, Y))

    def call(Z: Any) -> Any:
        for method in methods:
            problem = problem_of(Call(getattr(ordinary(), method)), Z)
            if problem:
                raise AssertionError(f"{method} {problem}")
        fitted = clone_of(estimator).fit(Z, Y)
        return fitted, [getattr(fitted, method)(Z) for method in methods]

    return call


def of_machine(machine: type, *methods: str) -> list[Call]:
    """A machine with one kernel; the search among kernels is for the long checks."""
    small = {"n_landmarks": 8, "random_state": 0}
    return [
        Call(fitted_then_used(machine(kernel="gaussian", **small), *methods)),
        Call(fitted_then_used(machine(**small), *methods), long=True),
    ]


def clone_of(estimator: BaseEstimator) -> Any:
    return type(estimator)(**estimator.get_params(deep=False))


@functools.cache
def folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


def report_of(fitted: Any, Z: Any, **options: Any) -> list[Any]:
    """All numbers of a written page, as the page reads them."""
    page = content(write_report(fitted, Z, f"{folder().name}/report.html", overwrite=True, **options))
    places = [part for each in page["maps"] for part in (each["rows"], each["landmarks"])]
    tops = [tops_of(part)[1] for part in (page["headline"], *page["directions"])]
    near = [page["nearest"]["distances"], *([] if page["heat"] is None else [page["heat"]["largest"]])]
    packed = (page["coverage"], page["landmarks"]["norms"], *places, *near)
    return [page["spectrum"], *map(unpacked, packed), *tops]


def concept_of(Z: Any, method: str = "svm") -> Any:
    found = Concept(method=method, n_permutations=3, n_resamples=2).fit_representation(Z, X[:10])
    return found, found.scores(Z)


OF_ROWS: dict[str, list[Call]] = {
    "AlignmentSelector": [
        Call(fitted_then_used(AlignmentSelector(), "transform"), nan=True),
        Call(lambda Z: AlignmentSelector([[0, 1], [2]]).fit(Z, Y), nan=True),
    ],
    "LayerTransferClassifier": [
        Call(fitted_then_used(LayerTransferClassifier(random_state=0), "predict", "predict_proba"), nan=True),
        Call(
            lambda Z: (
                LayerTransferClassifier(random_state=0)
                .fit({"a": Z, "b": F}, Y)
                .predict_proba({"a": Z, "b": F})
            ),
            nan=True,
        ),
        Call(lambda Z: LayerTransferClassifier(NETWORK, random_state=0).fit(Z, Y).predict_proba(X), nan=True),
        Call(lambda Z: LayerTransferClassifier(random_state=0).fit(X, Y, Z).predict_proba(X), nan=True),
    ],
    "PrunedEnsemble": [Call(lambda Z: prune_ensemble(X, y=X[:, 0] + F[:, 1]).predict(Z))],
    "SketchedCKA": [
        Call(lambda Z: SketchedCKA(16).update({"a": Z, "b": X}).score("a", "b")),
        Call(lambda Z: SketchedCKA(16, 4).update({"a": X}).update({"b": Z}).table(), nan=True),
        Call(lambda Z: SketchedCKA(16).update({"a": Z}).merge(SketchedCKA(16).update({"a": X}, N)).table()),
        Call(lambda Z: SketchedCKA(16).update({"a": X}, rows=Z)),
        Call(lambda Z: SketchedCKA(16).update(Z)),
    ],
    "StreamedCKA": [
        Call(lambda Z: StreamedCKA().update(Z, X).score()),
        Call(lambda Z: StreamedCKA("biased").update(X, Z).score()),
        Call(in_batches),
    ],
    "TransferStatistics": [
        Call(lambda Z: TransferStatistics(Y).update(Z).score(), nan=True),
        Call(lambda Z: TransferStatistics(Y, method="sketch", n_buckets=16).update(Z).score(), nan=True),
        Call(lambda Z: TransferStatistics(Y).update(X[:12], rows=Z)),
    ],
    "cka": [
        Call(lambda Z: cka(Z, X)),
        Call(lambda Z: cka(X, Z, estimator="biased")),
        Call(lambda Z: cka(Z, X, kernel="gaussian")),
        Call(lambda Z: cka(Z, GRAM, kernel="precomputed")),
    ],
    "cka_test": [Call(lambda Z: cka_test(Z, X, n_permutations=3), nan=True)],
    "combine_kernels": [
        Call(lambda Z: combine_kernels({"a": Z, "b": F}, Y, n_resamples=2, random_state=0), nan=True),
        Call(lambda Z: combine_kernels([Z, F], Y, kernel="gaussian"), nan=True),
        Call(lambda Z: combine_kernels(Z, Y), nan=True),
        Call(lambda Z: combine_kernels({"a": X}, Z), nan=True),
    ],
    "combine_sketches": [
        Call(lambda Z: combine_sketches(SketchedCKA(16).update({"a": Z, "b": F, "target": X})), nan=True),
        Call(lambda Z: combine_sketches(SketchedCKA(16).update({"a": X, "target": Z})), nan=True),
        Call(combine_sketches),
    ],
    "h_score": [
        Call(lambda Z: h_score(Z, Y), nan=True),
        Call(lambda Z: h_score(Z, Y, shrink=False), nan=True),
        Call(lambda Z: h_score(Z, Y, shrink="total"), nan=True),
    ],
    "iter_layers": [Call(lambda Z: list(iter_layers(NETWORK, Z))), Call(lambda Z: list(iter_layers(Z, X)))],
    "layer_names": [Call(layer_names)],
    "leep": [Call(lambda Z: leep(Z, Y))],
    "logme": [Call(lambda Z: logme(Z, Y))],
    "plot_alignment": [Call(lambda Z: plot_alignment(Z, [str(i) for i in range(N)], list("abc")))],
    "plot_transferability": [
        Call(plot_transferability),
        Call(lambda Z: plot_transferability(transferability({"a": Z, "b": X}, Y))),
    ],
    "prune_ensemble": [
        Call(lambda Z: prune_ensemble(Z, y=X[:, 0] + F[:, 1]), nan=True),
        Call(lambda Z: prune_ensemble(Z, y=Y), nan=True),
        Call(lambda Z: prune_ensemble(np.stack([X, F[:, [0, 1, 1]]], axis=1), y=Z), nan=True),
        Call(lambda Z: prune_ensemble(RandomForestClassifier(4, random_state=0).fit(X, Y), Z, Y), nan=True),
    ],
    "compare_networks": [
        Call(lambda Z: compare_networks(NETWORK, NETWORK, Z, n_buckets=16).values, nan=True),
    ],
    "sketch_layers": [
        Call(lambda Z: sketch_layers(NETWORK, Z, Y, sketch=SketchedCKA(16)).table(), nan=True),
        Call(lambda Z: sketch_layers(NETWORK, X, Z, sketch=SketchedCKA(16)).table(), nan=True),
        Call(lambda Z: sketch_layers(Z, X)),
    ],
    "stable_rank": [Call(stable_rank), Call(lambda Z: stable_rank(Z, center=False))],
    "transferability": [
        Call(lambda Z: transferability({"a": Z, "b": X}, Y), nan=True),
        Call(lambda Z: transferability({"a": Z}, Y, method="sketch", n_buckets=16), nan=True),
        Call(lambda Z: transferability({"a": X}, Y, probabilities={"a": Z}), nan=True),
        Call(lambda Z: transferability({"a": NETWORK}, Y, Z), nan=True),
        Call(lambda Z: transferability(Z, Y), nan=True),
    ],
    "LeaveOneOutRidge": [
        Call(fitted_then_used(LeaveOneOutRidge(), "predict")),
        Call(lambda Z: LeaveOneOutRidge().fit(X, Z).predict(X)),
    ],
    "TransductiveRidge": [
        Call(lambda Z: TransductiveRidge().fit(Z, np.eye(3)[Y], X).predict(X)),
        Call(lambda Z: TransductiveRidge().fit(X, Z, X).predict(X)),
        Call(lambda Z: TransductiveRidge().fit(X, np.eye(3)[Y], Z).predict(X)),
        Call(lambda Z: TransductiveRidge().fit(X, np.eye(3)[Y], X).predict(Z)),
    ],
    "expected_calibration_error": [Call(lambda Z: expected_calibration_error(Z, Y))],
    "temperature": [Call(lambda Z: temperature(Z, Y))],
    "SubspaceClustering": [
        Call(fitted_then_used(SubspaceClustering(2, n_iterations=1, random_state=0), "predict", "project")),
        Call(lambda Z: SubspaceClustering(2, kernel="linear", n_iterations=1, random_state=0).fit(Z)),
        Call(lambda Z: SubspaceClustering(2, normalization="none", n_iterations=1, random_state=0).fit(Z)),
        Call(lambda Z: SubspaceClustering(None, n_iterations=1, random_state=0).fit(Z)),
        Call(lambda Z: SubspaceClustering(2, coding="ridge", n_iterations=1, random_state=0).fit(Z)),
        Call(lambda Z: SubspaceClustering(2, kernel="precomputed", random_state=0).fit(Z)),
    ],
    "clustering_error": [Call(lambda Z: clustering_error(Y, Z)), Call(lambda Z: clustering_error(Z, Y))],
    "plot_selection": [
        Call(lambda Z: plot_selection(SubspaceClustering(2, n_iterations=0, random_state=0).fit(Z))),
        Call(lambda Z: plot_selection(Z)),
    ],
    "plot_iterations": [
        Call(lambda Z: plot_iterations(SubspaceClustering(2, n_iterations=1, random_state=0), Z, Y)),
        Call(lambda Z: plot_iterations(Z, X, Y)),
    ],
    "within_share": [Call(lambda Z: within_share(Z, Y)), Call(lambda Z: within_share(GRAM**2, Z))],
    "Concept": [
        Call(concept_of),
        Call(lambda Z: concept_of(Z, "mean_difference")),
        Call(lambda Z: Concept(Z, X[:9], n_permutations=2, n_resamples=2).fit(model())),
        Call(lambda Z: concept().scores(Z)),
        Call(lambda Z: Concept(X[:9], X[9:]).fit(Z)),
    ],
    "as_direction": [Call(lambda Z: as_direction(model(), Z)), Call(lambda Z: as_direction(Z, 0))],
    "attribution": [
        Call(lambda Z: attribution(model(), Z, 0)),
        Call(lambda Z: attribution(model(), X, Z)),
    ],
    "class_direction": [
        Call(lambda Z: class_direction(Z, 0)),
        Call(lambda Z: class_direction(LinearClassifier(Z, np.zeros(3), np.array([0, 1, 2])), 1)),
    ],
    "coefficient_spectrum": [Call(coefficient_spectrum)],
    "effective_rank": [Call(effective_rank)],
    "landmark_norms": [Call(landmark_norms)],
    "KernelRidgeClassifier": of_machine(KernelRidgeClassifier, "predict", "predict_proba"),
    "KernelRidgeRegressor": of_machine(KernelRidgeRegressor, "predict", "predict_interval"),
    "GaussianProcessClassifier": of_machine(
        GaussianProcessClassifier, "predict_proba", "latent_mean_and_variance"
    ),
    "GaussianProcessRegressor": of_machine(
        GaussianProcessRegressor, "predict", "predict_interval", "sample_y"
    ),
    "NoveltyDetector": of_machine(NoveltyDetector, "predict", "p_values", "explain"),
    "target_direction": [Call(target_direction)],
    "write_machine_page": [Call(lambda Z: write_machine_page(Z, X, f"{folder().name}/machine.html"))],
    "landmarks_are_rows_of": [Call(lambda Z: landmarks_are_rows_of(model(), Z))],
    "faithfulness": [Call(lambda Z: faithfulness(model(), Z, n_rows=5))],
    "explain": [Call(lambda Z: explain(model(), Z))],
    "column_values": [Call(lambda Z: column_values(model(), Z))],
    "counterfactuals": [
        Call(lambda Z: counterfactuals(KernelRidgeRegressor(random_state=0).fit(X, X[:, 0]), Z))
    ],
    "row_effect": [
        Call(lambda Z: row_effect(model(), Z, [0], on=X)),
        Call(lambda Z: row_effect(model(), X, [0], on=Z)),
    ],
    "position_maps": [Call(lambda Z: position_maps(of_pictures(), Z, 0))],
    "matching_maps": [Call(lambda Z: matching_maps(of_pictures(), Z, [0, 1, 2]))],
    "write_report": [
        Call(lambda Z: report_of(model(), Z)),
        Call(lambda Z: report_of(model(), X, columns={"c": Z})),
        Call(lambda Z: report_of(Z, X)),
    ],
}
OF_LABELS: dict[str, list[Call]] = {
    "AlignmentSelector": [Call(lambda y: AlignmentSelector().fit(X, y), nan=True)],
    "LayerTransferClassifier": [
        Call(lambda y: LayerTransferClassifier(random_state=0).fit(X, y).predict_proba(X), nan=True)
    ],
    "TransferStatistics": [Call(lambda y: TransferStatistics(y).update(X).score(), nan=True)],
    "TransferTarget": [
        Call(lambda y: vars(TransferTarget(y, 16, 3)) | {"sketches": TransferTarget(y, 16, 3).sketches})
    ],
    "combine_kernels": [Call(lambda y: combine_kernels({"a": X, "b": F}, y), nan=True)],
    "h_score": [Call(lambda y: h_score(X, y), nan=True)],
    "leep": [Call(lambda y: leep(PROBABILITIES, y))],
    "logme": [Call(lambda y: logme(X, y))],
    "one_hot": [Call(one_hot)],
    "prune_ensemble": [
        Call(lambda y: prune_ensemble(X, y=y), nan=True),
        Call(lambda y: prune_ensemble(np.stack([PROBABILITIES] * 2, axis=1), y=y), nan=True),
        Call(lambda y: prune_ensemble(RandomForestClassifier(4, random_state=0).fit(X, Y), X, y), nan=True),
    ],
    "sketch_layers": [Call(lambda y: sketch_layers(NETWORK, X, y, sketch=SketchedCKA(16)).table(), nan=True)],
    "transferability": [Call(lambda y: transferability({"a": X}, y), nan=True)],
    "LeaveOneOutRidge": [Call(lambda y: LeaveOneOutRidge().fit(X, y).predict(X))],
    "TransductiveRidge": [Call(lambda y: TransductiveRidge().fit(X, y, X).predict(X))],
    "expected_calibration_error": [Call(lambda y: expected_calibration_error(PROBABILITIES, y))],
    "temperature": [Call(lambda y: temperature(X, y))],
    "GaussianProcessClassifier": [
        Call(lambda y: GaussianProcessClassifier(n_landmarks=8, random_state=0).fit(X, y).predict_proba(X))
    ],
    "GaussianProcessRegressor": [
        Call(lambda y: GaussianProcessRegressor(n_landmarks=8, random_state=0).fit(X, y).predict(X))
    ],
    "SubspaceClustering": [Call(lambda y: SubspaceClustering(2, n_iterations=1, random_state=0).fit(X, y))],
    "plot_iterations": [
        Call(lambda y: plot_iterations(SubspaceClustering(2, n_iterations=1, random_state=0), X, y))
    ],
    "within_share": [Call(lambda y: within_share(GRAM**2, y))],
    "clustering_error": [Call(lambda y: clustering_error(y, Y)), Call(lambda y: clustering_error(Y, y))],
    "class_direction": [Call(lambda y: class_direction(PROBE, y))],
    "write_report": [
        Call(lambda y: report_of(model(), X, labels=y)),
        Call(lambda y: report_of(model(), X, columns={"c": y})),
    ],
}
PACKAGES = (
    krepes.alignment,
    krepes.clustering,
    krepes.explain,
    krepes.machines,
    krepes.regression,
    krepes.report,
)


def is_called(thing: Any) -> bool:
    """Functions and estimators; not the values that they return, nor parts of an estimator, nor abstract classes."""
    if inspect.isfunction(thing):
        return True
    if inspect.isabstract(thing) or (
        dataclasses.is_dataclass(thing) and not issubclass(thing, BaseEstimator)
    ):
        return False
    parts = (krepes.clustering.Coding, krepes.clustering.Projection, krepes.machines.Cells, tuple)
    return not issubclass(thing, parts)


def test_every_public_name_has_a_call():
    public = {name for package in PACKAGES for name in package.__all__ if is_called(getattr(package, name))}
    assert public == set(OF_ROWS) | set(OF_LABELS)


def numbers_of(value: Any, seen: frozenset[int] = frozenset()) -> Iterator[np.ndarray]:
    """All floating-point numbers in a result, however deep."""
    if id(value) in seen:
        return
    seen = seen | {id(value)}
    if isinstance(value, float | np.floating):
        yield np.asarray(value)
    elif isinstance(value, torch.Tensor):
        yield from numbers_of(value.numpy())
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from numbers_of(part, seen)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers_of(part, seen)
    elif isinstance(value, Tried):  # NaN medians are documented: of kernels without a lengthscale
        yield from numbers_of({k: v for k, v in vars(value).items() if k != "medians"}, seen)
    elif dataclasses.is_dataclass(value):
        yield from numbers_of(vars(value), seen)
    elif isinstance(value, BaseEstimator):
        yield from numbers_of({k: v for k, v in vars(value).items() if k.endswith("_")}, seen)


def problem_of(call: Call, given: Any) -> str | None:
    """What is wrong with a call: an exception of another kind, one that says nothing, or numbers that are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            result = call.function(given)
        except Exception as error:
            return problem_with(error)
    for numbers in numbers_of(result):
        if np.isposinf(numbers).any() or not (call.nan or np.isfinite(numbers).all()):
            return f"gives {numbers}"
    return None


def problem_with(error: Exception) -> str | None:
    known = (ValueError, TypeError, FileNotFoundError)  # a word is a path
    clear = isinstance(error, known) and not isinstance(error, np.linalg.LinAlgError) and len(str(error)) > 20
    return None if clear else f"raises {type(error).__name__}: {error}"


def cases(table: dict[str, list[Call]]) -> list[Any]:
    return [
        pytest.param(
            call,
            id=name if number == 0 else f"{name}, {number + 1}",
            marks=pytest.mark.full if call.long else (),
        )
        for name, calls in table.items()
        for number, call in enumerate(calls)
    ]


@pytest.mark.parametrize("call", cases(OF_ROWS))
def test_hostile_rows(call):
    problems = {name: problem_of(call, given) for name, given in ROWS.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_hostile_rows_of_an_autoencoder():
    call = Call(
        fitted_then_used(
            KernelAutoencoder(2, n_landmarks=8, max_iter=5, random_state=0), "transform", "reconstruct"
        )
    )
    problems = {name: problem_of(call, given) for name, given in ROWS.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


@pytest.mark.parametrize("call", cases(OF_LABELS))
def test_hostile_labels(call):
    problems = {name: problem_of(call, given) for name, given in LABELS.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


@pytest.mark.parametrize("coding", named(krepes.clustering.Coding))
@pytest.mark.parametrize("projection", [None, *named(krepes.clustering.Projection)])
def test_hostile_rows_of_every_part_of_clustering(coding, projection):
    options = {"coding": coding, "projection": projection, "n_iterations": 1, "random_state": 0}
    call = Call(lambda Z: SubspaceClustering(2, **options).fit(Z))
    problems = {name: problem_of(call, given) for name, given in ROWS.items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


SCALES = (1e-310, 1e-300, 1e-200, 1e-100, 1e77, 1e100, 1e150, 1e200, 1e290)
FEATURES = np.random.default_rng(2).normal(size=(60, 4)) + np.eye(4)[np.arange(60) % 3]
OTHER = FEATURES[:, :3] + np.random.default_rng(3).normal(size=(60, 3))
CLASSES = np.arange(60) % 3
HALVES = (slice(0, 25), slice(25, 60))


def streamed(s: float) -> float:
    parts = [StreamedCKA().update(s * FEATURES[rows], OTHER[rows]) for rows in HALVES]
    return parts[0].merge(parts[1]).score()


def sketched(s: float, **options: Any) -> np.ndarray:
    sketch = SketchedCKA(32, **options)
    for rows in HALVES:
        sketch.update({"x": s * FEATURES[rows], "y": OTHER[rows], "z": s * OTHER[rows]})
    return sketch.table()[1]


def transfer(s: float, **options: Any) -> np.ndarray:
    statistics = TransferStatistics(CLASSES, n_permutations=5, **options)
    for rows in HALVES:
        statistics.update(s * FEATURES[rows])
    found = dataclasses.astuple(statistics.score())
    values = np.array([value for value in found if isinstance(value, float)])
    return np.nan_to_num(values, nan=-1.0)  # scores that were not asked for


def selected(s: float) -> np.ndarray:
    return AlignmentSelector().fit(s * FEATURES, CLASSES).transform(s * FEATURES)


def weights(found: Any) -> np.ndarray:
    return np.append(found.weights, found.alignment)


FREE_OF_SCALE: dict[str, Callable[[float], Any]] = {
    "cka": lambda s: cka(s * FEATURES, OTHER),
    "cka of both": lambda s: cka(s * FEATURES, s * OTHER, estimator="biased"),
    "cka of matrices": lambda s: cka(s * FEATURES @ FEATURES.T, OTHER @ OTHER.T, kernel="precomputed"),
    "cka_test": lambda s: cka_test(s * FEATURES, OTHER, n_permutations=5, random_state=0).standard_error,
    "StreamedCKA": streamed,
    "SketchedCKA": sketched,
    "SketchedCKA as published": lambda s: sketched(s, n_hashes=4, debias=False),
    "h_score": lambda s: h_score(s * FEATURES, CLASSES),
    "h_score as published": lambda s: h_score(s * FEATURES, CLASSES, shrink=False),
    "h_score regularised": lambda s: h_score(s * FEATURES, CLASSES, shrink="total"),
    "logme": lambda s: logme(s * FEATURES, CLASSES),
    "TransferStatistics": transfer,
    "TransferStatistics, sketched": lambda s: transfer(s, method="sketch", n_buckets=32),
    "transferability": lambda s: transferability({"x": s * FEATURES, "y": OTHER}, CLASSES).cka,
    "stable_rank": lambda s: stable_rank(s * FEATURES),
    "stable_rank, not centred": lambda s: stable_rank(s * FEATURES, center=False),
    "combine_kernels": lambda s: weights(combine_kernels([s * FEATURES, s * OTHER], CLASSES)),
    "combine_kernels, target": lambda s: weights(combine_kernels([FEATURES, OTHER], s * FEATURES[:, :2])),
    "combine_sketches": lambda s: weights(
        combine_sketches(
            SketchedCKA(32).update({"x": s * FEATURES, "y": s * OTHER, "target": np.eye(3)[CLASSES]})
        )
    ),
    "AlignmentSelector": lambda s: selected(max(s, 1e-300)),  # smaller ones would need a factor beyond 1e308
    "prune_ensemble": lambda s: [
        row.weight for row in prune_ensemble(s * FEATURES, y=s * OTHER[:, 0]).table_
    ],
    "effective_rank": lambda s: effective_rank(s * np.arange(5.0)),
    "Concept": lambda s: concept_of_halves(s, "svm"),
    "Concept, mean difference": lambda s: concept_of_halves(s, "mean_difference"),
    "SubspaceClustering": lambda s: (
        SubspaceClustering(3, n_iterations=2, random_state=0).fit(s * FEATURES).labels_
    ),
}


def concept_of_halves(s: float, method: str) -> np.ndarray:
    found = Concept(method=method, n_permutations=3, n_resamples=2)
    return found.fit_representation(*(s * FEATURES[rows] for rows in HALVES)).direction_


@pytest.mark.parametrize("function", FREE_OF_SCALE.values(), ids=FREE_OF_SCALE)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_scale_of_the_data_does_not_matter(function):
    """f(s X) = f(X) for every s that float64 holds."""
    expected = np.asarray(function(1.0))
    for scale in SCALES:
        found = np.asarray(function(scale))
        assert np.abs(found - expected).max() < 1e-10 * max(1.0, np.abs(expected).max()), scale


def test_temperatures_have_the_scale_of_the_scores():
    expected = temperature(FEATURES, CLASSES)
    for scale in SCALES:
        assert temperature(scale * FEATURES, CLASSES) / scale == pytest.approx(expected, rel=1e-6)


def test_sketches_are_plain_sums_at_every_scale():
    """The table of s X is s times that of X, so that parts add up; scores do not see s."""
    for scale in (2.0**-900, 2.0**300, 2.0**900):  # powers of two, so that nothing rounds
        plain, other = (SketchedCKA(32).update({"x": s * FEATURES, "y": OTHER}) for s in (1.0, scale))
        assert np.array_equal(other.sketch("x").table, scale * plain.sketch("x").table)
        assert other.score("x", "y") == plain.score("x", "y")


@pytest.mark.parametrize("value", [0.0, 0.1, 1e200, 1e-310])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_representation_has_no_score_and_nan_in_the_table(value, dtype):
    """Also in batches, whose sums differ by rounding."""
    if not np.isfinite(dtype(value)):
        pytest.skip("beyond single precision")
    sketch = SketchedCKA(32)
    for rows in HALVES:
        sketch.update({"x": FEATURES[rows], "dead": np.full((len(FEATURES[rows]), 3), value, dtype=dtype)})
    with refuses(ValueError, "'dead'"):
        sketch.score("dead", "x")
    values = sketch.table()[1]
    assert values[0, 0] == pytest.approx(1.0)
    assert np.isnan(values[1]).all()
    assert np.isnan(values[:, 1]).all()


def test_sums_of_single_precision_do_not_overflow():
    large = (3e37 * FEATURES).astype(np.float32)
    found = SketchedCKA(2).update({"x": large, "y": OTHER}).score("x", "y")
    assert found == pytest.approx(
        SketchedCKA(2).update({"x": FEATURES, "y": OTHER}).score("x", "y"), abs=1e-5
    )


@pytest.mark.parametrize("scales", [(1.0, 1e150), (1e150, 1.0), (1e-200, 1e-120), (1e100, 1e90)])
def test_streams_of_different_scales_add_up(scales):
    """Parts at different scales give what all rows at once give."""
    X = np.concatenate([s * FEATURES[rows] for s, rows in zip(scales, HALVES)])
    parts = [StreamedCKA().update(X[rows], OTHER[rows]) for rows in HALVES]
    assert parts[0].merge(parts[1]).score() == pytest.approx(cka(X, OTHER), abs=1e-12)
    statistics = TransferStatistics(CLASSES)
    for rows in HALVES:
        statistics.update(X[rows])
    expected = TransferStatistics(CLASSES).update(X / max(scales)).score()
    assert statistics.score().cka == pytest.approx(expected.cka, abs=1e-12)
    assert statistics.score().h_score == pytest.approx(expected.h_score, abs=1e-9)


def test_a_constant_column_far_from_the_others_changes_nothing():
    X = np.column_stack([FEATURES, np.full(60, 1e200)])
    assert cka(X, OTHER) == pytest.approx(cka(FEATURES, OTHER), abs=1e-12)
    assert stable_rank(X) == pytest.approx(stable_rank(FEATURES), rel=1e-12)
    assert StreamedCKA().update(X, OTHER).score() == pytest.approx(cka(FEATURES, OTHER), abs=1e-12)
    sketches = [SketchedCKA(32).update({"x": Z, "y": OTHER}) for Z in (X, FEATURES)]
    assert sketches[0].score("x", "y") == pytest.approx(sketches[1].score("x", "y"), abs=1e-12)


def test_weights_of_kernels_whose_scales_no_number_holds_are_refused():
    with refuses(ValueError, "'x'", "'y'"):
        combine_kernels({"x": 1e200 * FEATURES, "y": OTHER}, CLASSES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: LeaveOneOutRidge().fit(1e160 * FEATURES, OTHER),
            ("X", "e+160"),
        ),
        (lambda: LeaveOneOutRidge().fit(FEATURES, 1e160 * OTHER), "such as 1e"),
        (lambda: LeaveOneOutRidge().fit(1e-200 * FEATURES, OTHER), ("squares", "vanish")),
        (lambda: AlignmentSelector().fit(1e-310 * FEATURES, CLASSES), ("X", "multiply", "constant")),
        (lambda: cka(1e305 * FEATURES, OTHER), ("overflow", "Divide")),
        (lambda: prune_ensemble(1e-310 * FEATURES, y=OTHER[:, 0]), ("0", "Member", "predicts", "targets")),
        (lambda: attribution(model(), X, np.full(3, 1e200)), "torch.float32"),
        (lambda: attribution(model(), X, np.full(3, 1e-310)), ("direction", "length")),
        (lambda: cka(1e200 * FEATURES, OTHER, kernel="gaussian"), ("squares", "overflow")),
        (lambda: temperature(FEATURES, CLASSES + 7), ("0", "3")),
    ],
)
def test_what_does_not_fit_into_a_float_is_said(call, message):
    with refuses(ValueError, message):
        call()


@pytest.mark.parametrize("dates", [DATES, DATES - DATES[0]])
def test_dates_are_no_predictions_and_no_targets(dates):
    with refuses(TypeError, "Predictions", "numbers"):
        prune_ensemble(dates, y=X[:, 0])
    with refuses(TypeError, "y", "numbers"):
        prune_ensemble(X, y=dates[:, 0])
    with refuses(ValueError, "X", "numbers"):
        SubspaceClustering(2).fit(dates)


@pytest.mark.parametrize("method", ["svm", "mean_difference"])
def test_a_concept_of_few_against_many(method):
    """4 against 60, which need not have a direction in every permutation, fold or resample."""
    for seed in range(18):
        rng = np.random.default_rng(seed)
        few, many = rng.integers(0, 2, (4, 3)), rng.integers(0, 2, (60, 3))
        found = Concept(method=method, n_permutations=10, n_resamples=5, random_state=seed)
        found.fit_representation(few, many)
        assert 0 <= found.accuracy_ <= 1
        assert 0 < found.p_value_ <= 1
        assert np.isfinite(found.stability_)


def test_p_values_of_an_imbalanced_concept_are_uniform_for_noise():
    """40 against 8 without a difference: the mean of p is that of {1/20 .. 20/20}, within 4 standard errors."""
    found = []
    for seed in range(100):
        Z = np.random.default_rng(seed).normal(size=(48, 4))
        test = Concept(method="mean_difference", n_permutations=19, n_resamples=0, random_state=seed)
        found.append(test.fit_representation(Z[:40], Z[40:]).p_value_)
    values = np.array(found)
    assert abs(values.mean() - 0.525) < 4 * values.std() / 10
    assert abs((values <= 0.25).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 100)


DEGENERATE: dict[str, tuple[dict[str, Any], Any]] = {
    "one component": ({"n_components": 1}, X),
    "two rows": ({}, X[:2]),
    "three rows": ({"loss": "kernel_pca"}, X[:3]),
    "equal rows": ({}, np.ones((N, 3))),
    "zero rows": ({}, np.zeros((N, 3))),
    "two kinds of rows": ({"loss": "kernel_pca"}, np.repeat(X[:2], 10, axis=0)),
    "one column": ({}, X[:, :1]),
    "one landmark": ({"n_landmarks": 1, "loss": "kernel_pca"}, X),
    "more components than rank": ({"n_components": 32, "kernel": "linear"}, X),
    "a wide kernel": ({"kernel": Gaussian(1e6)}, X),
    "an indefinite kernel": ({"kernel": "sigmoid", "landmarks": "uniform"}, X),
    "tiny rows": ({"kernel": "linear", "dtype": "float64", "loss": "kernel_pca"}, 1e-100 * X),
    "huge rows": ({"kernel": "linear", "dtype": "float64", "loss": "kernel_pca"}, 1e100 * X),
    "a table of constants": ({}, pd.DataFrame({"a": np.ones(N), "b": ["x"] * N})),
    "a table of tiny numbers": ({}, pd.DataFrame(1e-200 * X, columns=["a", "b", "c"])),
    "black images": ({}, np.zeros((N, 4, 4))),
}


@pytest.mark.parametrize("labels", [None, "two", "one", "few"])
@pytest.mark.parametrize(("options", "rows"), DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.filterwarnings("ignore::UserWarning", "error::RuntimeWarning")
def test_a_degenerate_fit_has_a_report(options, rows, labels):
    """Where a fit exists, so does its page, with finite numbers; where none exists, the error is that of fit."""
    given = {"two": ["a", "b"], "one": ["a"], "few": ["a", None, None, "b"]}.get(labels)
    fitted = KernelEmbedding(**({"n_components": 2, "n_landmarks": 12, "random_state": 0} | options)).fit(
        rows
    )
    found = report_of(fitted, rows, labels=None if given is None else (given * N)[: len(rows)])
    for numbers in numbers_of(found):
        assert np.isfinite(numbers).all()
    assert landmark_norms(fitted).any() == unpacked_norms(fitted, rows).any()  # none became zero on the page


def unpacked_norms(fitted: KernelEmbedding, rows: Any) -> np.ndarray:
    return report_of(fitted, rows)[2]
