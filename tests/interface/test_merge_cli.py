"""Parts of the data, summed up apart on the command line, merge into the model of all."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run, words
from krepes import KernelEmbedding, load
from krepes.machines import KernelRidgeRegressor, NoveltyDetector

N, SITES = 600, 4
rng = np.random.default_rng(0)
frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc")).assign(
    kind=rng.choice(["x", "y"], size=N), site=np.array(["A", "B", "C", "D"])[np.arange(N) * SITES // N]
)
frame["y"] = frame.a + frame.b**2
EXACT = ["--n-landmarks", "25", "--set", "dtype=float64"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four sites, of unequal size, and the sums of each in the space of the first rows."""
    place = tmp_path_factory.mktemp("sites")
    sample, edges = place / "sample.parquet", [0, 100, 350, 360, N]
    frame[:200].to_parquet(sample)
    run(
        "fit",
        sample,
        *EXACT,
        "--label",
        "y",
        "--n-components",
        4,
        "--groups",
        "site",
        "-o",
        place / "base.krepes",
    )
    run("train", sample, *EXACT, "--label", "y", "--exclude", "site", "-o", place / "ridge.krepes")
    for i in range(SITES):
        part, first = place / f"p{i}.parquet", ("--first-row", edges[i])
        frame[edges[i] : edges[i + 1]].to_parquet(part)
        run("fit", part, "--base", place / "base.krepes", *first, "-o", place / f"e{i}.krepes")
        run("train", part, "--base", place / "ridge.krepes", *first, "-o", place / f"r{i}.krepes")
    return place


def test_merged_sites_equal_one_model(folder, tmp_path):
    parts = [folder / f"e{i}.krepes" for i in (2, 0, 3, 1)]  # in any order
    found = json.loads(run("merge", *parts, "-o", tmp_path / "all.krepes", "--json"))
    assert found["rows"] == N
    assert found["ranges"] == [[0, N]]
    assert found["groups"] == {"A": 150, "B": 150, "C": 150, "D": 150}
    merged, alone = (
        load(tmp_path / "all.krepes"),
        load(folder / "base.krepes").empty_copy().partial_fit(frame),
    )
    Z, expected = merged.transform(frame), alone.transform(frame)
    assert np.abs(Z @ Z.T - expected @ expected.T).max() < 1e-8 * np.abs(expected @ expected.T).max()
    assert merged.next_row_ == N


def test_merged_machines_equal_one_machine(folder, tmp_path):
    run("merge", *(folder / f"r{i}.krepes" for i in range(SITES)), "-o", tmp_path / "all.krepes")
    merged = load(tmp_path / "all.krepes")
    alone = load(folder / "ridge.krepes").empty_copy().partial_fit(frame, "y")
    np.testing.assert_allclose(merged.predict(frame), alone.predict(frame), atol=1e-8)


def test_detectors_have_parts_too(folder, tmp_path):
    base = tmp_path / "base.krepes"
    run("train", folder / "sample.parquet", "--task", "detect", "--exclude", "site", *EXACT, "-o", base)
    for i, first in ((0, 0), (1, 100)):
        out = tmp_path / f"d{i}.krepes"
        run("train", folder / f"p{i}.parquet", "--base", base, "--first-row", first, "-o", out)
    run("merge", tmp_path / "d0.krepes", tmp_path / "d1.krepes", "-o", tmp_path / "all.krepes")
    merged, alone = (
        load(tmp_path / "all.krepes"),
        NoveltyDetector.load(base).empty_copy().partial_fit(frame[:350]),
    )
    np.testing.assert_allclose(merged.score_samples(frame), alone.score_samples(frame), atol=1e-8)


def test_what_does_not_go_together_is_named(folder, tmp_path):
    out = tmp_path / "all.krepes"
    KernelEmbedding(4, n_landmarks=20, random_state=0).fit(frame[["a", "b"]]).save(tmp_path / "other.krepes")
    first = folder / "e0.krepes"
    printed = words(run("merge", first, tmp_path / "other.krepes", "-o", out, code=1))
    assert f"{tmp_path / 'other.krepes'} does not go with {first}" in printed
    assert "differ in preprocessing, kernel, landmarks" in printed
    printed = words(run("merge", first, folder / "r1.krepes", "-o", out, code=1))
    assert "got KernelRidgeRegressor" in printed
    printed = words(run("merge", first, folder / "e1.krepes", first, "-o", out, code=1))
    assert "both hold rows 0 to 99: the same rows would count twice" in printed
    assert not out.exists()
    run("merge", first, first, "--allow-overlap", "-o", out)
    assert load(out).n_samples_seen_ == 200
    assert "at least two" in words(run("merge", first, "-o", out, code=2))
    assert "no file" in words(run("merge", first, tmp_path / "none.krepes", "-o", tmp_path / "x", code=1))


def test_a_base_brings_its_own_model(folder, tmp_path):
    data, base, out = folder / "p1.parquet", folder / "base.krepes", tmp_path / "part.krepes"
    for more in (["--n-landmarks", "9"], ["--exclude", "a"], ["--no-moments"], ["--set", "scale=unit"]):
        printed = words(run("fit", data, "--base", base, "-o", out, *more, code=2))
        assert f"{more[0]}: --base" in printed
    assert "--penalty: --base" in words(
        run("train", data, "--base", folder / "ridge.krepes", "--penalty", 3, "-o", out, code=2)
    )
    assert "use `krepes fit --base`" in words(run("train", data, "--base", base, "-o", out, code=1))
    assert "use `krepes train --base`" in words(
        run("fit", data, "--base", folder / "ridge.krepes", "-o", out, code=1)
    )
    frame[["a", "b"]].to_parquet(tmp_path / "short.parquet")
    assert "'c'" in words(run("fit", tmp_path / "short.parquet", "--base", base, "-o", out, code=1))
    assert not out.exists()


def test_a_machine_keeps_groups_by_an_option(folder, tmp_path):
    out = tmp_path / "m.krepes"
    run("train", folder / "sample.parquet", "--label", "y", "--groups", "site", *EXACT, "-o", out)
    machine = KernelRidgeRegressor.load(out)
    assert machine.groups_ == {"A": 150, "B": 50}
    assert "site" not in machine.input_space_.encoder.used_columns_
    printed = run(
        "train", folder / "sample.parquet", "--label", "kind", "--groups", "site", "--machine", "gaussian-process",
        "-o", tmp_path / "x", code=2,
    )  # fmt: skip
    assert "keeps no sums" in words(printed)
