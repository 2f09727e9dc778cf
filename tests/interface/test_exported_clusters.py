"""New rows get the cluster from an ONNX file that `predict` gives them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from command_line import run as command
from command_line import words
from exported_models import outputs_of, scored
from krepes.clustering import SubspaceClustering
from refusals import refuses

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

X = load_digits().data[:240]
SETTINGS = [
    {"coding": "ridge"},
    {"normalization": "affine", "kernel": "linear"},
    {"kernel": "polynomial"},
    {"n_landmarks": 60},
    {"truncation": None},
    {"normalization": "global"},
    {"n_clusters": 1, "coding": "ridge"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_new_rows_get_the_same_cluster(settings, tmp_path):
    model = SubspaceClustering(**{"n_clusters": 4, "n_iterations": 1, "random_state": 0} | settings).fit(
        X[:120]
    )
    rows = np.concatenate([X, np.zeros((1, 64))])
    found = scored(model, {"X": rows}, tmp_path / "clusters.onnx")["label"]
    assert found.tolist() == model.predict(rows).tolist()
    assert len(set(found)) == model.n_clusters_


def test_the_command_writes_the_encoder_of_a_table_too(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.repeat(["a", "b"], 40)
    at = rng.normal(size=80) + np.where(kind == "a", -4, 4)
    pd.DataFrame({"kind": kind, "at": at}).to_csv(tmp_path / "rows.csv", index=False)
    run = partial(command, "cluster", tmp_path / "rows.csv", "-k", 2, "-o", tmp_path / "clusters.csv")
    run("--onnx", tmp_path / "clusters.onnx", "--set", "n_iterations=1", "--coding", "ridge")
    feeds = {"kind": kind.astype(object)[:, None], "at": at[:, None]}
    found = outputs_of(tmp_path / "clusters.onnx", feeds)["label"]
    assert found.tolist() == pd.read_csv(tmp_path / "clusters.csv")["cluster"].tolist()


def test_a_saved_clustering_is_exported_and_nothing_else(tmp_path):
    model = SubspaceClustering(4, coding="ridge", n_iterations=1, random_state=0).fit(X[:120])
    saved = tmp_path / "clusters.krepes"
    model.save(saved)
    assert "SubspaceClustering" in command("export", saved, "-o", tmp_path / "clusters.onnx")
    assert outputs_of(tmp_path / "clusters.onnx", {"X": X})["label"].tolist() == model.predict(X).tolist()
    for wrong in (["-o", tmp_path / "page.html"], ["-o", tmp_path / "c.onnx", "--confidence", "0.9"]):
        assert "Clusters are written as ONNX files" in words(command("export", saved, *wrong, code=1))
    assert "ends in .onnx" in words(command("export", saved, "-o", tmp_path / "clusters.pt", code=1))
    assert "holds a SubspaceClustering" in words(command("serve", saved, code=1))


def test_codings_without_coefficients_are_refused_by_name(tmp_path):
    model = SubspaceClustering(4, coding="neighbours", random_state=0).fit(X[:120])
    with refuses(ValueError, "Neighbours", "coding='ridge'"):
        model.to_onnx(tmp_path / "clusters.onnx")
