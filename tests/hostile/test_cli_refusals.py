"""What the command line refuses, what it says then, and that nothing broken is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from krepes import KernelEmbedding
from krepes.cli.app import app

SMALL = ["--n-landmarks", "20", "--n-components", "3"]
rng = np.random.default_rng(0)


def run(*arguments: object, code: int) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    assert "Traceback" not in result.output
    return " ".join(result.output.replace("│", " ").split())  # boxes and line breaks do not matter


@pytest.fixture
def folder(tmp_path) -> Path:
    """A data set, labels, a model, and things that are none of these."""
    X = rng.normal(size=(60, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X, y=np.arange(60) % 2, parts=np.array(["train", "other"] * 30))
    (tmp_path / "t.csv").write_text(
        "a,b,label\n" + "".join(f"{i % 7},{i % 3},{'xy'[i % 2]}\n" for i in range(60))
    )
    KernelEmbedding(3, n_landmarks=20, random_state=0).fit(X).save(tmp_path / "m.krepes")
    (tmp_path / "foreign.krepes").write_bytes(b"not a model")
    (tmp_path / "cut.krepes").write_bytes((tmp_path / "m.krepes").read_bytes()[:500])
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit nothing.csv -o new", "There is no file or folder nothing.csv"),
        ("fit empty -o new", "neither Parquet, CSV or .npy files nor images"),
        ("fit x.npy -o empty/none/new", "does not exist; create it first"),
        ("fit x.npy -o empty", "is a folder"),
        ("fit x.npz --array Q -o new", "--array"),
        ("fit x.npz --label z -o new", "It has the arrays X, y, parts"),
        ("fit x.npy --exclude a -o new", "--exclude is for the columns of a table"),
        ("fit x.npy --size 8 -o new", "for folders of images"),
        ("fit t.csv --label lable -o new", "Did you mean 'label'?"),
        ("fit t.csv --exclude a --exclude b --label label -o new", "No column is left"),
        ("fit x.npy --set loss__redundancy=-1 --loss barlow_twins -o new", "redundancy"),
        ("fit x.npy --device abacus -o new", "cannot be used here"),
        ("fit x.npy --set dtype=float16 -o new", "float16"),
        ("fit x.npy --preprocess wash -o new", "(--preprocess)"),
        ("fit x.npy --kernel gaussian --set kernel__lengthscale=wide -o new", "lengthscale='wide'"),
        ("transform nothing.krepes x.npy -o new.npy", "There is no file or folder nothing.krepes"),
        ("transform foreign.krepes x.npy -o new.npy", "is not a krepes model"),
        ("transform cut.krepes x.npy -o new.npy", "is not a krepes model, or it was cut short"),
        ("transform empty x.npy -o new.npy", "folder"),
        ("transform m.krepes x.npy -o new.csv --keep id", "has no columns"),
        ("transform m.krepes t.csv -o new.npy", "The model was fitted on vectors, 4 features"),
        ("reconstruct m.krepes t.csv -o new.npy", "The model was fitted on vectors, 4 features"),
        (
            "reconstruct m.krepes x.npy -o new.npy --learn-from gone.npy",
            "There is no file or folder gone.npy",
        ),
        ("evaluate m.krepes x.npy", "comes without labels"),
        (
            "evaluate m.krepes x.npy --label y",
            "labels=FILE.npy",
        ),
        ("evaluate m.krepes x.npz --label Q", "Q"),
        ("evaluate m.krepes x.npz --labels x.txt", "expected an .npy file"),
        (
            "evaluate m.krepes x.npz --split parts",
            "every row must say 'train' or 'test'; found 'train', 'other'",
        ),
        ("evaluate m.krepes x.npy --labels x.npz --split s", "has no columns"),
        ("evaluate m.krepes x.npz --n-train 60", "expected a number below the 60 rows"),
        ("evaluate m.krepes x.npz --label X", "expected one for each of the 60 rows"),
        ("evaluate m.krepes x.npz --label-counts 500,600", "label_counts=[500, 600]: there are 48 labels"),
        ("evaluate m.krepes x.npz --scoring neg_mean_gamma_deviance", "does not fit these labels"),
        ("evaluate m.krepes x.npz --scoring neg_log_loss --classifier svm", "(--scoring, --classifier)"),
        ("evaluate m.krepes x.npz --label parts --task regression", "holds text"),
        ("evaluate m.krepes x.npz --task regression --knn", "--knn is for classes"),
        ("evaluate m.krepes x.npz --task regression --scoring f1", "does not fit these labels"),
        ("info t.csv", "is not a krepes model"),
    ],
)
def test_errors_say_what_is_wrong(folder, monkeypatch, arguments, message):
    """One line, no traceback, exit code 1, and no file more or less than before."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    assert message in run(*arguments.split(), code=1)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit x.npy", "--output"),
        (
            "fit x.npy -o new --kernel gausian",
            "Did you mean 'gaussian'? Known names: ",
        ),
        ("fit x.npy -o new --loss margin", "Known names: autoencoder, barlow_twins"),
        ("fit x.npy -o new --set loss", "expected NAME=VALUE"),
        ("fit x.npy -o new --n-components 0", "--n-components"),
        ("fit x.npy -o new --size large", "--size large: expected a number of pixels"),
        ("fit x.npy -o new --set kernel__width=3 --kernel gaussian", "Invalid parameter 'width'"),
        ("fit x.npy -o new --set width=3", "width is not a parameter of KernelEmbedding. It has device"),
        ("transform m.krepes x.npy -o new.xlsx", "output=new.xlsx: expected a name that ends in .npy"),
        (
            "transform m.krepes t.csv -o new.npy --keep label",
            "keep= needs a file with room for other columns",
        ),
        ("cluster t.csv -o new.npy --keep label", "because .npy is one array"),
        ("evaluate m.krepes x.npz --classifier tree", "expected logistic, svm"),
        ("evaluate m.krepes x.npz --label-fraction 10", "expected a share > 0 and <= 1"),
        ("evaluate m.krepes x.npz --n-train 5 --split s", "only one of --split, --n-train and --test"),
        ("evaluate m.krepes x.npz --label-counts 0,50", "expected numbers of at least 2"),
        ("evaluate m.krepes x.npz --label-counts many", "--label-counts many: expected numbers"),
        ("evaluate m.krepes x.npz --label-counts ,", "expected numbers of at least 2"),
        ("evaluate m.krepes x.npz --figure curve.png", "--label-counts: give both"),
        ("evaluate m.krepes x.npz --label-counts 9 --figure curve.txt", "ends in .png, .pdf, .svg"),
        ("evaluate m.krepes x.npz --scoring roc_acu", "Did you mean roc_auc"),
        ("evaluate m.krepes x.npz --task ranking", "expected auto, classification, regression"),
        ("melt", "No such command"),
        ("demo --threads 0", "--threads"),
    ],
)
def test_wrong_usage_is_exit_code_2(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    assert message in run(*arguments.split(), code=2)


def test_labels_that_are_no_classes_are_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    np.savez(
        "q.npz", X=np.load("x.npy"), y=np.linspace(0, 1, 60), one=np.ones(60, dtype=int), ids=np.arange(60)
    )
    classes = ("--task", "classification")
    text = run("evaluate", "m.krepes", "q.npz", *classes, code=1)
    assert "The label array 'y' holds numbers with fractions" in text
    assert "looks like an identifier" in run(
        "evaluate", "m.krepes", "q.npz", "--label", "ids", *classes, code=1
    )
    assert "has a single class, 1" in run("evaluate", "m.krepes", "q.npz", "--label", "one", code=1)
    assert "looks like an identifier" in run("evaluate", "m.krepes", "q.npz", "--label", "ids", code=1)


def test_nothing_is_overwritten_without_force_and_no_work_is_done_before(folder, monkeypatch):
    """The refusal comes before the data are even opened."""
    monkeypatch.chdir(folder)
    (folder / "kept.npy").write_text("precious")
    (folder / "krepes-demo").mkdir()
    (folder / "krepes-demo" / "digits.png").write_text("precious")
    monkeypatch.setattr("krepes.sources.open_source", lambda *_, **__: pytest.fail("the data were opened"))
    for arguments in (
        f"fit x.npy -o kept.npy {' '.join(SMALL)}",
        "transform m.krepes x.npy -o kept.npy",
        "reconstruct m.krepes x.npy -o kept.npy",
        "evaluate m.krepes x.npz -o kept.npy",
        "demo",
    ):
        assert "exists already; choose another name, or allow overwriting" in run(*arguments.split(), code=1)
    assert (folder / "kept.npy").read_text() == "precious"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    run("transform", "m.krepes", "x.npy", "-o", "kept.npy", "--force", code=0)
    assert np.load("kept.npy").shape == (60, 3)


def test_a_full_disk_and_too_little_memory_are_seen_first(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100})())
        for arguments in ("fit x.npy -o new", "transform m.krepes x.npy -o new.npy"):
            assert "only 100 B are free" in run(*arguments.split(), code=1)
    with monkeypatch.context() as patch:
        patch.setattr("krepes.cli.memory_needed.available_memory", lambda: 10_000)
        text = run("fit", "x.npy", "-o", "new", "--n-landmarks", 50, code=1)
        assert "50 landmarks need at least 160 kB of memory" in text
        assert "--n-landmarks" in text
        patch.setattr("krepes.cli.memory_needed.available_memory", lambda: 1_000)
        assert "--label-fraction" in run("evaluate", "m.krepes", "x.npz", code=1)
    assert not (folder / "new").exists()


