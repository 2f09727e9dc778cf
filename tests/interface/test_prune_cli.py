"""`krepes prune`: predictions in, weights and reasons out."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from command_line import run, words
from krepes.alignment import prune_ensemble
from reproduction import pruning
from reproduction.__main__ import app as reproduction


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    P = y[:, None] + rng.normal(size=(200, 6))
    frame = pd.DataFrame(P, columns=list("abcdef")).assign(price=y, constant=1.0)
    frame.to_parquet(tmp_path / "p.parquet")
    frame.to_csv(tmp_path / "p.csv", index=False)
    np.save(tmp_path / "p.npy", P)
    np.savez(tmp_path / "p.npz", F=P, y=y)
    np.save(tmp_path / "y.npy", y)
    return tmp_path, P, y


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_gives_the_weights_of_the_library(files, ending):
    folder, P, y = files
    kept = folder / "kept.csv"
    text = run("prune", folder / f"p.{ending}", "--label", "price", "-o", kept)
    assert "200 rows, regression: " in text
    with_constant = prune_ensemble(np.column_stack([P, np.ones(200)]), y=y)
    assert f"R² {with_constant.score_:.3f} (on rows left out" in text
    assert f"{with_constant.score_of_all_:.3f} with the mean of all." in text
    rows = {row["member"]: row for row in csv.DictReader(kept.open())}
    expected = prune_ensemble(P, y=y)
    for name, row in zip("abcdef", expected.table_):
        assert float(rows[name]["weight"]) == pytest.approx(row.weight, rel=1e-9)
        assert row.reason == rows[name]["reason"]
    assert rows["constant"]["reason"] == "constant"
    assert float(rows["intercept"]["weight"]) == pytest.approx(expected.intercept_[0], rel=1e-6)
    assert "exists" in run("prune", folder / f"p.{ending}", "--label", "price", "-o", kept, code=1)


def test_arrays_have_their_target_in_another_file_or_array(files):
    folder, P, y = files
    size = prune_ensemble(P, y=y, method="stacking").size_
    for arguments in (
        [folder / "p.npy", "--labels", folder / "y.npy"],
        [f"{folder / 'p.npz'}:F", "--label", "y"],
    ):
        text = run("prune", *arguments, "--method", "stacking")
        assert f"{size} of 6 members kept" in text or (size == 6 and "all 6 members kept" in text)


def test_votes_with_gaps_are_out_of_bag(tmp_path):
    rng = np.random.default_rng(1)
    y = rng.choice(["cat", "dog", "eel"], 120)
    votes = {
        f"m{k}": np.where(rng.random(120) < 0.7, y, rng.choice(["cat", "dog", "eel"], 120)) for k in range(4)
    }
    frame = pd.DataFrame(votes).mask(rng.random((120, 4)) < 0.3)
    frame.assign(y=y).to_parquet(tmp_path / "votes.parquet")
    text = run("prune", tmp_path / "votes.parquet", "--label", "y", "--out-of-bag")
    assert "classification, 3 classes: " in text
    assert "Accuracy " in text
    assert "with the vote of all" in text
    assert "cat, dog, eel" in text
    assert "(--out-of-bag)" in run("prune", tmp_path / "votes.parquet", "--label", "y", code=1)


def test_what_is_wrong_is_said(files):
    folder, _, y = files
    table = folder / "p.parquet"
    assert "--label COLUMN" in run("prune", table, code=2)
    assert "Did you mean 'price'" in run("prune", table, "--label", "prise", code=1)
    for option in ("--method", "--task"):
        text = words(run("prune", table, "--label", "price", option, "greedy", code=1))
        assert f"{option[2:]}='greedy'" in text
        assert f"({option})" in text
    assert "no file" in run("prune", folder / "none.npy", "--label", "y", code=1)
    assert "without columns" in run("prune", folder / "p.npy", "--label", "y", code=1)
    np.save(folder / "short.npy", y[:5])
    assert "y has 5 rows" in run("prune", folder / "p.npy", "--labels", folder / "short.npy", code=1)
    pd.read_parquet(table).assign(id="x").to_parquet(folder / "id.parquet")
    assert "--exclude id" in run("prune", folder / "id.parquet", "--label", "price", code=1)
    assert "members kept" in run("prune", folder / "id.parquet", "--label", "price", "--exclude", "id")


@pytest.mark.full
def test_the_experiment_compares_methods_and_draws(tmp_path, monkeypatch):
    few = {name: pruning.ENSEMBLES[name] for name in ("stumps", "AdaBoost")}
    monkeypatch.setattr(pruning, "ENSEMBLES", few)
    monkeypatch.setattr(pruning, "MEMBERS", 12)
    output, figure = tmp_path / "pruning.json", tmp_path / "pruning.png"
    arguments = ["pruning", "--rows", 120, "--repeats", 2, "-o", output, "--figure", figure]
    result = CliRunner().invoke(reproduction, [str(argument) for argument in arguments])
    assert "Chosen on unseen rows: alignment keeps" in result.output
    table = json.loads(output.read_text())["table"]
    assert [row[:3] for row in table[:2]] == [
        ["Friedman", "stumps", "unseen"],
        ["Friedman", "stumps", "training"],
    ]
    assert len(table) == 8
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_classes_of_the_chi_squared_task_are_thirds():
    y = pruning.chi_squared(3000, np.random.default_rng(0))[1]
    counts = np.bincount(y, minlength=3)
    assert len(counts) == 3
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(3000 * 2 / 9)


def test_the_target_may_be_a_column_of_another_table(files):
    folder, P, _ = files
    expected = run("prune", folder / "p.npy", "--labels", folder / "y.npy")
    assert run("prune", folder / "p.npy", "--labels", folder / "p.csv", "--label", "price") == expected
    pd.DataFrame(P, columns=list("abcdef")).to_csv(folder / "members.csv", index=False)
    text = run("prune", folder / "members.csv", "--labels", folder / "p.parquet", "--label", "price")
    assert text.splitlines()[:2] == expected.splitlines()[:2]
    text = run("prune", folder / "p.parquet", "--labels", folder / "p.csv", "--label", "price")
    assert "of 7 members" in text  # price is no member
    text = run("prune", folder / "p.npy", "--labels", folder / "p.csv", code=1)
    assert "Name it: label=COLUMN. (--label)" in text
    text = run("prune", folder / "p.npy", "--labels", folder / "y.npy", "--label", "price", code=1)
    assert "Leave label= out" in text


def test_an_array_of_several_is_named_after_the_file(files):
    folder, *_ = files
    text = run("prune", folder / "p.npz", "--label", "y", code=1)
    assert "p.npz:ARRAY" in text
    assert "--array" not in text
    text = run("prune", f"{folder / 'p.npz'}:F", "--label", "z", code=1)
    assert "has no array 'z'; it has F, y. Name one: --label ARRAY" in text
    np.savez(folder / "two.npz", a=np.ones(3))
    text = run("prune", folder / "p.npy", "--labels", folder / "two.npz", code=1)
    assert "two.npz:ARRAY" in text
    assert "--array" not in text


def test_brackets_in_names_are_shown(tmp_path):
    rng = np.random.default_rng(2)
    y = rng.normal(size=60)
    frame = pd.DataFrame(
        {"tree[0]": y + rng.normal(size=60), "[bold]": y + rng.normal(size=60), "c": 1.0, "y": y}
    )
    frame.to_parquet(tmp_path / "p.parquet")
    text = run("prune", tmp_path / "p.parquet", "--label", "y")
    assert "tree[0]" in text
    assert "[bold]" in text


def test_scores_of_two_classes_are_no_probabilities(tmp_path):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 80)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "p.npy", 3 * y[:, None] + rng.normal(size=(80, 3)))
    arguments = ("prune", tmp_path / "p.npy", "--labels", tmp_path / "y.npy")
    assert "80 rows, regression: " in run(*arguments)
    text = run(*arguments, "--task", "classification", code=1)
    assert "1 / (1 + exp(-s))" in text
    assert 'task="regression". (--task)' in text


def test_members_without_rows_and_noise_do_not_stop(tmp_path):
    rng = np.random.default_rng(4)
    P = np.column_stack([rng.normal(size=(80, 8)), np.full(80, np.nan)])
    np.save(tmp_path / "p.npy", P)
    np.save(tmp_path / "y.npy", rng.normal(size=80))
    text = run("prune", tmp_path / "p.npy", "--labels", tmp_path / "y.npy", "--out-of-bag")
    assert "no row to judge it by" in text
    assert "Warning: The best member explains" in text
