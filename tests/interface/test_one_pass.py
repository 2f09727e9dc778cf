"""A new one-pass model is an accumulator and a solve: `examples/discriminant.py` gets everything else from the base."""

from __future__ import annotations

import importlib.util
import pickle
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image as Picture
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris

import krepes
from faults import Interrupted
from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.split import ByFold, Split, by_group
from krepes.engines import Engine, Local
from krepes.features import FeatureSpace, MomentPass
from krepes.kernels import Custom, Gaussian, Linear
from krepes.moments import Moments
from refusals import refuses, warns_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "discriminant.py"
specification = importlib.util.spec_from_file_location("discriminant", EXAMPLE)
discriminant = importlib.util.module_from_spec(specification)
specification.loader.exec_module(discriminant)
KernelDiscriminant = discriminant.KernelDiscriminant

X, codes = load_iris(return_X_y=True)
y = np.array(["setosa", "versicolor", "virginica"])[codes]
SMALL = {
    "n_landmarks": 25,
    "random_state": 0,
    "dtype": "float64",
    "engine": Local(16),
}  # blocks of 16 rows, so that 150 rows are a stream


def scores_of_a_loop(A: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The discriminants of features A, naively, in float64."""
    classes = np.unique(labels)
    S = np.zeros((A.shape[1], A.shape[1]))
    means = {c: A[labels == c].mean(0) for c in classes}
    for row, label in zip(A, labels):
        S += np.outer(row - means[label], row - means[label]) / len(A)
    S += discriminant.RIDGE * np.trace(S) / len(S) * np.eye(len(S))
    columns = []
    for c in classes:
        w = np.linalg.solve(S, means[c])
        columns.append(A @ w - means[c] @ w / 2 + np.log(np.mean(labels == c)))
    return np.column_stack(columns)


def test_the_example_is_a_page():
    lines = EXAMPLE.read_text().splitlines()
    assert len([line for line in lines if line.strip() and not line.lstrip().startswith("#")]) < 80


def test_it_is_what_a_loop_gives():
    model = KernelDiscriminant(kernel=Gaussian(2.0), **SMALL).fit(X, y)
    Phi = model.features_(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(model.decision_function(X), scores_of_a_loop(Phi, y), rtol=1e-8, atol=1e-8)
    assert model.score(X, y) > 0.95
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]


def as_files(folder: Path) -> dict:
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.to_csv(folder / "x.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), folder / "x.parquet", row_group_size=37)
    np.save(folder / "x.npy", X)
    np.savez(folder / "x.npz", X=X)
    return {name: folder / name for name in ("x.csv", "x.parquet", "x.npy", "x.npz")}


ARRAYS = ("array", "tensor", "memory map", "x.npy", "x.npz")
TABLES = ("pandas", "polars", "columns", "x.csv", "x.parquet")


@pytest.mark.parametrize("kind", [*ARRAYS, *TABLES])
def test_it_streams_from_every_source(kind, tmp_path):
    files = as_files(tmp_path)
    frame = pd.DataFrame(X, columns=list("abcd"))
    given = {
        "array": X,
        "tensor": torch.from_numpy(X),
        "memory map": np.load(files["x.npy"], mmap_mode="r"),
        "pandas": frame,
        "polars": polars.from_pandas(frame),
        "columns": {name: frame[name].to_numpy() for name in "abcd"},
        **files,
    }
    reference = KernelDiscriminant(**SMALL).fit(X if kind in ARRAYS else frame, y)
    model = KernelDiscriminant(**SMALL).fit(given[kind], y)
    expected = reference.decision_function(X if kind in ARRAYS else frame)
    # Tables are encoded in float32.
    np.testing.assert_allclose(model.decision_function(given[kind]), expected, rtol=1e-5, atol=1e-5)


def test_it_streams_from_objects_and_from_a_folder_of_images(tmp_path):
    words = ["kernel", "colonel", "kennel", "nation", "ration", "station"] * 9
    kind = ["k" if "nel" in word else "n" for word in words]
    letters = Custom(lambda a, b: float(len(set(a) & set(b))), pairwise=True)
    model = KernelDiscriminant(kernel=letters, n_landmarks=6, random_state=0).fit(words, kind)
    assert model.predict(["kernels", "donation"]).tolist() == ["k", "n"]
    digits = load_digits()
    for i in range(40):
        Picture.fromarray((digits.images[i] * 15).astype(np.uint8)).save(tmp_path / f"{i:03}.png")
    model = KernelDiscriminant(n_landmarks=20, random_state=0).fit(tmp_path, digits.target[:40])
    assert model.n_features_in_ == 64
    assert model.score(tmp_path, digits.target[:40]) > 0.8


def test_it_shows_progress(monkeypatch):
    seen: dict[str, int] = {}

    class Recorded:
        @contextmanager
        def stage(self, name, total=None, unit="rows"):
            class Stage:
                def advance(self, steps):
                    seen[name] = seen.get(name, 0) + steps

                def describe(self, text): ...

            yield Stage()

    monkeypatch.setattr("krepes.one_pass.display", lambda verbose: Recorded())
    KernelDiscriminant(**SMALL).fit(X, y)
    assert seen["Moments"] == len(X)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_resumes_with_the_same_bits(tmp_path, monkeypatch, weighted):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    options = {"sample_weight": np.linspace(0.5, 2, len(X))} if weighted else {}
    whole = KernelDiscriminant(**SMALL).fit(X, y, **options)
    path = tmp_path / "pass"
    stopping = {**SMALL, "engine": Interrupted(at=7)}
    with pytest.raises(KeyboardInterrupt):
        KernelDiscriminant(**stopping).fit(X, y, checkpoint=path, **options)
    with refuses(ValueError, "another fit", "y"):
        KernelDiscriminant(**SMALL).fit(X, np.roll(y, 1), checkpoint=path, **options)
    with refuses(ValueError, "another fit", "weight"):
        KernelDiscriminant(**SMALL).fit(X, y, checkpoint=path, sample_weight=np.ones(len(X)))
    resumed = KernelDiscriminant(**stopping).fit(X, y, checkpoint=path, **options)
    assert stopping["engine"].n_blocks == 7 + 10 - 4  # ten blocks; four were in the checkpoint
    assert np.array_equal(resumed.decision_function(X), whole.decision_function(X))
    assert not path.exists()


def test_parts_add_up():
    """partial_fit, and merge of copies that saw other rows, equal a fit in the same feature space."""
    model = KernelDiscriminant(**SMALL).fit(X, y)
    parts = model.empty_copy().partial_fit(X[:60], y[:60])
    assert set(parts.classes_) == {"setosa", "versicolor"}
    parts.partial_fit(X[60:], y[60:])
    other = model.empty_copy().partial_fit(X[60:], y[60:], first_row=60)
    merged = model.empty_copy().partial_fit(X[:60], y[:60]).merge(other)
    for found in (parts, merged):
        assert found.n_samples_seen_ == 150
        np.testing.assert_allclose(
            found.decision_function(X), model.decision_function(X), rtol=1e-8, atol=1e-8
        )
    with refuses(ValueError, "landmarks"):
        model.merge(KernelDiscriminant(**{**SMALL, "random_state": 1}).fit(X, y))
    with refuses(TypeError, "KernelDiscriminant"):
        model.merge(krepes.KernelEmbedding(2, **SMALL).fit(X))


def test_weights_are_repetitions():
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    settings = {**SMALL, "kernel": Linear(), "landmarks": X[:10]}
    weighted = KernelDiscriminant(**settings).fit(X, y, sample_weight=weights)
    repeated = KernelDiscriminant(**settings).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-9, atol=1e-9
    )


def test_it_is_saved_and_loaded(tmp_path):
    model = KernelDiscriminant(**SMALL).fit(X, y)
    model.save(tmp_path / "model.krepes")
    again = KernelDiscriminant.load(tmp_path / "model.krepes")
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-9)
    assert again.partial_fit(X, y).n_samples_seen_ == 300
    with refuses(ValueError, "KernelDiscriminant.load(path)"):
        krepes.load(tmp_path / "model.krepes")
    with refuses(ValueError, "KernelDiscriminant", "KernelEmbedding"):
        krepes.KernelEmbedding.load(tmp_path / "model.krepes")
    pickled = pickle.dumps(again.space_)
    assert np.array_equal(pickle.loads(pickled).landmarks, again.landmarks_)


def test_rows_without_targets_and_targets_without_rows_are_refused():
    with refuses(ValueError, "y", "targets"):
        KernelDiscriminant(**SMALL).fit(X)
    with refuses(ValueError, "y", "149 values", "150 rows"):
        KernelDiscriminant(**SMALL).fit(X, y[1:])


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = KernelDiscriminant(**SMALL).fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(random_state=5, engine=Interrupted(at=3)).fit(X, y)
    with refuses(ValueError, "y"):
        model.partial_fit(X, y[1:])
    assert np.array_equal(model.decision_function(X), before)
    assert model.n_samples_seen_ == 150


class TwoProcesses(Engine):
    """An engine that runs elsewhere, in small: parts of the reader and empty accumulators are sent and merged."""

    def reduce(self, accumulator, reader, *, checkpoint=None, progress=None, name="Moments"):
        for part in reader.parts(2):
            sent = pickle.loads(pickle.dumps((accumulator.empty(), part)))
            Local().reduce(*sent)
            accumulator.merge(sent[0])
        return accumulator.result()

    def map(self, function, reader, **options):
        return Local().map(function, reader, **options)

    def stream(self, reader, batch_rows, **options):
        return Local().stream(reader, batch_rows, **options)


@pytest.mark.parametrize("source", ["array", "frame", "x.csv", "x.parquet", "x.npy", "x.npz"])
def test_another_engine_is_one_more_class(source, tmp_path):
    """Readers and accumulators can be pickled and divided, whatever the source; views are keyed by row."""
    data = {"array": X, "frame": pd.DataFrame(X, columns=list("abcd")), **as_files(tmp_path)}[source]
    here = krepes.KernelEmbedding(3, **SMALL).fit(data)
    there = krepes.KernelEmbedding(3, **SMALL | {"engine": TwoProcesses()}).fit(data)
    torch.testing.assert_close(there.moments_.S_12, here.moments_.S_12, rtol=1e-12, atol=1e-14)
    assert np.allclose(there.transform(data), here.transform(data), atol=1e-8)
    assert clone(there).engine is not None


def test_engines_are_not_saved_and_bad_ones_refused(tmp_path):
    model = krepes.KernelEmbedding(3, **SMALL | {"engine": TwoProcesses()}).fit(X)
    model.save(tmp_path / "model.krepes")
    assert krepes.load(tmp_path / "model.krepes").engine is None
    with refuses(TypeError, "krepes.engines.Engine"):
        krepes.KernelEmbedding(3, engine="moon").fit(X)


def blocks_of(rows: np.ndarray, size: int, **alongside) -> list[Block]:
    whole = Block(torch.arange(len(rows)), (torch.from_numpy(rows),), **alongside)
    return list(whole.blocks(size))


def summed(accumulator: Accumulator, blocks: list[Block]):
    for block in blocks:
        accumulator.add(block)
    return accumulator.result()


def test_folds_are_subtracted():
    """The moments of all folds but one are the total minus that one."""
    space = FeatureSpace.on(Gaussian(2.0), torch.from_numpy(X[::10]))
    folds = summed(Split(MomentPass(space), by=ByFold(3)), blocks_of(X, 20))
    assert sorted(folds) == [0, 1, 2]
    fold = ByFold(3)(Block(torch.arange(150), (X,)))
    rest = Moments.of_rows(space.features(torch.from_numpy(X[fold != 1])))
    torch.testing.assert_close((folds.total - folds[1]).sum_11, rest.sum_11, rtol=1e-10, atol=1e-12)


def test_parts_are_values():
    """Sums, differences and multiples of split sums are those of their parts."""
    space = FeatureSpace.on(Linear(), torch.from_numpy(X[:8]))
    split = Split(MomentPass(space), by=by_group)
    group = np.array(["a", "b", "c"])[codes]
    first = summed(split.empty(), blocks_of(X[:70], 20, group=group[:70]))
    second = summed(split.empty(), blocks_of(X[70:], 20, group=group[70:]))
    both = first + second
    assert both.n == 150
    assert {key: part.n for key, part in both.items()} == {"a": 50, "b": 50, "c": 50}
    back = both - second
    assert list(back) == ["a", "b"]
    torch.testing.assert_close(back["b"].sum_11, first["b"].sum_11, rtol=1e-10, atol=1e-10)
    assert (2 * both["c"]).n == (both * 2.0)["c"].n == 100
    with refuses(ValueError, "rows", "keys"):
        first - second
    state = split.empty().value_from(both.state())
    assert torch.equal(state["a"].sum_11, both["a"].sum_11)
    with refuses(ValueError, "groups"):
        split.empty().add(blocks_of(X, 150)[0])


def test_a_space_that_is_none_is_named():
    for estimator in (KernelDiscriminant(**SMALL), krepes.KernelEmbedding(2, **SMALL)):
        with refuses(TypeError, "FeatureSpace"):
            estimator.fit(X, y, space="gaussian")


def test_warnings_point_to_the_line_that_called():
    """Whether they arise in fit itself or in a solve that waited."""
    model = krepes.KernelEmbedding(20, regularization=0.5, **SMALL)
    calls = (
        lambda: model.fit(X),
        lambda: model.refit(regularization=0.6),
        lambda: model.partial_fit(X).transform(X),
    )
    for call in calls:
        with warns_of(UserWarning, "n_components=20") as found:
            call()
        assert [each.filename for each in found] == [__file__]
