"""Sums know their rows: what is forgotten, grouped, aged or merged equals a fit of the rows that are left."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from krepes import KernelAutoencoder, KernelEmbedding, load
from krepes.kernels import Gaussian
from krepes.machines import (
    GaussianProcessRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NoveltyDetector,
)
from krepes.streams import Window
from krepes.tally import Fit, RowRanges
from krepes.views import Tabular

specification = importlib.util.spec_from_file_location(
    "discriminant", Path(__file__).parents[2] / "examples" / "discriminant.py"
)
discriminant = importlib.util.module_from_spec(specification)
specification.loader.exec_module(discriminant)

N = 240
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
P = X + 0.1 * rng.normal(size=X.shape)
y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=N)
weight = rng.uniform(0.2, 3.0, size=N)
days = np.array([f"day {i}" for i in np.arange(N) // 60])
frame = pd.DataFrame(X, columns=list("abc")).assign(
    d=np.where(X[:, 2] > 0, "yes", "no"), day=np.array(["mon", "tue", "wed"])[np.arange(N) % 3]
)
SMALL = {"n_landmarks": 20, "dtype": "float64", "random_state": 0}

# What is fitted, and what stands beside the rows.
CASES = {
    "exact views": (KernelEmbedding(4, kernel="gaussian", **SMALL), {}),
    "sampled views": (KernelEmbedding(4, views=Tabular(noise=0.2, n_views=3), **SMALL), {}),
    "pairs": (KernelEmbedding(4, **SMALL), {"positives": P}),
    "triplets": (
        KernelEmbedding(4, loss="simple_contrastive", **SMALL),
        {"positives": P, "negatives": P[::-1]},
    ),
    "no views": (KernelEmbedding(4, loss="kernel_pca", **SMALL), {}),
    "weights": (KernelEmbedding(4, **SMALL), {"sample_weight": weight}),
    "folds": (KernelEmbedding(4, n_folds=4, **SMALL), {}),
    "a frame": (KernelEmbedding(4, **SMALL), {"X": frame.drop(columns="day")}),
    "ridge": (KernelRidgeRegressor(kernel="gaussian", **SMALL), {"y": y}),
    "balanced classes": (KernelRidgeClassifier(class_weight="balanced", **SMALL), {"y": y > 1}),
    "gaussian process": (
        GaussianProcessRegressor(kernel="gaussian", amplitude=1.0, noise=0.1, **SMALL),  # no descent
        {"y": y, "sample_weight": weight},
    ),
    "novelty": (NoveltyDetector(kernel="gaussian", **SMALL), {}),
    "own model": (
        discriminant.KernelDiscriminant(kernel=Gaussian(2.0), **SMALL),
        {"y": np.digitize(y, [0, 1])},
    ),
}
FORGETTING = pytest.mark.parametrize("case", CASES)
GROUPED = pytest.mark.parametrize("case", CASES)


def taken(given, rows):
    """The arguments of some rows."""
    data = {"X": X} | given
    return {
        name: value.iloc[rows] if isinstance(value, pd.DataFrame) else value[rows]
        for name, value in data.items()
    }


def answers(model, given):
    """What a model says of all rows, up to rotations."""
    data = given.get("X", X)
    if isinstance(model, KernelEmbedding):
        Z = model.transform(data)
        return Z @ Z.T
    if isinstance(model, NoveltyDetector):
        return np.column_stack([model.score_samples(data), model.p_values(data)])
    if isinstance(model, GaussianProcessRegressor):
        return np.column_stack(model.predict(data, return_std=True))
    return model.decision_function(data) if hasattr(model, "decision_function") else model.predict(data)


def refit(model, given, rows):
    """The same model on some rows under their own indices, in runs of consecutive ones."""
    again = model.empty_copy()._own(Fit(model.space_))  # without the column of groups
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
        again.partial_fit(**taken(given, run), first_row=int(run[0]))
    return again


def same(model, again, given):
    expected = answers(again, given)
    return np.abs(answers(model, given) - expected).max() < 1e-8 * max(1.0, np.abs(expected).max())


@FORGETTING
def test_forgetting_equals_a_fit_of_the_other_rows(case):
    model, given = CASES[case]
    model.fit(**{"X": X} | given)
    before = answers(model, given)
    gone = np.random.default_rng(1).permutation(np.setdiff1d(np.arange(N), model.landmark_indices_))[:50]
    again = refit(model, given, np.setdiff1d(np.arange(N), gone))
    for part in (gone[:20], gone[20:]):
        found = model.forget(**taken(given, part), rows=part)
    assert "which rows are landmarks" in found
    assert same(model, again, given)
    assert not np.allclose(answers(model, given), before, rtol=1e-6)
    assert model.n_samples_seen_ == N - 50 == len(model.rows_seen_)
    assert model.next_row_ == N


@GROUPED
def test_leaving_a_group_out_equals_a_fit_of_the_others(case, tmp_path):
    """Every leave-one-group-out model, and one of a union, to 1e-8; also from a file."""
    model, given = CASES[case]
    model.fit(**{"X": X} | given, groups=days)
    assert model.groups_ == {f"day {i}": 60 for i in range(4)}
    model.save(tmp_path / "m.krepes")
    loaded = type(model).load(tmp_path / "m.krepes")
    for source in (model, loaded):
        for i in range(4) if source is model else (2,):
            left = source.without(f"day {i}")
            assert same(left, refit(model, given, np.flatnonzero(days != f"day {i}")), given)
            assert left.n_samples_seen_ == 180
            assert left.groups_ == {f"day {j}": 60 for j in range(4) if j != i}
        union = source.only(["day 0", "day 3"])
        assert same(union, refit(model, given, np.flatnonzero(np.isin(days, ["day 0", "day 3"]))), given)
    assert same(model, loaded, given)
    assert model.n_samples_seen_ == N


@pytest.mark.parametrize("case", ["exact views", "folds", "ridge", "novelty"])
def test_groups_are_kept_through_parts_merges_and_forgetting(case):
    model, given = CASES[case]
    model = model.fit(**{"X": X} | given).empty_copy()
    first, second = model.empty_copy(), model.empty_copy()
    first.partial_fit(**taken(given, np.arange(100)), groups=days[:100])
    second.partial_fit(**taken(given, np.arange(100, N)), groups=days[100:], first_row=100)
    merged = first.merge(second)
    gone = np.setdiff1d(np.arange(60, 120), model.landmark_indices_)[:15]
    merged.forget(**taken(given, gone), rows=gone, groups=days[gone])
    assert merged.groups_ == {"day 0": 60, "day 1": 45, "day 2": 60, "day 3": 60}
    rows = np.setdiff1d(np.arange(N), gone)
    assert same(merged.without("day 3"), refit(model, given, rows[rows < 180]), given)
    assert merged.forget_groups("day 3")
    assert same(merged, refit(model, given, rows[rows < 180]), given)
    assert merged.next_row_ == N


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_a_column_of_groups_is_not_a_feature(form, tmp_path):
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    data = frame if form == "frame" else str(tmp_path / f"x.{form}")
    model = KernelEmbedding(4, **SMALL).fit(data, groups="day")
    assert model.groups_ == {"mon": 80, "tue": 80, "wed": 80}
    assert "day" not in model.input_space_.encoder.used_columns_
    plain = KernelEmbedding(4, **SMALL).fit(frame.drop(columns="day"))
    np.testing.assert_allclose(model.transform(data), plain.transform(frame.drop(columns="day")), atol=1e-9)
    model.save(tmp_path / "m.krepes")
    model = load(tmp_path / "m.krepes").partial_fit(data)  # finds the column again
    assert model.groups_ == {"mon": 160, "tue": 160, "wed": 160}
    machine = KernelRidgeRegressor(kernel="gaussian", **SMALL).fit(frame.assign(y=y), "y", groups="day")
    assert not {"y", "day"} & set(machine.input_space_.encoder.used_columns_)
    assert machine.without("mon").n_samples_seen_ == 160


def test_an_autoencoder_forgets_from_its_decoder():
    model = KernelAutoencoder(2, n_landmarks=15, max_iter=5, dtype="float64", random_state=0).fit(X)
    gone = np.setdiff1d(np.arange(N), model.landmark_indices_)[:40]
    again = refit(model, {}, np.setdiff1d(np.arange(N), gone))
    assert model.forget(X[gone], rows=gone)[-1] == "the encoder"
    np.testing.assert_allclose(model.reconstruct(X), again.reconstruct(X), atol=1e-8)


def test_no_draw_is_used_twice_after_forgetting(tmp_path):
    """Rows that are added later get indices of their own, also after the last rows were forgotten and a file."""
    model = KernelEmbedding(4, landmarks=X[:20], dtype="float64", random_state=0).fit(X[:100])
    model.forget(X[90:100], rows=np.arange(90, 100))
    model.save(tmp_path / "m.krepes")
    model = load(tmp_path / "m.krepes")
    assert (model.next_row_, model.n_samples_seen_) == (100, 90)
    model.partial_fit(X[100:150])
    assert model.rows_seen_ == RowRanges(((0, 90), (100, 150)))
    again = refit(model, {}, np.r_[0:90, 100:150])
    assert same(model, again, {})
    other = model.empty_copy().partial_fit(X[200:], first_row=200)
    assert model.merge(other).next_row_ == N


# Streams


def moments_of_a_loop(model, X, half_life, keys):
    """Weighted sums of features of one view, naively."""
    clock = keys.max() + 1
    n, total, outer = 0.0, 0.0, 0.0
    for x, key in zip(X, keys):
        phi = model.features_(model.space_.reader(x[None]).take(np.array([0])).inputs[0]).numpy()[0]
        w = 0.5 ** ((clock - 1 - key) / half_life)
        n, total, outer = n + w, total + w * phi, outer + w * np.outer(phi, phi)
    return n, total, outer


def test_the_sums_of_a_stream_do_not_depend_on_its_cuts():
    """Any cutting, in any order of its parts, gives the loop's sums to 1e-12."""
    base = KernelEmbedding(4, kernel="gaussian", loss="kernel_pca", **SMALL).fit(X)
    n, total, outer = moments_of_a_loop(base, X, 37.5, np.arange(N))
    for seed in range(6):
        generator = np.random.default_rng(seed)
        cuts = np.sort(generator.choice(np.arange(1, N), seed, replace=False))
        parts = np.split(np.arange(N), cuts)
        model = base.empty_copy()
        for part in generator.permutation(len(parts)) if seed > 3 else range(len(parts)):
            rows = parts[part]
            model.partial_fit(X[rows], half_life=37.5, first_row=int(rows[0]))
        found = model.moments_
        assert found.n == pytest.approx(n, rel=1e-12)
        np.testing.assert_allclose(found.sum_1, total, rtol=1e-12, atol=1e-12 * np.abs(total).max())
        np.testing.assert_allclose(found.sum_11, outer, rtol=1e-12, atol=1e-12 * np.abs(outer).max())
        assert (model.half_life_, model.n_samples_seen_) == (37.5, N)