def interrupted(how):
    """An iterator of representations that is stopped after its first batch."""

    def iter_transform(self, X, batch_rows=None):
        yield np.zeros((10, 3), dtype=np.float32)
        how()

    return iter_transform


def raise_interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("ending", ["npy", "npz", "parquet", "csv"])
def test_an_interrupted_transform_leaves_nothing(folder, monkeypatch, ending):
    monkeypatch.chdir(folder)
    (folder / f"old.{ending}").write_text("old")
    before = sorted(folder.iterdir())
    monkeypatch.setattr(KernelEmbedding, "iter_transform", interrupted(raise_interrupt))
    for name in (f"new.{ending}", f"old.{ending}"):
        text = run("transform", "m.krepes", "x.npy", "-o", name, "--force", code=130)
        assert "Stopped. No output was written" in text
    assert sorted(folder.iterdir()) == before
    assert (folder / f"old.{ending}").read_text() == "old"


def test_a_terminated_transform_leaves_nothing(folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    monkeypatch.setattr(
        KernelEmbedding, "iter_transform", interrupted(lambda: os.kill(os.getpid(), signal.SIGTERM))
    )
    run("transform", "m.krepes", "x.npy", "-o", "new.npy", code=128 + signal.SIGTERM)
    assert sorted(folder.iterdir()) == before


def test_ctrl_c_in_the_middle_of_a_fit(tmp_path):
    """A real interrupt during the pass: exit code 130, a word to the user, and no file."""
    np.save(tmp_path / "x.npy", rng.normal(size=(300_000, 16)).astype(np.float32))
    arguments = ["fit", "x.npy", "-o", "new.krepes", "--n-landmarks", "1000", "--threads", "1"]
    program = "from krepes.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert (
            "300,000" in process.stdout.readline()
        )  # the data are open; the pass takes far longer than this
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Stopped" in errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_verbose_shows_where_an_error_arose(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["info", "foreign.krepes", "--verbose"])
    assert result.exit_code == 1
    assert "Traceback" in result.output


def test_errors_go_to_standard_error(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["info", "foreign.krepes"])
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
