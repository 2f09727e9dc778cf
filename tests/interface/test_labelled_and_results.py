"""Labels beside rows, and results as files: for Python as for the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from command_line import run
from krepes import KernelEmbedding
from krepes.labelled import labels_of, open_labelled, read_labels, training_rows, weights_of
from krepes.results import kept_columns, write_rows
from krepes.sources import open_source
from refusals import refuses


@pytest.fixture
def folder(tmp_path):
    frame = pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(20)],
            "number": np.arange(20),
            "note": ["x", None] * 10,
            "a": np.linspace(0, 1, 20),
            "b": np.arange(20) % 3,
            "kind": ["u", "v"] * 10,
            "part": ["train"] * 15 + ["test"] * 5,
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "x.npz", X=np.ones((20, 2)), y=np.arange(20) % 2, n_train=12, w=np.arange(20))
    np.save(tmp_path / "y.npy", np.arange(20) % 2)
    return tmp_path


def test_labels_are_found_where_they_are(folder):
    for name in ("t.csv", "t.parquet"):
        y, where = labels_of(open_source(folder / name), folder / name, "kind")
        assert (y.tolist(), where) == (["u", "v"] * 10, "column 'kind'")
    y, where = labels_of(open_source(folder / "x.npz"), folder / "x.npz")
    assert (len(y), where) == (20, "array 'y'")
    assert read_labels(folder / "t.csv", "kind").tolist() == ["u", "v"] * 10
    assert read_labels(f"{folder / 'x.npz'}:w").tolist() == list(range(20))
    with refuses(ValueError, "label=COLUMN"):
        labels_of(open_source(folder / "t.csv"), folder / "t.csv")
    with refuses(ValueError, "20 rows"):
        labels_of(open_source(folder / "t.csv"), folder / "t.csv", labels=_saved(folder, np.ones(5)))


def _saved(folder, values):
    np.save(folder / "few.npy", values)
    return folder / "few.npy"


def test_rows_are_divided_as_the_data_say(folder):
    by_column = open_labelled(folder / "t.csv", label="kind", split="part")
    assert by_column.test.tolist() == [False] * 15 + [True] * 5
    stored = open_labelled(folder / "x.npz")
    assert stored.train.sum() == 12
    assert open_labelled(folder / "x.npz", n_train=5).train.sum() == 5
    two = open_labelled(folder / "t.csv", label="kind", test=folder / "t.parquet")
    assert (len(two.y), two.test.sum()) == (40, 20)
    drawn = open_labelled(folder / "t.csv", label="kind")
    assert drawn.test is None
    assert "drawn at random" in drawn.hints()[0]
    with refuses(ValueError, "split=", "n_train="):
        training_rows(open_source(folder / "t.csv"), folder / "t.csv", "part", 3)
    with refuses(ValueError, "20 rows"):
        open_labelled(folder / "x.npz", n_train=20)


def test_weights_are_numbers(folder):
    assert weights_of(open_source(folder / "x.npz"), folder / "x.npz", "w").sum() == 190
    with refuses(ValueError, "sample_weight=kind"):
        weights_of(open_source(folder / "t.csv"), folder / "t.csv", "kind")


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
def test_ids_stay_with_their_rows(folder, ending, source):
    """Whatever the batches are, and in every format."""
    Z, path = np.random.default_rng(0).normal(size=(20, 2)), folder / f"z.{ending}"
    keep = kept_columns(open_source(folder / source), ["id", "number", "note"], path)
    write_rows(path, np.split(Z, [3, 3, 11]), 20, 2, keep=keep)
    if ending == "npz":
        found = np.load(path)
        assert set(found.files) == {"Z", "id", "number", "note"}
        np.testing.assert_array_equal(found["Z"], Z)
        assert found["note"][:2].tolist() == ["x", ""]
    else:
        found = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
        assert list(found) == ["id", "number", "note", "z0", "z1"]
        np.testing.assert_allclose(found[["z0", "z1"]], Z)
        assert found["note"].isna().tolist() == [False, True] * 10
    assert list(found["id"]) == [f"r{i}" for i in range(20)]
    assert list(found["number"]) == list(range(20))


def test_what_cannot_be_written_is_refused(folder):
    table, Z = open_source(folder / "t.csv"), np.ones((20, 1))
    with refuses(ValueError, "keep=", "npy", "array"):
        write_rows(folder / "z.npy", [Z], 20, 1, keep=table.select(["id"]))
    with refuses(ValueError, "npy", "npz"):
        write_rows(folder / "z.xlsx", [Z], 20, 1)
    with refuses(ValueError, "19 rows", "n_rows=20"):
        write_rows(folder / "z.csv", [Z[:19]], 20, 1)
    with refuses(ValueError, "keep=a"):
        write_rows(folder / "z.csv", [Z], 20, 1, columns=["a"], keep=table.select(["a"]))
    with pytest.raises(FileExistsError):
        write_rows(folder / "t.csv", [Z], 20, 1)
    with refuses(ValueError, "columns"):
        kept_columns(open_source(folder / "x.npz"), ["id"], "z.csv")
    assert not list(folder.glob("z.*"))


def test_a_kept_column_is_not_a_feature(folder):
    """Of `cluster` neither; and `transform` takes ids that the model has never seen."""
    frame = pd.read_csv(folder / "t.csv")
    frame[["a", "b"]].to_csv(folder / "plain.csv", index=False)
    frame[["number", "a", "b"]].to_csv(folder / "ids.csv", index=False)
    run("fit", folder / "plain.csv", "-o", folder / "m", "--n-landmarks", 10, "--n-components", 2)
    run("transform", folder / "m", folder / "ids.csv", "-o", folder / "with.csv", "--keep", "number")
    run("transform", folder / "m", folder / "plain.csv", "-o", folder / "without.csv")
    found = pd.read_csv(folder / "with.csv")
    assert found.pop("number").tolist() == list(range(20))
    pd.testing.assert_frame_equal(found, pd.read_csv(folder / "without.csv"))
    for data, more in (("plain", ()), ("ids", ("--keep", "number"))):
        run("cluster", folder / f"{data}.csv", "-k", 3, "-o", folder / f"{data}.clusters.csv", *more)
    kept, plain = (pd.read_csv(folder / f"{name}.clusters.csv") for name in ("ids", "plain"))
    assert list(kept) == ["number", "cluster"]
    assert kept["cluster"].tolist() == plain["cluster"].tolist()


def test_missing_labels_are_not_a_class_of_explain(tmp_path):
    """They are not counted among the labels, and not shown as one."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    kind = np.where(X[:, 0] > 0, "up", "down").astype(object)
    kind[::3] = None
    pd.DataFrame(X, columns=list("abc")).assign(kind=kind).to_parquet(tmp_path / "t.parquet")
    model = KernelEmbedding(3, n_landmarks=20, random_state=0).fit(pd.DataFrame(X, columns=list("abc")))
    model.save(tmp_path / "m.krepes")
    common = (
        "explain",
        tmp_path / "m.krepes",
        tmp_path / "t.parquet",
        "--label",
        "kind",
        "--sample",
        0,
        "--top",
        20,
    )
    text = run(*common, "--class", "up")
    assert "(a classifier from 40 labels)" in text
    assert "Row 0: the landmarks span" in text
    assert "None" not in text + run(*common)
