"""What a search refuses, what it says then, and that no study and no other file is harmed by it."""

from __future__ import annotations

import errno
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from krepes import KernelEmbedding
from krepes.cli.app import app
from krepes.evaluation import Search, search
from krepes.solvers import SGD
from labels import label
from refusals import refuses

optuna = pytest.importorskip("optuna")

X, y = load_iris(return_X_y=True)
X = X.astype(np.float32)
FEW = {"regularization": (1e-4, 1e-2)}


@pytest.fixture(autouse=True)
def _one_C(monkeypatch):
    monkeypatch.setattr(sys.modules["krepes.evaluation.tuning.search"], "PROBE_C_GRID", (1.0,))


def small(loss="kernel_pca", **params) -> KernelEmbedding:
    return KernelEmbedding(3, loss=loss, n_landmarks=20, **{"random_state": 0, **params})


def run(*arguments: object, code: int) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    assert "Traceback" not in result.output
    return " ".join(result.output.replace("│", " ").split())


# Arguments


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"loss__temprature": (0.1, 1)}, "no parameter 'loss__temprature'"),
        ({"temperature": (0.1, 1)}, "no parameter 'temperature'"),
        ({"loss__temperature__x": (0.1, 1)}, "no parameter"),
        ({"views__noise": (0.1, 1)}, "no parameter 'views__noise'"),  # views="auto" has none
        ({"regularization": (1, 0.1)}, "the lower end comes first"),
        ({"regularization": (1, 1)}, "the lower end comes first"),
        ({"regularization": (0.1, float("nan"))}, "both are finite"),
        ({"regularization": (0.1, float("inf"))}, "both are finite"),
        ({"regularization": ("a", "b")}, "expected (low, high)"),
        ({"regularization": (1, 2, 3)}, "expected (low, high)"),
        ({"regularization": 0.1}, "expected (low, high)"),
        ({"regularization": []}, "a list of numbers and names"),
        ({"regularization": [object()]}, "a list of numbers and names"),
        (
            {"loss__temperature": None, "solver__learning_rate": None, "solver__weight_decay": None},
            "nothing to",
        ),
    ],
    ids=label,
)
def test_a_space_that_makes_no_sense_is_refused_before_any_work(space, message, monkeypatch):
    monkeypatch.setattr(Search, "prepare", lambda self: pytest.fail("too late"))
    with pytest.raises(ValueError) as caught:
        search(small("simclr"), X, y, space=space, n_trials=1)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_trials": 0}, "n_trials=0"),
        ({"n_trials": 1.5}, "n_trials=1.5"),
        ({"sampler": "grid"}, "sampler='grid'"),
        ({"metric": "f1"}, "metric='f1'"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0"),
        ({"validation_fraction": 0.999}, "No rows are left to learn from"),
        ({"label_fraction": 0.0}, "label_fraction=0.0"),
        ({"random_state": None}, "random_state=None"),
        ({"random_state": -1}, "random_state=-1"),
        ({"rows": [0, 150]}, "there are rows 0 to 149"),
        ({"rows": [0.5]}, "row indices"),
        ({"rows": np.arange(50)}, ("single", "class")),
    ],
    ids=label,
)
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    with refuses(ValueError, message):
        search(small(), X, y, space=FEW, **{"n_trials": 1, **arguments})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (y[:-1], ("149 labels", "150 rows")),
        (np.zeros(150), ("single", "class")),
        (np.full(150, np.nan), "label"),
        (np.arange(150), ("identifier", "quantity")),
        (X[:, 0], "fractions"),
    ],
    ids=["short", "one class", "none", "identifiers", "a quantity"],
)
def test_labels_that_are_none(labels, message):
    with refuses(ValueError, message):
        search(small(), X, labels, n_trials=1)


def test_only_a_model_of_krepes_can_be_tuned():
    from sklearn.decomposition import PCA

    with refuses(TypeError, "KernelEmbedding", "PCA"):
        search(PCA(), X, y)


def test_classes_of_one_row_are_no_obstacle():
    labels = y.astype(object)
    labels[0], labels[1] = 7, 8
    assert search(small(), X, labels, space=FEW, n_trials=1).best_value > 0.5


def test_a_search_does_not_change_its_model():
    model = small("barlow_twins")
    before = repr(model.get_params())
    search(model, X, y, n_trials=1, space={"loss__redundancy": (0.1, 1.0), **FEW})
    assert repr(model.get_params()) == before


# Trials


def test_if_all_trials_fail_their_messages_are_the_error(tmp_path):
    study = tmp_path / "a.study"
    for _ in range(2):  # also when they are read again
        with refuses(ValueError, "2", "component", "trials"):
            search(small(), X, y, space={"regularization": (1e6, 1e7)}, n_trials=2, study=study)


def test_what_is_wrong_with_the_data_is_said_at_once():
    broken = X.copy()
    broken[:, 0] = np.nan
    with refuses(ValueError, "NaN") as caught:
        search(small(), broken, y, n_trials=3)
    assert "trials failed" not in str(caught.value)


