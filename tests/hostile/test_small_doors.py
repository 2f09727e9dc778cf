"""R22: small doors: pipes, names that are paths, hashes, URLs, commands to paste, temporaries of other containers."""

from __future__ import annotations

import hashlib
import os
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import krepes
from krepes import KernelEmbedding
from krepes.base.storage import files
from krepes.base.storage.checkpoint import remove_checkpoint
from krepes.cli.app import app
from krepes.results import write_rows
from krepes.sources import open_source
from krepes.sources.tables.frames import mapping_source
from refusals import refuses

X = np.random.default_rng(0).normal(size=(300, 4))
MODEL = KernelEmbedding(3, n_landmarks=50, random_state=0).fit(X)


def test_a_loaded_model_has_the_same_bits(tmp_path):
    """R22: also in the features, whose products depend on strides."""
    MODEL.save(tmp_path / "m.krepes")
    loaded = krepes.load(tmp_path / "m.krepes")
    here, there = (model.space_.features.F for model in (MODEL, loaded))
    assert here.stride() == there.stride()
    assert np.array_equal(MODEL.transform(X), loaded.transform(X))


def test_a_hash_that_the_file_must_have(tmp_path):
    """R22."""
    path = tmp_path / "m.krepes"
    MODEL.save(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert krepes.load(path, sha256=found.upper()).n_components == 3
    with refuses(ValueError, "m.krepes", found, "0" * 64):
        krepes.load(path, sha256="0" * 64)


def test_pipes_do_not_hang(tmp_path):
    """R22: as a model, and among the files of a folder."""
    os.mkfifo(tmp_path / "pipe.csv")
    with refuses(ValueError, "pipe"):
        krepes.load(tmp_path / "pipe.csv")
    with refuses(ValueError, "pipe.csv"):
        open_source(tmp_path / "pipe.csv")
    pd.DataFrame({"a": [1.0, 2.0]}).to_csv(tmp_path / "rows.csv", index=False)
    assert open_source(tmp_path).n_rows == 2


@pytest.mark.parametrize("name", ["../../../x", "/x", ".x", "a\\b", "C:x"])
def test_members_of_an_archive_are_names(name, tmp_path):
    """R22: unpacked, they would be files elsewhere; a table may have such columns."""
    kept = mapping_source({name: ["a", "b"]})
    with refuses(ValueError, name, ".npz"):
        write_rows(tmp_path / "out.npz", [np.zeros((2, 1))], 2, 1, keep=kept)
    write_rows(tmp_path / "out.parquet", [np.zeros((2, 1))], 2, 1, keep=kept)


def test_temporaries_of_another_container_stay(tmp_path, monkeypatch):
    """R22: the same host name and another space of process numbers."""
    target = tmp_path / "x"
    monkeypatch.setattr(files, "_process_space", lambda: "another")
    other = tmp_path / (files._prefix(target, "4194399-") + "a.part")
    monkeypatch.undo()
    mine = tmp_path / (files._prefix(target, "4194399-") + "a.part")
    for folder in (other, mine):
        folder.mkdir()
    files.remove_abandoned(target)
    assert other.exists()
    assert not mine.exists()


def test_the_temporary_of_a_killed_checkpoint_goes_with_the_checkpoint(tmp_path):
    """A start that is too short to write a checkpoint again."""
    path = tmp_path / "fit.checkpoint"
    left = tmp_path / (files._prefix(path, "4194399-") + "a.part")
    left.mkdir()
    remove_checkpoint(path)
    assert not left.exists()


def test_urls_and_commands_to_paste(tmp_path, monkeypatch):
    """R22: a URL keeps its slashes, and the next command its words."""
    monkeypatch.chdir(tmp_path)
    rows, model = tmp_path / "my $(rows).csv", "my; model.krepes"
    pd.DataFrame(X, columns=list("abcd")).to_csv(rows, index=False)
    done = CliRunner().invoke(app, ["fit", str(rows), "-o", model, "--n-landmarks", "20"])
    assert done.exit_code == 0, done.output
    following = next(line for line in done.output.splitlines() if line.startswith("Next: "))
    assert shlex.split(following)[1:5] == ["krepes", "transform", model, str(rows)]
    pd.DataFrame(X, columns=list("abcd")).to_csv(tmp_path / "rows.csv", index=False)
    url = f"file://{tmp_path}/rows.csv"
    done = CliRunner().invoke(app, ["fit", url, "-o", "url.krepes", "--n-landmarks", "20"])
    assert done.exit_code == 0, done.output