@pytest.mark.parametrize(
    "case", ["exact views", "sampled views", "pairs", "folds", "ridge", "gaussian process"]
)
def test_aged_models_do_not_depend_on_cuts_and_merge_by_one_clock(case, tmp_path):
    model, given = CASES[case]
    whole = model.fit(**{"X": X} | given).empty_copy()
    cut, early, late = (model.empty_copy() for _ in range(3))
    whole.partial_fit(**{"X": X} | given, half_life=100)
    for start in range(0, N, 50):
        cut.partial_fit(**taken(given, np.arange(start, min(N, start + 50))), half_life=100)
        cut.save(tmp_path / "m.krepes", overwrite=True)
        cut = type(model).load(tmp_path / "m.krepes")
    early.partial_fit(**taken(given, np.arange(90)), half_life=100)
    late.partial_fit(**taken(given, np.arange(90, N)), half_life=100, first_row=90)
    assert same(cut, whole, given)
    assert same(early.merge(late), whole, given)
    assert not same(whole, refit(model, given, np.arange(N)), given)


def test_rows_that_are_too_old_count_nothing():
    model = KernelEmbedding(4, kernel="gaussian", **SMALL).fit(X).empty_copy()
    model.partial_fit(X[:100], half_life=1)
    alone = model.empty_copy().partial_fit(X[100:], half_life=1, first_row=10**6)
    model.partial_fit(X[100:], first_row=10**6)
    assert same(model, alone, {})
    machine = KernelRidgeRegressor(kernel="gaussian", **SMALL).fit(X, y).empty_copy()
    machine.partial_fit(X[:100], y[:100], half_life=1).partial_fit(X[100:], y[100:], first_row=1100)
    assert set(machine.held_out_rows_) <= set(range(1100, 1240))
    before = model.moments_
    model.partial_fit(X[:100], first_row=0)
    assert model.moments_.n == before.n
    assert model.n_samples_seen_ == N + 100


@pytest.mark.parametrize("case", ["exact views", "folds", "ridge", "novelty"])
def test_a_window_is_a_model_of_the_last_rows(case):
    """After every call, the window is the model of whole pieces that hold at least the last rows."""
    model, given = CASES[case]
    base = model.fit(**{"X": X} | given)
    window = Window(base, n_rows=100, n_pieces=5)
    first = 0
    for size in (70, 1, 59, 60, 50):
        window.add(**taken(given, np.arange(first, first + size)))
        first += size
        held = window.model.n_samples_seen_
        assert held == first if first <= 100 else 100 <= held < 120
        start = max(0, (first - 100) // 20 * 20)
        assert same(window.model, refit(base, given, np.arange(start, first)), given)