def test_a_mistake_in_the_code_is_not_a_failed_trial():
    """Only what parameters can be to blame for is recorded; the rest is shown as it is."""

    def wrong(Z1, Z2):
        return undefined_name  # noqa: F821

    with pytest.raises(NameError):
        search(small(wrong, solver=SGD(max_epochs=1)), X, y, n_trials=2)


# Studies


@pytest.fixture
def study(tmp_path) -> Path:
    path = tmp_path / "a.study"
    search(small(), X, y, space=FEW, n_trials=2, study=path)
    return path


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"model": small("spectral_contrastive")}, "model"),
        ({"model": small(feature_noise=0.2)}, "model"),
        ({"model": small(random_state=1)}, "model"),
        ({"X": X + 1}, "data"),
        ({"X": X.astype(np.float64)}, "data"),
        ({"y": np.where(y == 2, 3, y)}, "labels"),
        ({"space": {"regularization": (1e-4, 1e-1)}}, "search space"),
        ({"space": {"regularization": optuna.distributions.FloatDistribution(1e-4, 1e-2)}}, "search space"),
        ({"random_state": 1}, "split of the rows"),
        ({"label_fraction": 0.6}, "split of the rows"),
        ({"metric": "balanced_accuracy"}, "metric"),
    ],
    ids=label,
)
def test_the_study_of_another_search_is_refused_and_kept(study, change, part):
    content = study.read_bytes()
    arguments = {"model": small(), "X": X, "y": y, "space": FEW, **change}
    with refuses(ValueError, "study", "search") as caught:
        search(n_trials=3, study=study, **arguments)
    assert part in str(caught.value)
    assert study.read_bytes() == content


def test_what_does_not_change_results_may_change(study):
    again = search(small(device="cpu", verbose=0), X, y, space=FEW, n_trials=3, study=study, sampler="tpe")
    assert len(again.trials) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"age,income\n39,low\n",
        b"no newline at all",
        b"\x00\x01\x02\n\xff\n",
        b"[1, 2]\n",
        b'{"op_code": 99}\n',
        b'{"op_code": 4, "study_id": 0}\n',
        b'{"op_code": 0, "study_name": "other", "directions": [1], "worker_id": "w"}\n',
        b'{"a":' * 100_000 + b"\n",
        pickle.dumps({"op_code": 0}),
        b"\n\n",
    ],
    ids=[
        "table",
        "text",
        "bytes",
        "list",
        "operation",
        "no study",
        "other study",
        "deep",
        "pickle",
        "empty lines",
    ],
)
def test_a_file_that_is_no_study_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "a.study"
    path.write_bytes(content)
    with refuses(ValueError, "study"):
        search(small(), X, y, space=FEW, n_trials=1, study=path)
    assert path.read_bytes() == content


def test_every_line_of_a_study_may_be_damaged(study):
    """Whichever line is lost, cut or changed: an error that names the file, or the trials that are whole."""
    lines = study.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        for damaged in (b"", line[: len(line) // 2] + b"\n", line.replace(b"0", b"x"), b"{}\n", b"null\n"):
            study.write_bytes(b"".join([*lines[:number], damaged, *lines[number + 1 :]]))
            error = _refusal(study)
            assert str(study) in error or (damaged == b"" and error == "")


def _refusal(study: Path) -> str:
    try:
        Search(small(), X, y, space=FEW, study=study)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("value", ["NaN", "1e999", '"high"', "null", "[1]"])
def test_a_value_that_no_trial_can_have(study, value):
    entries = [json.loads(line) for line in study.read_text().splitlines()]
    true = json.dumps(entries[-1]["value"])
    *head, last = study.read_text().splitlines(keepends=True)
    study.write_text("".join(head) + last.replace(f'"value":{true}', f'"value":{value}', 1))
    with refuses(ValueError, "study"):
        Search(small(), X, y, space=FEW, study=study)


def test_a_last_line_that_was_cut_short_is_dropped(study):
    """A run that was killed while it wrote loses that trial and no other."""
    whole = study.read_bytes()
    study.write_bytes(whole[:-20])
    result = search(small(), X, y, space=FEW, n_trials=2, study=study)
    assert [trial.number for trial in result.trials] == [0, 1]
    assert study.read_bytes().count(b"\n") == whole.count(b"\n")


def test_an_empty_file_is_a_new_study(tmp_path):
    (tmp_path / "a.study").touch()
    assert len(search(small(), X, y, space=FEW, n_trials=1, study=tmp_path / "a.study").trials) == 1


def test_a_study_needs_a_place(tmp_path):
    with pytest.raises(IsADirectoryError):
        search(small(), X, y, n_trials=1, study=tmp_path)
    with refuses(FileNotFoundError, "create"):
        search(small(), X, y, n_trials=1, study=tmp_path / "none" / "a.study")


def test_a_full_disk_is_not_a_damaged_study(tmp_path, monkeypatch):
    """R22: what is kept is said, and the same search goes on from it."""
    path, backend = tmp_path / "a.study", optuna.storages.journal.JournalFileBackend
    real, room = backend.append_logs, 0

    def append(self, logs):
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, logs)

    monkeypatch.setattr(backend, "append_logs", append)
    with refuses(OSError, str(path), "full", "no study was begun"):
        search(small(), X, y, space=FEW, n_trials=2, study=path)
    room = 3  # the study, its fingerprint and a trial
    with refuses(OSError, str(path), "full", "kept"):
        search(small(), X, y, space=FEW, n_trials=2, study=path)
    room = 100
    assert len(search(small(), X, y, space=FEW, n_trials=2, study=path).trials) == 2


def test_a_study_unpickles_nothing(study, monkeypatch):
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("unpickled"))
    monkeypatch.setattr(pickle, "load", lambda *_: pytest.fail("unpickled"))
    assert len(search(small(), X, y, space=FEW, n_trials=3, study=study).trials) == 3


