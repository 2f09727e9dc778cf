"""`krepes reconstruct`: columns and pixels that come back, with their errors, in every format."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris

from command_line import run
from krepes import KernelAutoencoder, KernelEmbedding, load

SMALL = ("--n-components", 4, "--n-landmarks", 60, "--seed", 0)
FIGURES = ["error", "expected_error", "trusted"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table of people with a model, vectors with a model, images with a model."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 6, 200)
    town = np.where(t < 2, "Bonn", np.where(t < 4, "Köln", "Trier"))
    table = pd.DataFrame({"id": np.arange(200), "age": 30 + 8 * np.sin(t), "income": 1000 * t, "town": town})
    table.to_csv("people.csv", index=False)
    np.save("iris.npy", load_iris().data)
    np.savez("digits.npz", X=(load_digits().images[:200] * 15).astype(np.uint8))
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_comes_back_in_its_columns(folder, ending):
    run("fit", "people.csv", "-o", "m.krepes", *SMALL)
    text = run("reconstruct", "m.krepes", "people.csv", "-o", f"out.{ending}", "--keep", "id")
    found = pd.read_csv("out.csv") if ending == "csv" else pd.read_parquet("out.parquet")
    assert list(found.columns) == ["id", "age", "income", "town", *FIGURES]
    rows, error = load("m.krepes").reconstruct("people.csv", return_error=True)
    assert np.allclose(found["income"], rows.column("income").to_numpy(), rtol=1e-4)
    assert found["town"].tolist() == rows.column("town").to_pylist()
    assert np.allclose(found["error"], error.actual, rtol=1e-3)
    assert np.array_equal(found["trusted"], error.trusted)
    assert "Wrote" in text
    assert f"Mean error {error.actual.mean():.3f}" in text


def test_vectors_in_every_format(folder):
    run("fit", "iris.npy", "-o", "m.krepes", *SMALL)
    rows, error = load("m.krepes").reconstruct("iris.npy", return_error=True)
    for ending in ("npy", "npz", "csv", "parquet"):
        run("reconstruct", "m.krepes", "iris.npy", "-o", f"out.{ending}")
    archive = np.load("out.npz")
    assert sorted(archive) == ["X", *FIGURES]
    assert np.allclose(archive["X"], rows, atol=1e-4)
    assert np.allclose(archive["error"], error.actual, rtol=1e-3)
    assert np.allclose(np.load("out.npy"), rows, atol=1e-4)
    for table in (pd.read_csv("out.csv"), pd.read_parquet("out.parquet")):
        assert list(table.columns) == ["x0", "x1", "x2", "x3", *FIGURES]
        assert np.allclose(table.iloc[:, :4], rows, atol=1e-4)


def test_images_keep_their_shape(folder):
    run("fit", "digits.npz", "-o", "m.krepes", *SMALL)
    run("reconstruct", "m.krepes", "digits.npz", "-o", "out.npz")
    assert np.load("out.npz")["X"].shape == (200, 8, 8)
    said = run("reconstruct", "m.krepes", "digits.npz", "-o", "out.csv", code=1)
    assert "output=out.csv: images go into .npz or .npy files" in " ".join(said.split())


def test_parts_are_the_whole(folder, monkeypatch):
    from krepes.cli import result_files

    run("fit", "iris.npy", "-o", "m.krepes", *SMALL)
    run("reconstruct", "m.krepes", "iris.npy", "-o", "whole.npz")
    monkeypatch.setattr(result_files, "BATCH_ROWS", 32)
    run("reconstruct", "m.krepes", "iris.npy", "-o", "parts.npz")
    whole, parts = np.load("whole.npz"), np.load("parts.npz")
    for name in whole:
        assert np.allclose(whole[name], parts[name], rtol=1e-3, atol=1e-4)


def test_rows_to_learn_from_and_json(folder):
    run("fit", "people.csv", "-o", "m.krepes", *SMALL)
    said = run(
        "reconstruct",
        "m.krepes",
        "people.csv",
        "-o",
        "o.csv",
        "--learn-from",
        "people.csv",
        "--keep",
        "id",
        "--json",
    )
    found = json.loads(said)
    model = load("m.krepes").fit_inverse("people.csv")
    assert found["error"] == pytest.approx(
        model.reconstruct("people.csv", return_error=True)[1].actual.mean(), rel=1e-3
    )
    assert (found["rows"], found["kept"], found["not_trusted"]) == (200, ["id"], 0)


@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
@pytest.mark.parametrize("data", ["people.csv", "iris.npy", "digits.npz"])
def test_an_autoencoder_rebuilds_rows_too(folder, data, monkeypatch):
    """Rows are those of `reconstruct`, the error is |x - x^| relative to the spread, in parts as in the whole."""
    from krepes.cli import result_files

    rows = np.load(data)["X"] if data.endswith("npz") else data
    model = KernelAutoencoder(3, n_landmarks=40, max_iter=5, random_state=0).fit(rows)
    model.save("ae.krepes")
    monkeypatch.setattr(result_files, "BATCH_ROWS", 64)
    ending = "csv" if data.endswith("csv") else "npz"
    text = run("reconstruct", "ae.krepes", data, "-o", f"out.{ending}")
    back = model.reconstruct(rows)
    if ending == "csv":
        found = pd.read_csv("out.csv")
        assert list(found.columns) == ["age", "income", "town", "error"]
        assert np.allclose(found["income"], back.column("income").to_numpy())
        error = found["error"].to_numpy()
    else:
        found = np.load("out.npz")
        assert sorted(found) == ["X", "error"]
        assert np.allclose(found["X"], back)
        X = (rows if data == "digits.npz" else np.load(data)).reshape(len(back), -1).astype(float)
        spread = np.sqrt(np.square(X - X.mean(0)).sum(1).mean())
        error = np.linalg.norm(X - back.reshape(X.shape), axis=1) / spread
        assert np.allclose(found["error"], error)
    assert 1 - np.square(error).mean() == pytest.approx(model.score(rows))
    assert f"Mean error {error.mean():.3f}" in text
    said = json.loads(run("reconstruct", "ae.krepes", data, "-o", f"again.{ending}", "--json"))
    assert (said["expected_error"], said["not_trusted"]) == (None, None)


@pytest.mark.filterwarnings("ignore:The descent has not ended:UserWarning")
def test_what_is_not_for_autoencoders_is_said(folder):
    KernelAutoencoder(2, max_iter=2, random_state=0).fit("iris.npy").save("ae.krepes")
    said = run("reconstruct", "ae.krepes", "iris.npy", "-o", "o.npz", "--learn-from", "iris.npy", code=1)
    assert "--learn-from iris.npy: ae.krepes is an autoencoder" in " ".join(said.split())
    said = run("transform", "ae.krepes", "iris.npy", "-o", "z.npy", code=1)
    assert "use `krepes reconstruct ae.krepes DATA -o FILE`" in " ".join(said.split())
    run("train", "people.csv", "--label", "town", "-o", "t.krepes")
    assert "krepes predict" in run("reconstruct", "t.krepes", "people.csv", "-o", "o.csv", code=1)


def test_refusals(folder):
    run("fit", "people.csv", "-o", "m.krepes", *SMALL)
    for ending, words in (("npz", "go into .parquet or .csv"), ("csv", "exists already")):
        if ending == "csv":
            run("reconstruct", "m.krepes", "people.csv", "-o", "out.csv")
        assert words in " ".join(
            run("reconstruct", "m.krepes", "people.csv", "-o", f"out.{ending}", code=1).split()
        )
    assert "expected a name that ends in" in run(
        "reconstruct", "m.krepes", "people.csv", "-o", "out.xlsx", code=2
    )
    table = pd.read_csv("people.csv").rename(columns={"age": "error"})
    table.to_csv("odd.csv", index=False)
    run("fit", "odd.csv", "-o", "odd.krepes", *SMALL)
    said = run("reconstruct", "odd.krepes", "odd.csv", "-o", "odd_out.csv", code=1)
    assert "a column 'error', as the result has" in " ".join(said.split())
    assert not (folder / "odd_out.csv").exists()


def test_an_interruption_leaves_nothing(folder, monkeypatch):
    run("fit", "iris.npy", "-o", "m.krepes", *SMALL)

    def interrupted(self, X, batch_rows=None):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(KernelEmbedding, "iter_reconstruct", interrupted)
    before = set(folder.iterdir())
    run("reconstruct", "m.krepes", "iris.npy", "-o", "out.npz", code=130)
    assert set(folder.iterdir()) == before
