"""Groups, streams and forgetting refuse what cannot be, say why, and change nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd

import krepes.tally.grouping as grouping
from krepes import KernelEmbedding, load
from krepes.base.storage import model_file
from krepes.machines import GaussianProcessClassifier, NoveltyDetector
from krepes.streams import Window
from krepes.tally import RowRanges
from refusals import refuses, warns_of

X = np.random.default_rng(0).normal(size=(100, 3))
SMALL = {"n_landmarks": 10, "random_state": 0}


def embedding():
    return KernelEmbedding(2, **SMALL)


def test_rows_that_cannot_be_forgotten_are_refused():
    model = embedding().fit(X)
    before = model.tally_
    landmark = int(model.landmark_indices_[0])
    free = np.setdiff1d(np.arange(100), model.landmark_indices_)
    for rows, data, message in (
        ([landmark], X[[landmark]], "landmarks"),
        ([100], X[[0]], "Row 100"),
        ([free[0], free[0]], X[:2], "twice"),
        ([-1], X[:1], ("0", "counted")),
        ([1.5], X[:1], "indices"),
        ([free[0]], X[:1, :2], ("2", "3")),
        (np.arange(100), X, "rows"),
    ):
        with refuses(ValueError, message):
            model.forget(data, rows=rows)
    assert model.tally_ is before
    model.forget(X[free[:2]], rows=free[:2])
    with refuses(ValueError, "forgotten"):
        model.forget(X[free[:1]], rows=free[:1])


def test_aged_rows_are_not_forgotten():
    model = embedding().partial_fit(X, half_life=10)
    with refuses(ValueError, "aged"):
        model.forget(X[:1], rows=[0])


def test_half_lives_must_be_one_from_the_start():
    for half_life in (0, -1, np.nan, "long", True):
        with refuses(ValueError, "half_life="):
            embedding().partial_fit(X, half_life=half_life)
    model = embedding().fit(X)
    with refuses(ValueError, "half_life=10", "half-life"):
        model.partial_fit(X, half_life=10)
    stream = model.empty_copy().partial_fit(X, half_life=10)
    with refuses(ValueError, "half_life=10"):
        stream.partial_fit(X, half_life=20)
    with refuses(ValueError, "half_life=", "groups="):
        model.empty_copy().partial_fit(X, half_life=10, groups=np.zeros(100))
    with refuses(ValueError, "half_life=", "calibration", "rows"):
        NoveltyDetector(**SMALL).partial_fit(X, half_life=10)


def test_streams_without_a_common_clock_are_not_merged():
    base = embedding().fit(X)
    first, second = (base.empty_copy().partial_fit(X, half_life=10) for _ in range(2))
    with refuses(ValueError, "0 to 99"):
        first.merge(second)
    other = base.empty_copy().partial_fit(X, half_life=20, first_row=100)
    with refuses(ValueError, "half-lives"):
        first.merge(other)
    with refuses(ValueError, "half-lives"):
        first.merge(base.empty_copy().partial_fit(X, first_row=100))


def test_groups_that_cannot_be_are_refused():
    frame = pd.DataFrame(X, columns=list("abc")).assign(day=["mon"] * 50 + [None] * 50)
    for data, groups, message in (
        (X, np.zeros(99), ("99 values", "100 rows")),
        (X, np.zeros((100, 2)), ("group", "row")),
        (X, "day", "columns"),
        (frame, "week", "'week'"),
        (frame, "day", ("50", "100 rows")),
        (X, np.r_[np.nan, np.zeros(99)], ("1", "value")),
        (X, 3, "row"),
    ):
        with refuses(ValueError, message):
            embedding().fit(data, groups=groups)
    with refuses(ValueError, "sums", "group"):
        KernelEmbedding(2, loss="simclr", **SMALL).fit(X, groups=np.zeros(100))
    with refuses(ValueError, "groups='day'", "feature", "space"):
        space = embedding().prepare(frame.fillna("tue"))
        embedding().fit(frame.fillna("tue"), groups="day", space=space)
    with refuses(AttributeError, "GaussianProcessClassifier", "sums"):
        GaussianProcessClassifier().only(3)


def test_models_with_and_without_groups_do_not_mix():
    model = embedding().fit(X, groups=np.arange(100) // 50)
    plain = embedding().fit(X)
    with refuses(ValueError, "groups="):
        model.partial_fit(X)
    with refuses(ValueError, "groups=", "rows"):
        plain.partial_fit(X, groups=np.zeros(100))
    with refuses(ValueError, "groups"):
        model.merge(plain)
    with refuses(ValueError, "sums", "group"):
        plain.only(0)
    with refuses(ValueError, "7", "groups 0, 1"):
        model.without([0, 7])
    with refuses(ValueError, "groups"):
        model.without([0, 1])
    with refuses(ValueError, "rows"):
        model.forget(
            X[60:95], rows=np.setdiff1d(np.arange(100), model.landmark_indices_)[:35], groups=np.full(35, 5)
        )
    assert model.groups_ == {0: 50, 1: 50}


def test_a_second_fit_begins_without_groups():
    model = embedding().fit(X, groups=np.arange(100) // 50).fit(X)
    assert model.groups_ == {}


def test_groups_that_memory_cannot_hold_are_refused(monkeypatch):
    monkeypatch.setattr(grouping, "available_memory", lambda: 10_000)
    with refuses(MemoryError, "50 groups"):
        embedding().fit(X, groups=np.arange(100) // 2)
    monkeypatch.setattr(grouping, "available_memory", lambda: 200_000)
    with warns_of(UserWarning, "coarser", "groups"):
        embedding().fit(X, groups=np.arange(100) // 2)


def test_files_of_damaged_tallies_are_refused(tmp_path):
    model = embedding().fit(X, groups=np.arange(100) // 50)
    model.save(tmp_path / "m.krepes")
    kind, state = model_file.read(tmp_path / "m.krepes")
    import torch

    for change in (
        {"next_row": -1},
        {"rows_seen": torch.tensor([[5, 3]])},
        {"rows_seen": torch.tensor([[0.0, 3.0]])},
        {"half_life": 0.0},
        {"groups": state["groups"] | {"rows": [50, 51]}},
        {"groups": state["groups"] | {"parts": state["groups"]["parts"] | {"keys": [0, 0]}}},
        {"groups": state["groups"] | {"parts": state["groups"]["parts"] | {"keys": [[0], 1]}}},
        {"groups": {"rows": [50, 50]}},
        {"files": {"a": 3}},
        {"group_column": 3},
    ):
        model_file.write(tmp_path / "bad.krepes", kind["class"], state | change, overwrite=True)
        with refuses(ValueError):
            load(tmp_path / "bad.krepes")


def test_windows_that_cannot_be_are_refused():
    model = embedding().fit(X)
    for given in ({"n_rows": 0}, {"n_rows": 5, "n_pieces": 10}, {"n_rows": 5, "n_pieces": 0}):
        with refuses(ValueError):
            Window(model, **given)
    with refuses(ValueError, "2", "3"):
        Window(model, 50).add(X[:, :2])


def test_ranges_of_rows_are_those_of_sets():
    """Union, difference and intersection of random ranges equal those of sets."""
    generator = np.random.default_rng(0)

    def some():
        ranges = RowRanges()
        for _ in range(generator.integers(0, 5)):
            ranges |= RowRanges.of(int(generator.integers(0, 40)), int(generator.integers(0, 8)))
        return ranges, {row for first, stop in ranges.ranges for row in range(first, stop)}

    for _ in range(300):
        (a, rows_a), (b, rows_b) = some(), some()
        for ranges, rows in ((a | b, rows_a | rows_b), (a - b, rows_a - rows_b), (a & b, rows_a & rows_b)):
            assert ranges == RowRanges.of_rows(np.array(sorted(rows), dtype=np.int64))
            assert len(ranges) == len(rows)
            assert RowRanges.from_state(ranges.state()) == ranges
