"""`krepes align`: files in, a table out."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest

from command_line import run
from krepes.alignment import cka


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    Y = X[:, :3] + rng.normal(size=(300, 3))
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.savez(tmp_path / "y.npz", Z=Y)
    pd.DataFrame(X[:, :2], columns=["a", "b"]).to_parquet(tmp_path / "z.parquet")
    return tmp_path, X.astype(np.float32), Y


def test_pairs_are_compared_exactly_in_a_stream(files):
    folder, X, Y = files
    text = run("align", folder / "x.npy", f"{folder / 'y.npz'}:Z")
    assert f"{cka(X, Y):.4f}" in text
    text = run("align", folder / "x.npy", f"{folder / 'y.npz'}:Z", "--estimator", "biased")
    assert f"{cka(X, Y, estimator='biased'):.4f}" in text


def test_a_test_of_two_files(files):
    folder, X, Y = files
    text = run("align", folder / "x.npy", f"{folder / 'y.npz'}:Z", "--permutations", 19)
    assert f"CKA {cka(X, Y):.4f}" in text
    assert "p = 0.05" in text


def test_a_sketch_of_several_files_with_table_and_figure(files):
    folder, X, _ = files
    output, figure = folder / "table.csv", folder / "table.png"
    names = [folder / "x.npy", f"{folder / 'y.npz'}:Z", folder / "z.parquet"]
    run("align", *names, "--sketch", 256, "-o", output, "--figure", figure)
    rows = list(csv.reader(output.open()))
    assert rows[0][1:] == [str(name) for name in names]
    assert abs(float(rows[1][3]) - cka(X, X[:, :2], estimator="biased")) < 0.2
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "exists" in run("align", *names, "-o", output, code=1)


def test_formats_of_figures_are_checked_before_the_work(files):
    folder, _, _ = files
    text = run("align", folder / "x.npy", folder / "z.parquet", "--figure", folder / "table.doc", code=1)
    assert ".png, .pdf, .svg" in text
    assert "CKA" not in text


def test_what_cannot_be_compared_is_refused(files):
    folder, *_ = files
    np.save(folder / "short.npy", np.ones((5, 2)))
    pd.DataFrame({"a": [1.0] * 300, "kind": ["u"] * 300}).to_parquet(folder / "text.parquet")
    x = folder / "x.npy"
    assert "has 5 rows" in run("align", x, folder / "short.npy", code=1)
    assert "at least two" in run("align", x, code=1)
    assert "no file" in run("align", x, folder / "none.npy", code=1)
    assert "'kind' is not" in run("align", x, folder / "text.parquet", code=1)
    assert "power of two" in run("align", x, x, "--sketch", 100, code=1)
    assert "two files" in run("align", x, x, x, "--permutations", 9, code=1)
