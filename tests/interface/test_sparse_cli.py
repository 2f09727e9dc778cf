"""Sparse `.npz` files on the command line: every command gives what it gives for the same rows made dense."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv as pc
import pytest
import scipy.sparse

import krepes
from command_line import run, words

N, WIDTH = 120, 150
FIT = ["--n-landmarks", 40, "--n-components", 4, "--kernel", "gaussian", "--loss", "kernel_pca"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows as a sparse file, as a compressed one and dense, with labels; models of the sparse file."""
    folder = tmp_path_factory.mktemp("sparse")
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    dense = (rng.random((N, WIDTH)) < 0.06) * rng.random((N, WIDTH))
    dense[:, :30] *= 1 + 5 * y[:, None]
    scipy.sparse.save_npz(folder / "X.npz", scipy.sparse.csr_array(dense), compressed=False)
    scipy.sparse.save_npz(folder / "small.npz", scipy.sparse.csc_array(dense), compressed=True)
    np.save(folder / "D.npy", dense)
    np.save(folder / "y.npy", np.where(y, "b", "a"))
    run("fit", folder / "X.npz", "-o", folder / "model", *FIT)
    train = ["train", folder / "X.npz", "--n-landmarks", 40]
    run(*train, "-o", folder / "machine", "--labels", folder / "y.npy")
    run(*train, "-o", folder / "process", "--labels", folder / "y.npy", "--machine", "gaussian_process")
    run(*train, "-o", folder / "detector", "--task", "detect")
    return folder


@pytest.mark.parametrize("name", ["X.npz", "small.npz"])
def test_fit_says_what_it_reads_and_transform_agrees_with_dense_rows(files, tmp_path, name):
    text = words(run("fit", files / name, "-o", tmp_path / "m", *FIT))
    assert f"{N} × {WIDTH}, float64," in text
    assert "% not zero" in text
    assert f"input sparse, {WIDTH} features" in text
    run("transform", tmp_path / "m", files / name, "-o", tmp_path / "z.npy")
    run("transform", tmp_path / "m", files / "D.npy", "-o", tmp_path / "dense.npy")
    Z = np.load(tmp_path / "z.npy")
    assert Z.shape == (N, 4)
    np.testing.assert_allclose(Z, np.load(tmp_path / "dense.npy"), atol=1e-5)
    run("fit", files / "D.npy", "-o", tmp_path / "d", *FIT)
    own = krepes.load(tmp_path / "d").transform(np.load(files / "D.npy"))
    np.testing.assert_allclose(np.abs(Z), np.abs(own), atol=1e-3)


def test_the_default_fit_of_sparse_rows(files, tmp_path):
    text = words(run("fit", files / "X.npz", "-o", tmp_path / "m", "--n-landmarks", 30, "--n-components", 3))
    assert "kernel cosine" in text
    assert "views sparse" in text


def test_select_compares_representations_of_sparse_rows(files, tmp_path):
    labelled = tmp_path / "L.npz"
    X = scipy.sparse.load_npz(files / "X.npz")
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(labelled, format=b"csr", _is_array=True, y=np.load(files / "y.npy"), **parts)
    model = krepes.KernelEmbedding(3, n_landmarks=30, random_state=0).fit(labelled)
    assert model.select(labelled, np.load(files / "y.npy")).selection_ is not None


def test_info_tells_a_sparse_model(files):
    text = words(run("info", files / "model"))
    assert f"input sparse, {WIDTH} features" in text
    assert "landmarks (rows of the training data)" in text
    assert f"input sparse, {WIDTH} features" in words(run("info", files / "machine"))


@pytest.mark.parametrize("model", ["model", "machine"])
def test_evaluate_compares_with_the_columns(files, model):
    """The scores of the sparse rows are those of the dense ones; other methods see them as dense columns."""
    command = ["evaluate", files / model, "--labels", files / "y.npy", "--json"]
    found, dense = (
        json.loads(run(*command[:2], files / name, *command[2:]))["results"] for name in ("X.npz", "D.npy")
    )
    assert len(found) >= 3
    for name in found:
        for score in ("accuracy", "balanced_accuracy"):
            if score in found[name]:
                assert found[name][score] == pytest.approx(dense[name][score], abs=0.03)
    assert max(scores["accuracy"] for scores in found.values()) > 0.6


@pytest.mark.parametrize("model", ["model", "machine"])
def test_evaluate_leaves_columns_out_that_are_too_many(files, model, monkeypatch):
    monkeypatch.setattr("krepes.cli.memory_needed.MOST_DENSE_BYTES", 1000)
    text = words(run("evaluate", files / model, files / "X.npz", "--labels", files / "y.npy", "--baselines"))
    assert f"rows of {WIDTH} sparse columns take" in text
    assert "raw features, linear probe" not in text


@pytest.mark.parametrize("model", ["machine", "process"])
def test_predict_agrees_with_dense_rows(files, tmp_path, model):
    for name in ("X.npz", "small.npz", "D.npy"):
        run("predict", files / model, files / name, "-o", tmp_path / f"{name}.csv", "--proba")
    found, packed, dense = (pc.read_csv(tmp_path / f"{name}.csv") for name in ("X.npz", "small.npz", "D.npy"))
    assert found.equals(packed)
    assert found.column_names == ["prediction", "p_a", "p_b"]
    np.testing.assert_allclose(found["p_a"].to_numpy(), dense["p_a"].to_numpy(), atol=1e-5)
    labels = np.load(files / "y.npy")
    assert np.mean(found["prediction"].to_numpy(zero_copy_only=False) == labels) > 0.7


def test_detect_agrees_with_dense_rows(files, tmp_path):
    for name in ("X.npz", "D.npy"):
        run("detect", files / "detector", files / name, "-o", tmp_path / f"{name}.csv")
    found, dense = (pc.read_csv(tmp_path / f"{name}.csv") for name in ("X.npz", "D.npy"))
    np.testing.assert_allclose(found["score"].to_numpy(), dense["score"].to_numpy(), atol=1e-5)


@pytest.mark.parametrize("model", ["model", "machine"])
def test_explain_names_landmarks_and_writes_a_page(files, tmp_path, model):
    text = words(run("explain", files / model, files / "X.npz", "--sample", 3))
    assert "Row 3: the landmarks span" in text or "Prediction: " in text
    assert "row " in text
    page = tmp_path / "page.html"
    run("explain", files / model, files / "X.npz", "-o", page)
    assert "<html" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "command",
    [
        ["cluster", "X.npz", "-k", 2, "-o", "c.csv"],
        ["reconstruct", "model", "X.npz", "-o", "r.npz"],
        ["align", "X.npz", "D.npy"],
    ],
    ids=lambda command: command[0],
)
def test_what_needs_dense_rows_says_so(files, tmp_path, command):
    given = [files / part if part in ("X.npz", "D.npy", "model") else part for part in command]
    given = [tmp_path / part if str(part).startswith(("c.", "r.")) else part for part in given]
    assert "TruncatedSVD" in words(run(*given, code=1))
