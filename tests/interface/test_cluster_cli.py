"""`krepes cluster`: files in, clusters out."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from command_line import run as command
from command_line import words
from krepes.clustering import SubspaceClustering

run = partial(command, "cluster")


@pytest.fixture
def planes(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = rng.uniform(0.5, 1.5, (80, 4)) * np.where(y[:, None] == 0, [1, 1, 0, 0], [0, 0, 1, 1])
    np.savez(tmp_path / "planes.npz", X=X, y=y)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(y, "b", "a"))
    frame.to_csv(tmp_path / "planes.csv", index=False)
    return tmp_path


def read(path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".npz":
        return np.load(path)["cluster"]
    return (pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path))["cluster"].to_numpy()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", ".npz"])
def test_every_output_holds_the_clusters(planes, suffix):
    output = planes / f"clusters{suffix}"
    text = run(planes / "planes.npz", "-k", 2, "-o", output, "--label", "y", "--set", "n_iterations=2")
    assert "NMI 1.000" in text
    assert adjusted_rand_score(np.repeat([0, 1], 40), read(output)) == pytest.approx(1.0)
    assert "exists" in run(planes / "planes.npz", "-k", 2, "-o", output, code=1)


def test_a_table_its_label_is_no_feature(planes):
    output = planes / "clusters.csv"
    text = run(planes / "planes.csv", "-k", 2, "-o", output, "--label", "kind", "--exclude", "a")
    assert "agreement with labels" in text
    assert len(read(output)) == 80


def test_the_figure_is_drawn(planes):
    figure = planes / "iterations.png"
    run(planes / "planes.npz", "-k", 2, "-o", planes / "c.npy", "--figure", figure, "--set", "n_iterations=1")
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_parameters_reach_the_estimator(planes):
    common = [planes / "planes.npz", "-k", 2, "-o", planes / "c.npy", "--force"]
    assert "filter=-1" in run(*common, "--set", "projection__filter=-1", code=1)
    assert "Did you mean 'ridge'?" in run(*common, "--coding", "rigde", code=2)
    assert "iteration" in run(
        *common, "--coding", "matching-pursuit", "--set", "projection=None", "--set", "truncation=None"
    )
    assert "estimated" in run(planes / "planes.npz", "-o", planes / "c.npy", "--force")


@pytest.mark.parametrize("verb", ["info", "serve", "predict"])
def test_commands_for_other_models_say_what_saved_clusters_are_for(planes, verb, monkeypatch):
    """Raw errors, or the advice to use the command that was used."""
    monkeypatch.chdir(planes)
    SubspaceClustering(2, n_iterations=1).fit(np.load("planes.npz")["X"]).save("c.krepes")
    more = ["planes.npz", "-o", "p.csv"] if verb == "predict" else []
    said = words(command(verb, "c.krepes", *more, code=1))
    assert "SubspaceClustering" in said
    assert "krepes.load('c.krepes').predict(X)" in said
