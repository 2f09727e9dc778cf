"""Batches that come only once are kept on disk: every pass gives the same rows, in the memory of one batch."""

from __future__ import annotations

import gc
import os
import shutil
import tracemalloc
from collections import namedtuple
from itertools import islice

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from krepes import KernelEmbedding
from krepes.sources import Batches, open_source
from refusals import refuses

X = np.random.default_rng(0).normal(size=(300, 4))
FRAME = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", None)})


def parts(rows=X, size=77):
    return (rows[i : i + size] for i in range(0, len(rows), size))


def fitted(data):
    return KernelEmbedding(3, n_landmarks=30, dtype="float64", random_state=0).fit(data)


WAYS = {
    "arrays": lambda: Batches(parts(), spool=True),
    "declared length": lambda: Batches(parts(), n_rows=300, spool=True),
    "tuples": lambda: Batches(((np.arange(len(b)), b) for b in parts()), key=1, spool=True),
    "dictionaries": lambda: Batches(({"x": b} for b in parts()), spool=True),
    "tensors": lambda: Batches(map(torch.from_numpy, parts()), spool=True),
    "function": lambda: Batches(parts, spool=True),
    "loader": lambda: Batches(DataLoader(TensorDataset(torch.from_numpy(X)), 50), spool=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_generator_gives_the_model_of_the_array(way):
    np.testing.assert_allclose(fitted(WAYS[way]()).transform(X), fitted(X).transform(X), atol=1e-9)


def test_a_generator_of_frames_gives_the_model_of_the_frame():
    frames = (FRAME[i : i + 90] for i in range(0, 300, 90))
    np.testing.assert_allclose(
        fitted(Batches(frames, spool=True)).transform(FRAME), fitted(FRAME).transform(FRAME), atol=1e-9
    )


@pytest.mark.parametrize(
    "batches",
    [[["a", "bc"], ["d"]], [[[1, 2], [3]], [[4, 5, 6]]], [[{"x": 1, "y": [0.5]}]], [["a", None]]],
    ids=["text", "lists", "dictionaries", "missing"],
)
def test_objects_come_back_as_they_were(batches):
    given = Batches(iter(batches), spool=True)
    assert list(given) == batches
    assert list(given) == batches


def test_passes_may_overlap_and_end_early():
    """A second pass begins before the first ends, and goes on beyond what was written."""
    given = Batches(parts(), spool=True)
    first = iter(given)
    begun = [next(first), next(first)]
    np.testing.assert_array_equal(np.concatenate(list(given)), X)
    np.testing.assert_array_equal(np.concatenate([*begun, *first]), X)
    again = Batches(parts(), spool=True)
    assert len(list(islice(again, 1))) == 1
    np.testing.assert_array_equal(np.concatenate(list(again)), X)


def test_a_shuffling_loader_keeps_the_order_of_its_first_pass():
    loader = DataLoader(TensorDataset(torch.from_numpy(X)), 50, shuffle=True)
    given = Batches(loader, spool=True)
    first, second = (torch.cat(list(given)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, torch.from_numpy(X))


def test_the_file_is_as_large_as_the_rows_and_goes_with_the_source(tmp_path):
    given = Batches(parts(), spool=tmp_path)
    source = open_source(given)
    assert X.nbytes <= given.spool_file.n_bytes <= X.nbytes + 4 * 200
    assert source.describe() == "batches of 300 rows × 4, float64 (10.1 kB in a temporary file)"
    opened = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert any(str(tmp_path) in name for name in opened)
    assert not list(tmp_path.iterdir())  # a file without a name: nothing is left if the process is killed
    del given, source
    gc.collect()
    opened = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert not any(str(tmp_path) in name for name in opened)


def test_memory_is_that_of_a_batch():
    """100 batches of 400 kB, two passes: a few batches at a time."""
    source = open_source(Batches((np.full((1000, 50), i) for i in range(100)), spool=True))
    tracemalloc.start()
    try:
        total = sum(float(batch.sum()) for _ in range(2) for _, batch in source.batches(1000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 2 * 50_000 * sum(range(100))
    assert peak < 10 * 400_000


def test_a_full_disk_is_seen_before_the_rows_are_read(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 5000))
    with refuses(OSError, "300 rows", "5 kB", "spool="):
        open_source(Batches(parts(), n_rows=300, spool=True))


def test_a_disk_that_fills_up_is_named(tmp_path):
    given = Batches(parts(), spool=tmp_path)

    class Full:
        def seek(self, place):
            pass

        def write(self, stored):
            raise OSError(28, "No space left on device")

    next(iter(given))
    given.spool_file._file = Full()
    with refuses(OSError, "Batch 1", "2.59 kB", "spool="):
        given.spool_file._take_next()


def broken():
    yield X[:10]
    raise ValueError("the line is dead")


REFUSED = {
    "generator": (lambda: Batches(parts()), TypeError, "spool=True"),
    "folder": (lambda: Batches(parts(), spool="/no/such/folder"), NotADirectoryError, "folder"),
    "number": (lambda: Batches(parts(), spool=3), TypeError, "spool=3"),
    "objects": (lambda: list(Batches(iter([[object()]]), spool=True)), TypeError, "object"),
    "object array": (
        lambda: list(Batches(iter([np.array([{}, []], dtype=object)]), spool=True)),
        TypeError,
        ("Python", "objects"),
    ),
    "error": (lambda: list(Batches(broken(), spool=True)), ValueError, "the line is dead"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_spooled_is_named(case):
    make, error, message = REFUSED[case]
    with refuses(error, message):
        make()


def test_after_an_error_batches_are_not_taken_for_complete():
    given = Batches(broken(), spool=True)
    with pytest.raises(ValueError, match="dead"):
        list(given)
    with refuses(RuntimeError, "dead", "iterator"):
        list(given)


def test_fit_names_the_remedy():
    with refuses(TypeError, "Batches(it, spool=True)"):
        KernelEmbedding().fit(parts())
