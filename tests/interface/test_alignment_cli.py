"""`krepes align`: files in, a table out."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest

from command_line import run, words
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
    text = run("align", folder / "x.npy", folder / "z.parquet", "--figure", folder / "table.doc", code=2)
    assert ".png, .pdf, .svg" in text
    assert "CKA" not in text


def test_what_cannot_be_compared_is_refused(files):
    folder, *_ = files
    np.save(folder / "short.npy", np.ones((5, 2)))
    pd.DataFrame({"a": [1.0] * 300, "kind": ["u"] * 300}).to_parquet(folder / "text.parquet")
    x = folder / "x.npy"
    assert "has 5 rows" in run("align", x, folder / "short.npy", code=1)
    assert "at least two" in run("align", x, code=2)
    assert "no file" in run("align", x, folder / "none.npy", code=1)
    assert "not 'kind'" in run("align", x, folder / "text.parquet", code=1)
    assert "two files" in run("align", x, x, x, "--permutations", 9, code=2)


def test_options_are_checked_before_files_are_read(files):
    folder, *_ = files
    missing = (folder / "none.npy", folder / "neither.npy")
    assert "--sketch 100: expected a power of two" in run("align", *missing, "--sketch", 100, code=2)
    for more in ((), ("--sketch", 64)):
        assert "--estimator luck" in run("align", *missing, "--estimator", "luck", *more, code=2)
    assert "--estimator unbiased: " in run(
        "align", *missing, "--estimator", "unbiased", "--sketch", 64, code=2
    )
    output = folder / "a.txt"
    assert "ends in .csv" in run("align", folder / "x.npy", folder / "z.parquet", "-o", output, code=2)
    assert not output.exists()


def test_the_estimator_is_shown(files):
    folder, *_ = files
    both = folder / "x.npy", folder / "z.parquet"
    assert "CKA, unbiased" in run("align", *both)
    assert "CKA, biased, sketched" in run("align", *both, "--sketch", 64)
    assert "CKA, biased, sketched" in run("align", *both, "--sketch", 64, "--estimator", "biased")
    assert "(biased)" in run("align", *both, "--permutations", 9, "--estimator", "biased")


@pytest.mark.parametrize("more", [(), ("--sketch", 64), ("--permutations", 9)], ids=str)
def test_errors_name_the_file(files, more):
    folder, X, _ = files
    bad = X.copy()
    bad[299] = np.nan
    np.save(folder / "bad.npy", bad)
    np.save(folder / "constant.npy", np.ones((300, 2)))
    x = folder / "x.npy"
    text = words(run("align", x, folder / "bad.npy", *more, code=1))
    assert "bad.npy has NaN" in text
    assert "row 299" in text
    text = words(run("align", x, folder / "constant.npy", *more, code=0 if "--sketch" in more else 1))
    assert f"ll rows of {folder / 'constant.npy'} are the same" in text


def test_one_dimension_is_one_column_and_arrays_are_named_with_a_colon(files):
    folder, X, _ = files
    np.save(folder / "one.npy", X[:, 0])
    np.savez(folder / "two.npz", a=X, one=X[:, 0])
    expected = f"{cka(X, X[:, 0]):.4f}"
    assert expected in run("align", folder / "x.npy", folder / "one.npy")
    assert expected in run("align", folder / "x.npy", f"{folder / 'two.npz'}:one")
    text = run("align", folder / "x.npy", folder / "two.npz", code=1)
    assert "two.npz:ARRAY" in text
    assert "--array" not in text


def test_columns_that_look_like_targets_are_told_and_can_be_left_out(files):
    folder, X, _ = files
    frame = pd.DataFrame(X[:, :2], columns=["a", "target"])
    frame.to_parquet(folder / "left.parquet")
    both = folder / "x.npy", folder / "left.parquet"
    assert "'target' will be used as a feature" in run("align", *both)
    text = run("align", *both, "--exclude", "target")
    assert "will be used" not in text
    assert f"{cka(X, X[:, 0]):.4f}" in text
    assert "--exclude luck: no file" in run("align", *both, "--exclude", "luck", code=1)


def test_square_brackets_and_folders_stay_in_names(files, monkeypatch):
    from krepes.cli.work.features import short_names

    folder, X, _ = files
    monkeypatch.chdir(folder)
    np.save("a[red].npy", X)
    assert "a[red].npy" in run("align", "x.npy", "a[red].npy").split("CKA")[1]
    assert short_names(["run1/z.npy", "run2/z.npy"]) == ["run1/z.npy", "run2/z.npy"]
    assert short_names(["/all/run1/z.npy", "/all/run2/y.npz:Z"]) == ["z.npy", "y.npz:Z"]
    assert short_names(["z.npy", "run2/z.npy"]) == ["z.npy", "run2/z.npy"]
