"""Types that frames and Arrow tables may have, numbers at the edge of float64, and arguments of another kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from krepes import KernelEmbedding
from krepes.alignment import (
    AlignmentSelector,
    SketchedCKA,
    StreamedCKA,
    cka,
    prune_ensemble,
    transferability,
)
from krepes.base.validation import check_finite
from krepes.clustering import SubspaceClustering
from krepes.evaluation import linear_probe
from krepes.machines import KernelRidgeClassifier, NoveltyDetector
from krepes.regression import LeaveOneOutRidge
from krepes.regression.logistic import logistic_path
from krepes.regression.squared_hinge import svm_path
from krepes.sources import open_source
from refusals import refuses

N = 30
NUMBERS = np.random.default_rng(0).normal(size=(N, 3))
CLASSES = np.arange(N) % 2

COLUMNS = {
    "dates": (pd.date_range("2020", periods=N, tz="UTC"), "dates"),
    "periods": (pd.period_range("2020", periods=N, freq="D"), "dates"),
    "lists": ([[1, 2]] * N, "not numbers"),
    "bytes": ([b"x"] * N, "b'x'"),
    "maps": ([{"k": 1}] * N, "not numbers"),
    "intervals": (pd.interval_range(0, N), "not numbers"),
}


@pytest.mark.parametrize("estimator", [AlignmentSelector(), SubspaceClustering(n_clusters=2)])
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("alone", [True, False])
def test_columns_that_are_not_numbers(estimator, kind, alone):
    """R3: said in words, also where pandas would turn them into numbers (dates, alone in a frame)."""
    values, told = COLUMNS[kind]
    frame = pd.DataFrame({"a": values} | ({} if alone else {"b": NUMBERS[:, 0]}))
    with refuses((TypeError, ValueError), "X holds", told):
        estimator.fit(frame, CLASSES)


@pytest.mark.parametrize(
    "function",
    [
        lambda X: cka(X, NUMBERS),
        lambda X: transferability({"model": X}, CLASSES),
        lambda X: linear_probe(X, CLASSES, X, CLASSES),
        lambda X: LeaveOneOutRidge().fit(X, CLASSES),
    ],
    ids=["cka", "transferability", "linear_probe", "LeaveOneOutRidge"],
)
@pytest.mark.parametrize("kind", COLUMNS)
def test_functions_of_arrays_refuse_columns_that_are_not_numbers(function, kind):
    """R3."""
    with refuses((TypeError, ValueError), "numbers"):
        function(pd.DataFrame({"a": COLUMNS[kind][0], "b": NUMBERS[:, 0]}))


@pytest.mark.parametrize("estimator", [AlignmentSelector(), SubspaceClustering(n_clusters=2)])
def test_frames_that_scikit_learn_cannot_read(estimator):
    """R3, R4: two columns of one name, sparse columns without zeros, no columns."""
    twice = pd.DataFrame(NUMBERS[:, :2], columns=["a", "a"])
    with refuses(ValueError, "several columns", "'a'"):
        estimator.fit(twice, CLASSES)
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray(np.full(N, 7.0), fill_value=7.0)})
    with refuses(ValueError, "sparse", "to_dense()"):
        estimator.fit(sparse, CLASSES)
    with refuses(ValueError, "(30, 0)"):
        estimator.fit(pd.DataFrame(index=range(N)), CLASSES)


@pytest.mark.parametrize("model", [KernelRidgeClassifier(), KernelEmbedding(2), NoveltyDetector()])
@pytest.mark.parametrize("target", [CLASSES, "label"], ids=["array", "name"])
def test_tables_without_columns(model, target):
    """R4: a StopIteration."""
    with refuses(ValueError, "0 feature"):
        model.fit(pd.DataFrame(index=range(N)), target)


RUNS = pa.array([15, 30], pa.int32())
ENCODED = {
    "runs of numbers": (pa.RunEndEncodedArray.from_arrays(RUNS, [1.0, 2.0]), [1.0] * 15 + [2.0] * 15),
    "runs of words": (pa.RunEndEncodedArray.from_arrays(RUNS, ["u", "v"]), ["u"] * 15 + ["v"] * 15),
    "a dictionary of lists": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1] * 15), pa.array([[1], [2]])),
        [[1], [2]] * 15,
    ),
    "a dictionary of a dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1] * 15), pa.array(["u", "v"]).dictionary_encode()),
        ["u", "v"] * 15,
    ),
}


@pytest.mark.parametrize("kind", ENCODED)
@pytest.mark.parametrize("chunks", [1, 2])
def test_encoded_arrow_columns_are_read_as_their_values(kind, chunks):
    """R3: Arrow has few operations for them, and `take` is none."""
    column, values = ENCODED[kind]
    table = pa.table({"a": column, "b": NUMBERS[:, 0]})
    table = pa.concat_tables([table.slice(first, N // chunks) for first in range(0, N, N // chunks)])
    source = open_source(table)
    rows = np.array([29, 0, 16])
    assert source.take(rows)["a"].to_pylist() == [values[i] for i in rows]
    assert [cell for _, batch in source.batches(7) for cell in batch["a"].to_pylist()] == values
    assert source.identity() == open_source(table).identity()
    if isinstance(values[0], float):
        assert KernelEmbedding(2, n_landmarks=10).fit(table).space_.inputs.encoder.n_features_out_ == 2


HUGE = {
    "one row": np.vstack([NUMBERS[:-1], [[1e16] * 3]]),
    "wide": np.random.default_rng(0).normal(size=(N, 200)) * 1e16,
    "constant": np.ones((N, 3)),
    "two rows": NUMBERS[:2],
}


@pytest.mark.parametrize("path", [logistic_path, svm_path])
@pytest.mark.parametrize("kind", HUGE)
def test_linear_algebra_that_gives_up(path, kind):
    """R4: a Hessian that rounding makes indefinite; the result is finite all the same."""
    X = HUGE[kind]
    for W, b in path(X, CLASSES[: len(X)], 2, [1e-3, 1.0, 1e3]):
        assert np.isfinite(W).all()
        assert np.isfinite(b).all()


@pytest.mark.parametrize("size", [1e200, 1e299])
def test_squares_that_overflow_are_named(size):
    """R4: eigenvalues that do not converge, and penalties without a finite error."""
    X = NUMBERS * size
    with refuses(ValueError, "X", "squares overflow"):
        linear_probe(X, CLASSES, X, CLASSES)
    for loss in ("squared", "logistic", "squared_hinge"):
        with refuses(ValueError, "penalty"):
            KernelRidgeClassifier(kernel="linear", preprocess=None, loss=loss).fit(X, CLASSES)


@pytest.mark.parametrize("given", [None, 5, [1, 2], {"X": NUMBERS}, NUMBERS])
@pytest.mark.parametrize("sketch", [SketchedCKA(8), StreamedCKA()])
def test_what_an_accumulator_takes(sketch, given):
    """R7: `add` is for the blocks of an engine."""
    with refuses(TypeError, type(given).__name__, "Block", "update"):
        sketch.add(given)


@pytest.mark.parametrize(
    ("predictions", "y", "told"),
    [
        ([["a", "b", 1]] * N, ["a", "b"] * 15, "int, str"),
        ([["a", "b"]] * N, ["a", 1] * 15, "int, str"),
        (np.zeros((0, 3)), [], "(0, 3)"),
        (np.zeros((0, 3, 2)), [], "(0, 3, 2)"),
    ],
)
def test_predictions_that_cannot_be_pruned(predictions, y, told):
    """R7: labels of several types, and no rows."""
    with refuses(ValueError, told):
        prune_ensemble(np.array(predictions, dtype=object), y=np.array(y, dtype=object))


def test_no_rows_are_finite():
    """R8: records without rows, or without numbers, ended in the minimum of nothing."""
    for shape in ((0, 3), (3, 0)):
        check_finite(np.zeros(shape), "X")
