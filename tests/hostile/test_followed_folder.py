"""A followed folder: every file once, also where the process is killed at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import run, words
from krepes import KernelEmbedding, load
from krepes.streams import Follower
from krepes.views import Tabular

FILES, ROWS = 6, 150
rng = np.random.default_rng(0)
frame = pd.DataFrame(rng.normal(size=(FILES * ROWS, 3)), columns=list("abc")).assign(
    d=rng.choice(["yes", "no"], size=FILES * ROWS)
)
parts = [frame[i * ROWS : (i + 1) * ROWS] for i in range(FILES)]
SETTINGS = {"views": Tabular(n_views=2), "n_landmarks": 30, "dtype": "float64", "random_state": 0}
OPTIONS = [
    "--views",
    "tabular",
    "--n-landmarks",
    "30",
    "--set",
    "dtype=float64",
    "--n-components",
    "3",
    "--poll",
    "0.1",
]


def put(folder: Path, name: str, part: pd.DataFrame, old: bool = True) -> Path:
    """A file that was renamed in, or one that was written just now."""
    part.to_parquet(folder / name)
    if old:
        os.utime(folder / name, (time.time() - 60, time.time() - 60))
    return folder / name


def one_fit(n_files: int = FILES) -> KernelEmbedding:
    """The same rows in one model, without a folder: the first file fixes the space."""
    return KernelEmbedding(3, **SETTINGS).partial_fit(parts[0]).partial_fit(frame[ROWS : n_files * ROWS])


def same(model: KernelEmbedding, expected: KernelEmbedding) -> bool:
    first, second = model.transform(frame), expected.transform(frame)
    return np.abs(first @ first.T - second @ second.T).max() < 1e-8 * np.abs(second @ second.T).max()


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    for i, part in enumerate(parts):
        put(place, f"part-{i}.parquet", part)
    return place


def command(folder: Path, output: Path, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "krepes",
        "fit",
        "--follow",
        str(folder),
        "-o",
        str(output),
        *OPTIONS,
        *more,
    ]


def test_a_folder_is_one_fit_and_is_absorbed_once(folder, tmp_path):
    output = tmp_path / "m.krepes"
    printed = run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS)
    assert "6 files absorbed, 0 set aside; 900 rows" in words(printed)
    assert same(load(output), one_fit())
    assert "0 files absorbed" in words(run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS))
    assert load(output).n_samples_seen_ == 900
    put(folder, "part-9.parquet", parts[0])
    assert "part-9.parquet: 150 rows" in words(
        run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS)
    )


def test_files_that_cannot_be_read_are_named_set_aside_and_tried_again(folder, tmp_path):
    output = tmp_path / "m.krepes"
    (folder / "part-1.parquet").write_bytes(b"PAR1 but not quite")
    put(folder, "part-3.parquet", parts[3].rename(columns={"a": "other"}))
    (folder / "part-7.csv").write_text("a,b\n1")
    (folder / ".hidden.parquet").write_text("x")
    (folder / "arriving.parquet.tmp").write_text("x")
    (folder / "notes.txt").write_text("x")
    (folder / "deeper.parquet").mkdir()
    for file in folder.iterdir():
        os.utime(file, (1e9, 1e9))
    printed = words(run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS))
    assert "4 files absorbed, 3 set aside; 600 rows" in printed
    ledger = load(output).tally_.files
    assert {name for name, entry in ledger.items() if entry["problem"]} == {
        "part-1.parquet",
        "part-3.parquet",
        "part-7.csv",
    }
    assert "'a'" in ledger["part-3.parquet"]["problem"]
    put(folder, "part-1.parquet", parts[1])
    printed = words(run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS))
    assert "1 files absorbed, 2 set aside; 750 rows" in printed


def test_a_file_that_changes_after_it_was_absorbed_is_not_counted_again(folder, tmp_path):
    output = tmp_path / "m.krepes"
    run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS)
    put(folder, "part-2.parquet", parts[0][:10])
    printed = words(run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS))
    assert "part-2.parquet has changed since it was absorbed" in printed
    assert load(output).n_samples_seen_ == 900


def test_a_file_counts_when_it_is_at_rest(tmp_path):
    """A file that is written now is left alone until its size and time stay; one that was renamed in is not."""
    (tmp_path / "in").mkdir()
    follower = Follower(tmp_path / "in", KernelEmbedding(3, **SETTINGS), tmp_path / "m.krepes", poll=30)
    put(tmp_path / "in", "old.parquet", parts[0])
    put(tmp_path / "in", "new.parquet", parts[1], old=False)
    assert not follower._round()
    assert list(follower.ledger) == ["old.parquet"]
    put(tmp_path / "in", "new.parquet", parts[2], old=False)  # it grows
    assert not follower._round()
    assert list(follower.ledger) == ["old.parquet"]
    assert follower._round()
    assert follower.ledger["new.parquet"] == follower.ledger["new.parquet"] | {"first_row": 150, "rows": 150}


def test_sums_and_ledger_are_replaced_together(folder, tmp_path, monkeypatch):
    """An interruption inside the reading of a file leaves it out of both, and the model is written."""
    follower = Follower(folder, KernelEmbedding(3, **SETTINGS), tmp_path / "m.krepes", poll=0.1)
    original, calls = KernelEmbedding.partial_fit, []

    def interrupted(self, *args, **given):
        original(self, *args, **given)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(KernelEmbedding, "partial_fit", interrupted)
    done = follower.run()
    assert done.stopped
    assert done.absorbed == ("part-0.parquet", "part-1.parquet")
    monkeypatch.undo()
    model = load(tmp_path / "m.krepes")
    assert model.n_samples_seen_ == 300
    assert list(model.tally_.files) == list(done.absorbed)
    assert same(model, one_fit(2))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_writes_the_model(folder, tmp_path, how):
    output = tmp_path / "m.krepes"
    process = subprocess.Popen(command(folder, output), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not output.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    put(folder, "part-8.parquet", parts[0], old=False)
    while "part-8" not in process.stdout.readline():
        assert time.monotonic() < deadline
    process.send_signal(how)
    assert process.wait(timeout=30) == 0
    model = load(output)
    assert model.n_samples_seen_ == 1050
    assert len(model.tally_.files) == 7


def killed_at_random(folder: Path, output: Path, kills: int, seed: int) -> int:
    """Kill the command by its process id, half of the times just after it has absorbed a file, while files arrive.

    After every kill the model on disk is whole, and knows its files. Returns how many were killed.
    """
    generator, killed, size = np.random.default_rng(seed), 0, len(frame) // (kills + 1)
    base = ["--base", str(folder.parent / "base.krepes")]
    start = [
        sys.executable,
        "-m",
        "krepes",
        "fit",
        "--follow",
        str(folder),
        "-o",
        str(output),
        "--poll",
        "0.1",
        *base,
    ]
    for i in range(kills + 1):
        stop = (i + 1) * size if i < kills else len(frame)
        for place, rows in enumerate(np.array_split(np.arange(i * size, stop), 3)):
            put(folder, f"{i:03}-{place}.parquet", frame.iloc[rows])
        if i == kills:
            break
        process = subprocess.Popen(
            [*start, "--once"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if i % 2 == 0:
            while ": " not in (process.stdout.readline() or ": "):
                pass
            time.sleep(float(generator.uniform(0, 0.1)))
        else:
            time.sleep(float(generator.uniform(0.5, 4.0)))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate(timeout=30)
        if output.exists():
            model = load(output)
            assert model.n_samples_seen_ == sum(entry["rows"] for entry in model.tally_.files.values())
    done = subprocess.run([*start, "--once"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return killed


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
def test_a_killed_process_counts_nothing_twice(tmp_path, kills):
    """Whatever the moment, a restart ends with the model of one fit."""
    folder, output = tmp_path / "in", tmp_path / "m.krepes"
    folder.mkdir()
    base = KernelEmbedding(3, **SETTINGS).fit(parts[0])
    base.save(tmp_path / "base.krepes")
    assert killed_at_random(folder, output, kills, seed=kills) >= kills // 2
    model = load(output)
    assert model.n_samples_seen_ == 900
    assert sorted(model.tally_.files) == sorted(file.name for file in folder.iterdir())
    assert same(model, base.empty_copy().partial_fit(frame))
    assert {path.name for path in tmp_path.iterdir()} == {"in", "m.krepes", "base.krepes"}


def test_a_stream_that_ages_is_one_stream(folder, tmp_path):
    output = tmp_path / "m.krepes"
    run("fit", "--follow", folder, "--once", "--half-life", 200, "-o", output, *OPTIONS)
    expected = KernelEmbedding(3, **SETTINGS).partial_fit(parts[0], half_life=200).partial_fit(frame[ROWS:])
    assert load(output).half_life_ == 200
    assert same(load(output), expected)


def test_a_followed_folder_may_start_from_a_base(folder, tmp_path):
    KernelEmbedding(3, **SETTINGS).fit(parts[4]).save(tmp_path / "base.krepes")
    output = tmp_path / "m.krepes"
    run("fit", "--follow", folder, "--once", "--base", tmp_path / "base.krepes", "--poll", 0.1, "-o", output)
    assert same(load(output), load(tmp_path / "base.krepes").empty_copy().partial_fit(frame))


def test_a_model_that_was_not_followed_is_not_overwritten(folder, tmp_path):
    output = tmp_path / "m.krepes"
    KernelEmbedding(3, **SETTINGS).fit(parts[4]).save(output)
    printed = run("fit", "--follow", folder, "--once", "-o", output, *OPTIONS, code=1)
    assert "was not written by --follow" in words(printed)
    assert load(output).n_samples_seen_ == ROWS


def test_a_follower_without_rows_says_that_it_wrote_nothing(tmp_path):
    """R22: it told how many rows were in a file that was not there."""
    (tmp_path / "in").mkdir()
    output = tmp_path / "m.krepes"
    printed = words(run("fit", "--follow", tmp_path / "in", "--once", "-o", output, *OPTIONS))
    assert "no rows" in printed
    assert "was not written" in printed
    assert not output.exists()


def test_wrong_use_is_refused(folder, tmp_path):
    output = tmp_path / "m.krepes"
    for more, message in (
        (["--once"], "--once is for --follow"),
        (["--first-row", "3"], "--first-row is for a part"),
        (["--half-life", "3"], "--half-life is for streams"),
    ):
        assert message in words(run("fit", folder / "part-0.parquet", "-o", output, *more, code=2))
    for more in (["--select"], ["--no-moments"], ["--sample-weight", "a"]):
        printed = words(run("fit", "--follow", folder, "--once", "-o", output, *more, code=2))
        assert f"{more[0]}: it does not go with --follow" in printed
    file = folder / "part-0.parquet"
    assert "is not a folder" in words(run("fit", "--follow", file, "--once", "-o", output, code=1))
