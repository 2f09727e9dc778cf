"""Folders of Parquet as output, `--engine` and `--dry-run` on the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run, words

X = np.random.default_rng(0).normal(size=(300, 3))
FRAME = pd.DataFrame(X, columns=list("abc")).assign(y=np.where(X[:, 0] > 0, "p", "q"), id=range(5, 305))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "rows").mkdir()
    for i in range(3):
        FRAME[100 * i : 100 * (i + 1)].to_csv(folder / "rows" / f"{i}.csv", index=False)
    few = ["--n-landmarks", "20"]
    columns = ["--exclude", "id"]
    run("fit", folder / "rows", "-o", folder / "m.krepes", "--label", "y", *columns, *few)
    run("train", folder / "rows", "-o", folder / "t.krepes", "--label", "y", *columns, *few)
    detecting = ["--task", "detect", "--exclude", "y"]
    run("train", folder / "rows", "-o", folder / "d.krepes", *detecting, *columns, *few)
    return folder


def test_a_name_without_an_ending_is_a_folder(folder):
    for verb, model, names in (
        ("transform", "m", ["id", "z0"]),
        ("predict", "t", ["id", "prediction"]),
        ("detect", "d", ["id", "score"]),
    ):
        one, many = folder / f"{verb}.parquet", folder / verb
        run(verb, folder / f"{model}.krepes", folder / "rows", "-o", one, "--keep", "id")
        arguments = [verb, folder / f"{model}.krepes", folder / "rows", "-o", many, "--keep", "id"]
        assert "in 1 file," in run(*arguments) or verb == "detect"
        expected, found = pd.read_parquet(one), pd.read_parquet(many)
        assert list(found.columns[:2]) == names
        pd.testing.assert_frame_equal(found, expected)
        again = json.loads(run(*arguments, "--json"))
        assert again["files"] == again["files_there"] == 1


def test_a_pattern_is_data(folder):
    found = run("transform", folder / "m.krepes", folder / "rows" / "*.csv", "-o", folder / "pattern.npy")
    assert "300 rows" in found


def test_a_dry_run_writes_nothing(folder):
    made = folder / "none.krepes"
    fit = ["fit", folder / "rows", "-o", made, "--label", "y", "--n-landmarks", "20", "--dry-run"]
    assert "expected time" in run(*fit)
    assert not made.exists()
    cost = json.loads(run(*fit, "--json"))["dry_run"]
    assert cost["n_rows"] == 300
    assert cost["rows_per_second"] > 0
    transform = ["transform", folder / "m.krepes", folder / "rows", "-o", folder / "nothing", "--dry-run"]
    assert "memory per worker" in run(*transform)
    assert not (folder / "nothing").exists()


def test_a_dry_run_of_a_machine_says_how_large_it_will_be(folder):
    made = folder / "none.krepes"
    train = ["train", folder / "rows", "-o", made, "--label", "y", "--n-landmarks", "20", "--dry-run"]
    assert "model on landmarks" in run(*train)
    found = json.loads(run(*train, "--set", "local=True", "--json"))["dry_run"]
    assert found["n_rows"] == 300
    assert found["model_bytes"].keys() == {"landmarks", "cells"}
    assert not made.exists()
    refused = run(*train[:4], "--task", "detect", "--dry-run", code=2)
    assert "predict a column" in words(refused)


def test_what_workers_cannot_write_is_refused(folder):
    arguments = ["predict", folder / "t.krepes", folder / "rows", "-o", folder / "p.csv", "--engine", "dask"]
    found = run(*arguments, code=2)
    assert "name without an ending" in words(found)
    found = run("fit", folder / "rows", "-o", folder / "e.krepes", "--engine", "spark", code=1)
    assert "(--engine)" in words(found)
    found = run("fit", folder / "rows", "-o", folder / "e.krepes", "--loss", "simclr", "--dry-run", code=1)
    assert "trained on samples" in words(found)
