"""`krepes rank-models`: files of features in, a table of models out."""

from __future__ import annotations

import csv
from functools import partial

import numpy as np
import pandas as pd
import pytest

from command_line import run as command
from command_line import words
from krepes.alignment import cka, leep, one_hot, transferability

run = partial(command, "rank-models")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    good = np.eye(3)[y] + 0.5 * rng.normal(size=(300, 3))
    np.save(tmp_path / "noise.npy", rng.normal(size=(300, 8)).astype(np.float32))
    np.savez(tmp_path / "all.npz", good=good, y=y)
    weak = pd.DataFrame(good + 2 * rng.normal(size=good.shape), columns=list("abc"))
    weak.to_parquet(tmp_path / "weak.parquet")
    weak.assign(kind=np.array(["u", "v", "w"])[y]).to_parquet(tmp_path / "labelled.parquet")
    pd.DataFrame({"kind": np.array(["u", "v", "w"])[y]}).to_csv(tmp_path / "y.csv", index=False)
    return tmp_path, good, y


def models(folder) -> list[str]:
    return [str(folder / "noise.npy"), str(folder / "weak.parquet"), f"{folder / 'all.npz'}:good"]


def test_models_are_ranked_written_and_drawn(files):
    folder, good, y = files
    table, figure = folder / "ranking.csv", folder / "ranking.png"
    text = run(*models(folder), "--labels", f"{folder / 'all.npz'}:y", "-o", table, "--figure", figure)
    rows = list(csv.DictReader(table.open()))
    assert [row["model"] for row in rows] == models(folder)[::-1]
    expected = transferability({"good": good}, y)
    assert float(rows[0]["logme"]) == pytest.approx(expected.scores["logme"][0], rel=1e-9)
    assert f"{expected.scores['log_cka'][0]:.3f}" in text
    assert float(rows[2]["p_value"]) > 0.01 > float(rows[1]["p_value"])
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "exists" in run(*models(folder), "--labels", f"{folder / 'all.npz'}:y", "-o", table, code=1)


def test_labels_may_be_a_column(files, monkeypatch):
    folder, *_ = files
    monkeypatch.chdir(folder)
    beside = run("labelled.parquet", "--label", "kind")
    apart = run("weak.parquet", "--label", "kind", "--labels", "y.csv")
    numbers = [text.split("parquet")[1].split() for text in (beside, apart)]
    assert numbers[0] == numbers[1]


def test_sketches_and_other_orders(files):
    folder, _, y = files
    labels = ("--labels", f"{folder / 'all.npz'}:y")
    table = folder / "sketched.csv"
    text = run(*models(folder), *labels, "--sketch", 128, "--permutations", 19, "-o", table)
    assert "LogME" not in next(line for line in text.splitlines() if "features" in line)
    assert "All are sketched" in text
    run(*models(folder), *labels, "--sort-by", "h-score")
    rows = list(csv.DictReader(table.open()))
    assert {row["method"] for row in rows} == {"sketch"}
    assert float(rows[0]["p_value"]) == 0.05
    theta = np.random.default_rng(0).dirichlet(np.ones(4), 300)
    np.save(folder / "theta.npy", theta)
    text = run(folder / "noise.npy", *labels, "--probabilities", folder / "theta.npy", "--sort-by", "leep")
    assert f"{leep(theta, y):.3f}" in text


def test_what_cannot_be_ranked_is_refused(files):
    folder, *_ = files
    np.save(folder / "short.npy", np.ones((5, 2)))
    np.save(folder / "y5.npy", np.arange(5) % 2)
    noise, labels = folder / "noise.npy", ("--labels", f"{folder / 'all.npz'}:y")
    assert "Which classes" in run(noise, code=2)
    assert "has 5 rows" in run(noise, folder / "short.npy", *labels, code=1)
    assert "5 labels for 300" in run(noise, "--labels", folder / "y5.npy", code=1)
    assert "no file" in run(noise, "--labels", folder / "none.npy", code=1)
    assert "no file" in run(folder / "none.npy", *labels, code=1)
    assert "--sort-by" in run(folder / "none.npy", *labels, "--sort-by", "luck", code=2)
    assert "needs --probabilities" in run(noise, *labels, "--sort-by", "leep", code=2)
    assert "given twice" in run(noise, noise, *labels, code=2)
    assert "no table" in run(noise, "--label", "kind", code=1)
    assert "--sketch 100: expected a power of two" in run(
        folder / "none.npy", *labels, "--sketch", 100, code=2
    )
    assert "left-out" in run(noise, *labels, "--sketch", 64, "--sort-by", "logme", code=2)
    assert "ends in .csv" in run(noise, *labels, "-o", folder / "a.txt", code=2)
    assert "not 'kind'" in run(folder / "labelled.parquet", *labels, code=1)
    bad = np.ones((300, 2))
    bad[7] = np.nan
    np.save(folder / "bad.npy", bad)
    assert "bad.npy" in run(noise, folder / "bad.npy", *labels, code=1)


def test_the_table_says_which_are_sketched_and_leaves_undefined_cells_blank(files, monkeypatch):
    folder, _, y = files
    labels = ("--labels", f"{folder / 'all.npz'}:y")
    np.save(folder / "wide.npy", np.random.default_rng(1).normal(size=(300, 40)))
    np.save(folder / "constant.npy", np.ones((300, 2)))
    draws = (np.random.default_rng(seed).normal(size=(300, 5)) for seed in range(99))
    np.save(folder / "opposed.npy", next(X for X in draws if cka(X, one_hot(y)) < 0))
    monkeypatch.chdir(folder)
    names = [f"{name}.npy" for name in ("wide", "constant", "opposed")]
    text = run(*names, *labels, "--max-width", 20)
    assert "nan" not in text
    assert "inf" not in text
    assert "CKA by" in text
    assert {line.split()[-1] for line in text.splitlines() if ".npy  " in line} == {"sketch", "exact"}
    assert "CKA ≤ 0: CKA is not above zero" in text
    assert "CKA by" not in run(*names[1:], *labels)


def test_columns_left_over_are_told_and_excluded_and_one_dimension_is_a_column(files, monkeypatch):
    folder, good, _ = files
    monkeypatch.chdir(folder)
    labels = ("--labels", "all.npz:y")
    pd.DataFrame(good, columns=["a", "b", "y"]).to_csv("left.csv", index=False)
    assert "'y' will be used as a feature" in run("left.csv", *labels)
    text = run("left.csv", *labels, "--exclude", "y", "--exclude", "b")
    assert "will be used" not in text
    np.save("one.npy", good[:, 0])
    alone = run("one.npy", *labels)
    assert text.split("left.csv")[-1].split() == alone.split("one.npy")[-1].split()


def test_a_missing_value_is_named_by_its_row_in_the_file(tmp_path):
    X = np.zeros((9000, 2))
    X[:, 0] = y = np.arange(9000) % 2
    X[8500, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y.astype(int))
    text = words(run(tmp_path / "x.npy", "--labels", tmp_path / "y.npy", code=1))
    assert "x.npy has NaN or infinite values; the first are in row 8,500" in text
