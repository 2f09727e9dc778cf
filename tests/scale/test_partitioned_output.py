"""Results as a folder of Parquet files: whole or not there, none twice, and an interrupted run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from krepes import KernelEmbedding
from krepes.base.storage.files import _prefix
from krepes.engines import Local
from krepes.machines import KernelRidgeClassifier
from krepes.sources import open_source
from refusals import refuses

N = 500
_draws = np.random.default_rng(0)
X = _draws.normal(size=(N, 3))
FRAME = pd.DataFrame(X, columns=list("abc")).assign(name=[f"row {i}" for i in range(N)])
OPTIONS = {"n_landmarks": 30, "n_components": 3, "random_state": 0, "dtype": "float64"}
MODEL = KernelEmbedding(**OPTIONS, preprocess="auto").fit(FRAME[list("abc")])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rows").mkdir()
    for i in range(4):
        FRAME[i * 125 : (i + 1) * 125].to_parquet(tmp_path / "rows" / f"{i}.parquet")
    return str(tmp_path / "rows")


def written(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder)


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*.parquet")}


@pytest.mark.parametrize("engine", ["here", "cluster"])
def test_a_folder_holds_what_the_method_says(engine, folder, tmp_path, request):
    model = MODEL.without_engine()
    model.engine = None if engine == "here" else request.getfixturevalue("cluster")
    for method, width in (("transform", 3), ("coverage", 1)):
        found = model.write(folder, tmp_path / method, method, keep=["name"], rows_per_file=90)
        table = written(tmp_path / method)
        assert found.n_rows == len(table) == N
        assert found.n_files == len(files(tmp_path / method)) == 6
        assert table["name"].tolist() == FRAME["name"].tolist()
        expected = np.asarray(getattr(MODEL, method)(FRAME[list("abc")])).reshape(N, width)
        np.testing.assert_allclose(table.iloc[:, 1:].to_numpy(), expected, rtol=1e-9, atol=1e-10)
        assert (tmp_path / method / "_SUCCESS").exists()
        assert open_source(tmp_path / method).n_rows == N


def test_predictions_with_classes(folder, tmp_path, cluster):
    machine = KernelRidgeClassifier(n_landmarks=20, random_state=0).fit(FRAME[list("abc")], X[:, 0] > 0)
    machine.engine = cluster
    machine.write(folder, tmp_path / "predict", "predict", rows_per_file=200)
    machine.write(folder, tmp_path / "proba", "predict_proba", rows_per_file=200)
    assert np.array_equal(
        written(tmp_path / "predict")["z0"], machine.without_engine().predict(FRAME[list("abc")])
    )
    proba = machine.without_engine().predict_proba(FRAME[list("abc")])
    np.testing.assert_allclose(written(tmp_path / "proba").to_numpy(), proba, rtol=1e-9)


def test_what_is_there_is_not_written_again(folder, tmp_path, cluster):
    """Begun here, with a file missing and one cut short, and finished on a cluster: the others stay as they are."""
    out = tmp_path / "out"
    first = MODEL.write(folder, out, rows_per_file=90)
    before = files(out)
    gone, broken, *kept = sorted(before)
    (out / gone).unlink()
    (out / broken).write_bytes((out / broken).read_bytes()[:-30])
    (out / "_SUCCESS").unlink()
    there = MODEL.without_engine()
    there.engine = cluster
    again = there.write(folder, out, rows_per_file=10)  # the division of the first run stays
    assert again.n_files == first.n_files
    assert again.n_resumed == len(kept)
    after = files(out)
    assert set(after) == set(before)
    assert all(after[name] == before[name] for name in kept)
    np.testing.assert_allclose(
        written(out).to_numpy(), MODEL.transform(FRAME[list("abc")]), rtol=1e-8, atol=1e-10
    )


def test_other_results_are_not_mixed_in(folder, tmp_path):
    out = tmp_path / "out"
    MODEL.write(folder, out)
    other = MODEL.refit(n_components=2)
    with refuses(FileExistsError, "model"):
        other.write(folder, out)
    with refuses(FileExistsError, "number of rows, data"):
        MODEL.write(FRAME[list("abc")][:100], out)
    with refuses(FileExistsError, "columns"):
        MODEL.write(folder, out, keep=["name"])
    other.write(folder, out, overwrite=True)
    assert written(out).shape == (N, 2)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with refuses(FileExistsError, "files", "letter.txt"):
        MODEL.write(folder, tmp_path / "mine")


def test_a_run_killed_before_its_manifest_goes_on(folder, tmp_path):
    """R20: what is left then is the temporary folder of the manifest, whole or empty, of any machine."""
    out = tmp_path / "out"
    for name in (
        "._krepes.json.0badc0de.4194399-a.part",
        _prefix(out / "_krepes.json", "4194399-") + "b.part",
    ):
        (out / name).mkdir(parents=True)
    (out / name / "_krepes.json").write_text('{"identity"')
    assert MODEL.write(folder, out).n_rows == len(written(out)) == N


def test_a_method_that_is_not_there(tmp_path):
    with refuses(ValueError, "method='predict'", "KernelEmbedding", "'transform'", "'coverage'"):
        MODEL.write(FRAME[list("abc")], tmp_path / "out", "predict")


def test_a_changed_row_is_other_data(tmp_path):
    path = tmp_path / "x.parquet"
    FRAME.to_parquet(path)
    MODEL.write(path, tmp_path / "out")
    FRAME.assign(a=FRAME["a"] + 1).to_parquet(path)
    with refuses(FileExistsError, "data"):
        MODEL.write(path, tmp_path / "out")


class FullAfter(Local):
    """An engine on a disk that is full after some files."""

    def __init__(self, n_files: int):
        self.n_files = n_files

    def each(self, function, items):
        for i, item in enumerate(items):
            if i == self.n_files:
                raise OSError(28, "No space left on device")
            yield function(item)


def test_a_full_disk_keeps_what_is_finished(folder, tmp_path):
    out, model = tmp_path / "out", MODEL.without_engine()
    model.engine = FullAfter(2)
    with refuses(OSError, "No space left"):
        model.write(folder, out, rows_per_file=90)
    assert len(files(out)) == 2
    assert not (out / "_SUCCESS").exists()
    assert MODEL.write(folder, out, rows_per_file=90).n_resumed == 2
    assert len(written(out)) == N


def test_a_disk_that_is_really_full_names_the_file(tmp_path):
    """A file system of 64 kB, where one can be mounted: nothing half written is left."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        with refuses(OSError, "disk", "part-", "full"):
            MODEL.write(np.tile(X, (60, 1)), small / "out", rows_per_file=300)
        done = files(small / "out")
        assert done
        assert all(pq.read_metadata(small / "out" / name).num_rows for name in done)
        assert not list((small / "out").glob(".*"))
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("fault", ["unreadable", "schema", "nan"])
@pytest.mark.parametrize("engine", ["here", "cluster"])
def test_a_bad_partition_is_named_and_the_others_are_kept(fault, engine, tmp_path, request):
    """A file that changed after it was opened, or that holds NaN: the error names it."""
    (tmp_path / "rows").mkdir()
    for i in range(5):
        part = X[i * 100 : (i + 1) * 100].copy()
        if fault == "nan" and i == 3:
            part[50, 1] = np.nan
        np.save(tmp_path / "rows" / f"{i}.npy", part)
    model = KernelEmbedding(**OPTIONS).fit(X)
    model.engine = None if engine == "here" else request.getfixturevalue("cluster")
    source = open_source(tmp_path / "rows")
    bad = tmp_path / "rows" / "3.npy"
    if fault == "unreadable":
        bad.write_bytes(b"not an array")
    if fault == "schema":
        np.save(bad, X[300:400, :2])
    with refuses(ValueError, "rows/3.npy"):
        model.write(source, tmp_path / "out", rows_per_file=100)
    assert len(files(tmp_path / "out")) >= 3
    if fault == "nan":
        np.save(bad, X[300:400])
        with refuses(FileExistsError, "data"):
            model.write(open_source(tmp_path / "rows"), tmp_path / "out")