# The command line


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    np.savez(tmp_path / "x.npz", X=X, y=y)
    np.save(tmp_path / "x.npy", X)
    frame = load_iris(as_frame=True).frame.rename(columns={"target": "species"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "foreign").write_text("not a study\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL = "--n-landmarks 20 --n-components 3 --trials 1"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("tune nothing.csv", 1, "There is no file or folder nothing.csv"),
        ("tune t.csv", 1, "Which column holds the labels? Name it: label=COLUMN."),
        ("tune t.csv --label spieces", 1, "Did you mean 'species'?"),
        ("tune x.npy", 1, "comes without labels"),
        ("tune x.npz --label Q", 1, "Q"),
        ("tune x.npz --label y --labels y.npy", 2, "either --label or --labels"),
        ("tune x.npz --range loss__temperature", 2, "expected KEY=LOW:HIGH"),
        ("tune x.npz --range loss__temperature=5", 2, "expected KEY=LOW:HIGH"),
        ("tune x.npz --range loss__temperature=a:b", 2, "expected KEY=LOW:HIGH"),
        ("tune x.npz --range loss__temperature=1:2:square", 2, "expected KEY=LOW:HIGH"),
        ("tune x.npz --range regularization=5:0.05", 2, "the lower end comes first"),
        ("tune x.npz --range regularization=0:1:log", 2, "(low=0, high=1)"),
        ("tune x.npz --range regularization=NaN:1", 2, "both are finite"),
        ("tune x.npz --choice solver__batch_size=", 2, "expected KEY=A,B"),
        ("tune x.npz --choice regularization=1 --range regularization=1:2", 2, "was given before"),
        ("tune x.npz --range loss__temperature=0.05:5", 1, "no parameter 'loss__temperature'"),
        ("tune x.npz --set regularization=1 --range regularization=1:2", 2, "both set and searched"),
        ("tune x.npz --set regularization=1", 1, "nothing to search"),
        ("tune x.npz --sampler grid", 1, "sampler='grid': expected one of 'random', 'tpe'. (--sampler)"),
        ("tune x.npz --metric f1", 1, "metric='f1'"),
        ("tune x.npz --study foreign", 1, "not a study"),
        ("tune x.npz --split Q", 1, "Q"),
        ("tune x.npz --n-train 1000", 1, "there are 150 rows"),
        ("tune x.npz --epochs 5", 2, "--set solver=sgd"),
        ("tune x.npz --loss simclr --set loss__x=1", 2, "Invalid parameter 'x'"),
        ("tune x.npz --trials 0", 2, "trials"),
        ("tune x.npz --set kernel__lengthscale=wide", 1, "lengthscale='wide'"),
    ],
)
def test_the_command_line_says_what_is_wrong(folder, arguments, code, message):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert message in run(*arguments.split(), *SMALL.split()[:-2], code=code)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_study_of_another_model_is_refused_on_the_command_line(folder):
    options = ["x.npz", *SMALL.split(), "--range", "regularization=0.001:0.1", "--study", "a.study"]
    run("tune", *options, code=0)
    assert "differs in model" in run("tune", *options, "--kernel", "laplacian", code=1)
    run("tune", *options, "--kernel", "laplacian", "--force", code=0)


def test_without_optuna_the_error_says_how_to_get_it(folder):
    code = (
        "import sys\nsys.modules['optuna'] = None\nsys.argv = ['krepes', 'tune', 'x.npz']\n"
        "from krepes.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "krepes[tune]"' in done.stderr


def test_choices_are_kept_as_they_are_written():
    from krepes.cli.commands.tune import SearchOptions

    ranges = ["n_components=2:8", "loss__beta=0:1", "a=1:2:linear"]
    space = SearchOptions(ranges=ranges, choices=["views=tabular,none", "b=1,true,null"]).space()
    assert space["n_components"] == (2, 8)
    assert space["loss__beta"] == (0, 1)
    assert not space["a"].log
    assert space["views"] == ["tabular", "none"]
    assert space["b"] == [1, True, None]
