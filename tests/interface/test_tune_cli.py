"""`krepes tune`: its proposals fit, its studies go on, and stopping it loses nothing."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from command_line import run
from krepes import load

optuna = pytest.importorskip("optuna")

X, y = load_iris(return_X_y=True)
X = X.astype(np.float32)
pytestmark = pytest.mark.usefixtures("one_probe_strength")


# The command line


@pytest.fixture
def iris(tmp_path, monkeypatch) -> Path:
    frame = load_iris(as_frame=True).frame.rename(columns={"target": "species"})
    frame["part"] = np.where(np.arange(150) % 5 == 0, "test", "train")
    frame.to_csv(tmp_path / "iris.csv", index=False)
    np.savez(tmp_path / "iris.npz", X=X, y=y, n_train=120)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL = ["--n-landmarks", "20", "--n-components", "3", "--budget", "3600"]


def proposed(text: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith("Next: krepes fit ")]
    return shlex.split(line.removeprefix("Next: krepes "))


def test_the_command_that_tune_prints_fits_the_best_model(iris):
    options = ["--label", "species", "--split", "part", *SMALL, "--trials", "3", "--study", "a.study"]
    text = run("tune", "iris.csv", *options, "--loss", "vicreg", "--metric", "accuracy")
    assert "One pass over the data serves all trials." in text
    assert (
        "120" not in text.split("rows to learn from")[0].splitlines()[-1]
    )  # 60 of the 120 are for validation
    run(*proposed(text))
    model = load("iris.krepes")
    (best,) = [line for line in text.splitlines() if re.match(r" +\d+ +\d", line)][:1]
    assert f"{model.regularization:g}" in best
    for weight in ("invariance_weight", "variance_weight", "covariance_weight"):
        assert f"{getattr(model.loss, weight):g}" in best
    assert set(model.input_space_.encoder.exclude) == {"part"}
    assert model.input_space_.encoder.label == "species"


def test_the_command_line_goes_on_with_a_study(iris):
    options = ["iris.npz", *SMALL, "--study", "a.study"]
    run("tune", *options, "--trials", "2")
    text = run("tune", *options, "--trials", "4")
    assert "a.study has 2 trials already; 2 to go." in text
    assert proposed(text) == proposed(run("tune", *options, "--trials", "4"))
    once = run("tune", "iris.npz", *SMALL, "--trials", "4")
    assert proposed(once) == proposed(text)
    assert "has 4 trials" not in run("tune", *options, "--trials", "3", "--force")


def test_sgd_on_the_command_line(iris):
    text = run(
        *("tune", "iris.npz", "--loss", "simclr", *SMALL, "--trials", "2", "--epochs", "2"),
        *("--range", "loss__temperature=0.5:1", "--choice", "solver__batch_size=32,64", "--sampler", "tpe"),
    )
    assert "Every trial goes through the data." in text
    run(*proposed(text))
    model = load("iris.krepes")
    assert model.solver.max_epochs == 2
    assert model.solver.patience == 10
    assert model.solver.batch_size in (32, 64)
    assert 0.5 <= model.loss.temperature <= 1


def test_what_is_set_is_not_searched(iris):
    text = run("tune", "iris.npz", *SMALL, "--trials", "1", "--loss", "vicreg", "--set", "regularization=0.1")
    searched = next(line for line in text.splitlines() if line.startswith("Searched"))
    assert "regularization" not in searched
    assert "regularization=0.1" in proposed(text)


def test_a_recommendation_keeps_the_components_or_says_that_it_does_not():
    """Of trials that chance cannot tell apart, one that keeps all components is proposed."""
    from krepes.cli.work.tune_report import recommended
    from krepes.evaluation import SearchResult

    def trial(number, value, width):
        scores = {"deviation": 0.02, "n_components": width}
        return optuna.trial.create_trial(value=value, user_attrs={"scores": scores})

    cut, near, far = trial(1, 0.90, 3.0), trial(2, 0.89, 16.0), trial(3, 0.80, 16.0)
    assert recommended(SearchResult([cut, near, far], "accuracy", {}), 16) is near
    assert recommended(SearchResult([cut, far], "accuracy", {}), 16) is cut
    assert recommended(SearchResult([near, far], "accuracy", {}), 16) is near


def test_tune_says_how_many_components_are_left(iris):
    text = run(
        *("tune", "iris.npz", "--n-landmarks", "20", "--n-components", "40", "--trials", "2"),
    )
    assert "components" in next(line for line in text.splitlines() if "accuracy" in line and "trial" in line)
    assert re.search(r"Trial \d leaves \d+ of 40 components: no trial that keeps all did as well.", text)


def test_the_progress_says_which_trial_is_best():
    from krepes.cli.work.tune_report import best_words
    from krepes.evaluation import SearchResult

    failed = optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL)
    assert best_words(SearchResult([failed], "accuracy", {})) == "all failed so far"
    trials = [failed, optuna.trial.create_trial(value=0.5)]
    assert best_words(SearchResult(trials, "accuracy", {})) == "best 50.0 % in trial 0"
    # numbers are counted by the study; trials that are in none have the number -1


def test_help_of_tune_imports_nothing_heavy():
    code = (
        "import sys\nfrom krepes.cli import main\nsys.argv = ['krepes', 'tune', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'sklearn', 'numpy', 'scipy', 'pyarrow', 'optuna'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.full)])
def test_a_stopped_run_keeps_its_trials_and_the_same_command_goes_on(iris, how):
    command = ["tune", "iris.npz", *SMALL, "--threads", "1", "--study", "a.study", "--trials"]
    process = subprocess.Popen(
        [sys.executable, "-m", "krepes", *command, "1000"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    study = iris / "a.study"
    end = time.monotonic() + 120
    while (not study.exists() or study.read_bytes().count(b"\n") < 3) and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "finished trials are kept in a.study; the same command continues" in " ".join(said.split())
    kept = len(study.read_text().splitlines()) - 2  # the study itself, and its fingerprint
    assert kept >= 1
    (iris / "a.study.lock").unlink(missing_ok=True)  # of a run that was killed; Optuna waits 30 s for it
    text = run(*command, kept + 1)
    assert f"a.study has {kept} trials already; 1 to go." in text
