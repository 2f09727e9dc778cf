"""Loaders that are empty, change, shuffle or lie: each gets an error that says what is wrong and what to do."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from krepes import KernelEmbedding
from krepes.sources import Batches, open_source
from refusals import refuses

X = np.random.default_rng(0).normal(size=(20, 3))
DATA = TensorDataset(torch.from_numpy(X))


def dictionaries():
    yield {"x": X, "y": np.zeros(20)}


REFUSED = {
    "generator": (lambda: (b for b in [X]), TypeError, ("once", "function")),
    "map": (lambda: map(np.asarray, [X]), TypeError, "once"),
    "wrapped generator": (lambda: Batches(iter([X])), TypeError, "once"),
    "not iterable": (lambda: Batches(3), TypeError, "int"),
    "function of a number": (lambda: Batches(lambda: 3), TypeError, "int"),
    "nothing": (lambda: Batches([]), ValueError, "0 sample"),
    "empty batches": (lambda: Batches([X[:0], X[:0]]), ValueError, "0 sample"),
    "empty loader": (lambda: DataLoader(TensorDataset(torch.zeros(0, 3))), ValueError, "0 sample"),
    "shuffle": (lambda: DataLoader(DATA, shuffle=True), ValueError, "shuffle=False"),
    "weights": (
        lambda: DataLoader(DATA, sampler=WeightedRandomSampler([1.0] * 20, 5)),
        ValueError,
        "shuffles",
    ),
    "vectors of numbers": (lambda: Batches([X[0]]), ValueError, ("Batch 0", "2D")),
    "text": (lambda: Batches(["abc"]), TypeError, "Batch 0"),
    "no key": (lambda: dictionaries, ValueError, ("'y'", "key='x'")),
    "wrong key": (lambda: Batches(dictionaries, key="z"), ValueError, ("key='z'", "'x'", "'y'")),
    "wrong number": (lambda: Batches([(X, X)], key=2), ValueError, ("key=2", "2 entries")),
    "key of an array": (lambda: Batches([X], key="x"), ValueError, ("dictionaries", "tuples", "ndarray")),
    "rows": (lambda: Batches([X], n_rows=0), ValueError, "n_rows"),
    "width": (lambda: Batches([X, X[:, :2]]), ValueError, ("Batch 1", "(2,)", "(3,)")),
    "dtype": (lambda: Batches([X, X.astype(np.float32)]), ValueError, "Batch 1"),
    "kinds": (lambda: Batches([X, ["a", "b"]]), ValueError, "Batch 1"),
    "other kinds": (lambda: Batches([["a", "b"], X]), ValueError, "Batch 1"),
    "columns": (
        lambda: Batches([pa.table({"a": [1]}), pa.table({"b": [1]})]),
        ValueError,
        "Batch 1",
    ),
    "types": (lambda: Batches([pa.table({"a": [1]}), pa.table({"a": ["u"]})]), ValueError, "Batch 1"),
    "not a table": (lambda: Batches([pa.table({"a": [1]}), X]), ValueError, "Batch 1"),
    "class": (
        lambda: type("Rows", (), {"__iter__": lambda self: iter([X])})(),
        TypeError,
        "Batches(data)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_says_why(name):
    data, kind, message = REFUSED[name]
    with refuses(kind, message):
        open_source(data())


def test_keys_are_for_samples():
    for data in (X, "rows.npy", pa.table({"a": [1]})):
        with refuses((ValueError, TypeError), "key='x'"):
            open_source(data, key="x")
    with refuses(ValueError, "key='z'", "'x'"):
        open_source([{"x": [1.0]}], key="z")
    assert open_source([{"x": np.ones(2), "y": 1}] * 3, key="x").kind == "vectors"


def test_a_second_pass_with_other_rows_is_found():
    def shuffled():
        yield np.random.default_rng().permutation(X)

    with refuses(ValueError, "Batch 0"):
        KernelEmbedding(2, n_landmarks=5).fit(shuffled)

    class Augmented(TensorDataset):
        def __getitem__(self, i):
            return (super().__getitem__(i)[0] + torch.randn(3),)

    with refuses(ValueError, "changes", "random"):
        KernelEmbedding(2, n_landmarks=5).fit(DataLoader(Augmented(torch.from_numpy(X)), batch_size=5))


def test_a_second_pass_that_is_empty_or_short_is_found():
    once = iter([X[:10], X[10:]])
    with refuses(ValueError, "new", "iterator"):
        KernelEmbedding(2, n_landmarks=5).fit(Batches(lambda: once, n_rows=20))
    calls = itertools.count()
    with refuses(ValueError, "10 rows", "20"):
        KernelEmbedding(2, n_landmarks=5).fit(
            Batches(lambda: [X[:10], X[10:]][: 2 if next(calls) < 3 else 1])
        )


@pytest.mark.parametrize("n_rows", [19, 21])
def test_a_wrong_declared_length_is_found(n_rows):
    with refuses(ValueError, str(n_rows)):
        KernelEmbedding(2, n_landmarks=5).fit(Batches([X], n_rows=n_rows))


def test_nan_in_a_batch_names_its_column():
    bad = X.copy()
    bad[15, 1] = np.nan
    with refuses(ValueError, "NaN", "columns 1"):
        KernelEmbedding(2, n_landmarks=5).fit(Batches([bad[:10], bad[10:]]))


def test_an_error_of_the_loader_is_the_users():
    def broken():
        yield X
        raise OSError("the disk is gone")

    with refuses(OSError, "disk", "gone"):
        KernelEmbedding(2, n_landmarks=5).fit(broken)


def test_urls_that_lead_nowhere_are_named(tmp_path):
    with refuses(ValueError, "nowhere://x"):
        open_source("nowhere://x")
    with refuses(FileNotFoundError, "x.parquet", "folder", "file"):
        open_source((tmp_path / "x.parquet").as_uri())


def test_excel_files_without_rows_or_openpyxl_say_so(tmp_path, monkeypatch):
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"not a workbook")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "openpyxl", None)
        with refuses(ImportError, "krepes[xlsx]"):
            open_source(path)
    openpyxl = pytest.importorskip("openpyxl")
    with refuses(ValueError, "Excel", "file"):
        open_source(path)
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.save(path)
    with refuses(ValueError, "rows", "below"):
        open_source(path)
    for row in ([None, None], [1, "u"], [2.5, None], [None, 7]):
        book.active.append(row)
    book.save(path)
    assert open_source(path).take(np.arange(3)).to_pydict() == {"a": [1.0, 2.5, None], "b": ["u", None, "7"]}
