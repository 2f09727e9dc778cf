"""Files that commands write: whole or not there, never over an input, with the mode and place that they had."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

import krepes
from command_line import run, words
from krepes import KernelEmbedding, load
from krepes.base.storage import model_file
from krepes.base.storage.files import atomic_path, check_writable, remove_abandoned
from krepes.cli.terminal import harmless
from krepes.kernels import EmpiricalNTK
from krepes.landmarks import Uniform
from krepes.report import write_report
from krepes.solvers import SGD
from krepes.views import Tabular
from refusals import refuses, warns_of

X = load_iris().data
SMALL = {"n_components": 2, "n_landmarks": 12, "random_state": 0}
OPTIONS = ["--n-components", "2", "--n-landmarks", "12"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    return tmp_path


# R2, R3: checkpoints


def test_a_checkpoint_may_not_be_the_output_or_the_data(here):
    """R2: the finished model was deleted as a checkpoint that is not needed any more."""
    for other, message in (("s.krepes", "are both"), ("./s.krepes", "are both"), ("x.npy", "overwritten")):
        said = run("fit", "x.npy", "-o", "s.krepes", "--checkpoint", other, *OPTIONS, code=1)
        assert message in words(said)
        assert not Path("s.krepes").exists()
        assert np.array_equal(np.load("x.npy"), X)
    with refuses(ValueError, "x.npy", "file", "data"):
        KernelEmbedding(**SMALL).fit("x.npy", checkpoint="x.npy")
    with refuses(ValueError, "x.npy", "file", "data"):
        KernelEmbedding(**SMALL, loss="simclr").fit("x.npy", checkpoint=here / "x.npy")


def test_a_checkpoint_that_cannot_be_removed_loses_nothing(here, monkeypatch):
    """R3: a folder that has become read-only."""
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    unlink = Path.unlink

    def refused(self, missing_ok=False):
        if self.name == "state":
            raise PermissionError(errno.EROFS, "Read-only file system")
        return unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    for loss in ("spectral_contrastive", "simclr"):
        with warns_of(UserWarning, "removed"):
            model = KernelEmbedding(**SMALL, loss=loss).fit(X, checkpoint="state")
        assert np.isfinite(model.transform(X)).all()
        unlink(Path("state"))


def test_a_checkpoint_stays_until_the_solve_is_done(here, monkeypatch):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "0")
    with pytest.raises(KeyboardInterrupt):
        KernelEmbedding(**SMALL).fit(X, checkpoint="state", callback=_stop)
    assert Path("state").exists()
    KernelEmbedding(**SMALL).fit(X, checkpoint="state")
    assert not Path("state").exists()


def _stop(step, values):
    raise KeyboardInterrupt


def test_the_interval_of_checkpoints_is_checked(here, monkeypatch):
    monkeypatch.setenv("KREPES_CHECKPOINT_SECONDS", "often")
    with refuses(ValueError, "KREPES_CHECKPOINT_SECONDS='often'"):
        KernelEmbedding(**SMALL).fit(X, checkpoint="state")


# R8, R12: places and modes


def test_force_keeps_the_mode_and_follows_a_link(here):
    run("fit", "x.npy", "-o", "m.krepes", *OPTIONS)
    run("transform", "m.krepes", "x.npy", "-o", "z.npy")
    os.chmod("z.npy", 0o640)
    Path("link.npy").symlink_to("z.npy")
    before = os.stat("z.npy").st_ino
    run("transform", "m.krepes", "x.npy", "-o", "link.npy", "--force")
    assert Path("link.npy").is_symlink()
    assert stat.S_IMODE(os.stat("z.npy").st_mode) == 0o640
    assert os.stat("z.npy").st_ino != before


def test_devices_folders_and_pipes_are_refused_before_the_work(here):
    os.mkfifo("pipe")
    for target in ("/dev/null", "pipe", "."):
        with refuses(OSError, "file"):
            check_writable(target, overwrite=True)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    said = run("fit", "x.npy", "-o", "/dev/null", "--force", *OPTIONS, code=1)
    assert "device" in said


def test_inputs_and_models_in_use_are_not_overwritten(here):
    run("fit", "x.npy", "-o", "m.krepes", *OPTIONS)
    os.link("x.npy", "same.npy")
    Path("link.npy").symlink_to("x.npy")
    model = Path("m.krepes").read_bytes()
    for target in ("x.npy", "same.npy", "link.npy", "./x.npy"):
        said = run("transform", "m.krepes", "x.npy", "-o", target, "--force", code=1)
        assert "would be overwritten" in words(said)
    said = run("fit", "x.npy", "-o", "x.npy", "--force", *OPTIONS, code=1)
    assert "would be overwritten" in words(said)
    said = run("explain", "m.krepes", "x.npy", "-o", "m.krepes", "--force", code=1)
    assert "would be overwritten" in words(said)
    assert np.array_equal(np.load("x.npy"), X)
    assert Path("m.krepes").read_bytes() == model


def test_a_dangling_link_is_judged_before_the_fit(here):
    """R12: it was refused only after the fit; a link to a place that exists is as good as that place."""
    Path("nowhere").symlink_to("missing/m.krepes")
    with refuses(FileNotFoundError, "missing"):
        check_writable("nowhere")
    Path("new").symlink_to("m.krepes")
    run("fit", "x.npy", "-o", "new", *OPTIONS)
    assert Path("m.krepes").is_file()
    assert Path("new").is_symlink()


def test_models_and_reports_are_for_their_owner_only(here):
    """They hold rows of the data; other outputs follow the umask."""
    before = os.umask(0o022)
    try:
        model = KernelEmbedding(**SMALL).fit(X)
        model.save("m.krepes")
        write_report(model, X, "page.html")
        run("transform", "m.krepes", "x.npy", "-o", "z.npy")
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE(os.stat(name).st_mode) for name in ("m.krepes", "page.html", "z.npy")}
    assert modes == {"m.krepes": 0o600, "page.html": 0o600, "z.npy": 0o644}


def test_a_folder_with_a_default_of_its_own_decides(here, monkeypatch):
    monkeypatch.setattr("krepes.base.storage.files._has_default_access", lambda folder: True)
    before = os.umask(0o022)
    try:
        KernelEmbedding(**SMALL).fit(X).save("m.krepes")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("m.krepes").st_mode) == 0o644


def test_temporary_files_of_dead_runs_are_removed(here):
    """R12: a killed process leaves one; the next write to the same place removes it, and leaves those of the living."""
    code = (
        "import time, sys\nfrom krepes.base.storage.files import atomic_path\n"
        "with atomic_path('m.krepes') as path:\n    path.write_text('half'); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    (abandoned,) = Path().glob(".m.krepes.*.part")
    (abandoned / ".tmp1234").touch()  # a library's own
    remove_abandoned(here / "m.krepes")
    assert abandoned.exists()  # its process lives
    process.send_signal(signal.SIGKILL)
    process.wait()
    with atomic_path("m.krepes") as path:
        path.write_text("whole")
    assert not abandoned.exists()
    assert Path("m.krepes").read_text() == "whole"


def test_a_checkpoint_is_not_a_model(here):
    model_file.write("c", "Checkpoint", {})
    with refuses(ValueError, "checkpoint="):
        krepes.load("c")


def test_a_full_disk_is_named(here, monkeypatch):
    model = KernelEmbedding(**SMALL).fit(X)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with refuses(OSError, "m.krepes", "disk", "full"):
        model.save("m.krepes")
    assert sorted(p.name for p in here.iterdir()) == ["x.npy"]


# R4, R12: limits and terminals


def test_absurd_numbers_of_threads_are_refused(here):
    said = run("fit", "x.npy", "-o", "m.krepes", "--threads", "100000", *OPTIONS, code=1)
    assert "processors" in said
    assert not Path("m.krepes").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": Tabular(n_views=10**7)}, ("n_views=10000000", "1024")),
        ({"landmarks": Uniform(views_per_landmark=10**7)}, "1024"),
        ({"kernel": EmpiricalNTK("mlp", method="sketch", sketch_size=2**40)}, ("2", "1,048,576")),
        ({"loss": "simclr", "solver": SGD(replays=10**9)}, "10000"),
    ],
)
def test_absurd_sizes_are_refused(settings, message):
    """R4: what would run for years, or take all memory."""
    with refuses(ValueError, message):
        KernelEmbedding(**SMALL, **settings).fit(X)


@pytest.mark.parametrize("first_row", [-1, 2**70, 1.5, "0"])
def test_absurd_row_indices_are_refused(first_row):
    with refuses(ValueError, "first_row="):
        KernelEmbedding(**SMALL).partial_fit(X, first_row=first_row)
    with refuses(ValueError, "batch_rows", "1"):
        next(KernelEmbedding(**SMALL).fit(X).iter_transform(X, batch_rows=0))


def test_names_cannot_give_orders_to_the_terminal(here):
    """R12, R22: column names and labels with escape sequences, in tables, warnings, errors and tracebacks."""
    evil = "\x1b[2J\x1b]0;owned\x07"
    rows = "\n".join(f"{i % 7},{i % 5}" for i in range(40))
    Path("t.csv").write_text(f"a{evil},target{evil}\n{rows}\n")
    Path("other.csv").write_text(f"b{evil},c{evil}\n{rows}\n")
    for arguments in (
        ("fit", "t.csv", "-o", "m.krepes", *OPTIONS),
        ("info", "m.krepes"),
        ("fit", "t.csv", "--label", f"no{evil}", "-o", "n.krepes", *OPTIONS),
        ("transform", "m.krepes", "other.csv", "-o", "z.npy", "--verbose"),
    ):
        code = "from krepes.cli import main; main()"
        environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        for printed in (done.stdout, done.stderr):
            assert "\x1b[2J" not in printed
            assert "\x1b]0;" not in printed
            assert "\x07" not in printed
    assert harmless("plain text\nand\ttabs ü 漢") == "plain text\nand\ttabs ü 漢"


def test_a_model_in_use_can_be_replaced_by_a_new_one(here):
    """Whoever reads the old file goes on reading it: the new one takes its name, not its bytes."""
    run("fit", "x.npy", "-o", "m.krepes", *OPTIONS)
    model = load("m.krepes")
    before = model.transform(X)
    time.sleep(0.01)
    run("fit", "x.npy", "-o", "m.krepes", "--force", "--seed", "5", *OPTIONS)
    assert np.array_equal(model.transform(X), before)