SLOW = """
import sys, time
import krepes
from krepes.sources import open_source
from krepes.engines import Local

class Slow(Local):
    def each(self, function, items):
        for item in items:
            yield function(item)
            time.sleep(0.1)

if __name__ == "__main__":
    model = krepes.load(sys.argv[1])
    model.engine = Slow()
    model.write(sys.argv[2], sys.argv[3], rows_per_file=25)
"""


def test_a_coordinator_that_is_killed_goes_on(folder, tmp_path):
    """SIGKILL in the middle; the same call finishes, and what was there stays as it was."""
    MODEL.save(tmp_path / "m.krepes")
    (tmp_path / "slow.py").write_text(SLOW)
    out = tmp_path / "out"
    command = [sys.executable, str(tmp_path / "slow.py"), str(tmp_path / "m.krepes"), folder, str(out)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while len(files(out)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = files(out)
    assert 3 <= len(before) < 20
    assert MODEL.write(folder, out, rows_per_file=25).n_resumed == len(before)
    after = files(out)
    assert len(after) == 20
    assert all(after[name] == stamp for name, stamp in before.items())
    assert not list(out.glob(".*"))
    np.testing.assert_allclose(
        written(out).to_numpy(), MODEL.transform(FRAME[list("abc")]), rtol=1e-8, atol=1e-10
    )
    assert json.loads((out / "_krepes.json").read_text())["edges"][-1] == N
