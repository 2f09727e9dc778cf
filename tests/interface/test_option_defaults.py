"""The table of options is what the classes say, and errors speak of options."""

from __future__ import annotations

import importlib.util
import inspect
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from krepes.cli.option_defaults import TABLE
from krepes.cli.option_signatures import parameter
from krepes.cli.parameter import Parameter

from command_line import run
from krepes import KernelEmbedding
from krepes.base.components import named
from krepes.cli import command
from krepes.clustering import Coding, SubspaceClustering
from krepes.kernels import Kernel
from krepes.landmarks import LandmarkSelector
from krepes.losses import Loss
from krepes.machines import KernelRidgeClassifier, KernelRidgeRegressor
from krepes.solvers import Solver
from krepes.views import Views
from refusals import refuses

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location(
        "option_defaults_tool", ROOT / "tools" / "option_defaults.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_what_the_classes_say(tool):
    """If this fails, a default, a name or a docstring has changed: run `python tools/option_defaults.py`."""
    assert {owner.__name__: tuple(tool.rows(owner)) for owner in tool.TABLE} == TABLE
    assert tool.OUTPUT.read_text("utf-8") == tool.module()


@pytest.mark.parametrize("owner", [KernelEmbedding, KernelRidgeClassifier, SubspaceClustering])
def test_every_parameter_of_an_estimator_is_an_option(owner):
    defaults = {name: p.default for name, p in inspect.signature(owner).parameters.items()}
    rows = {row.name: row.default for row in TABLE[owner.__name__] if not row.nested}
    assert rows.keys() == defaults.keys() - {"engine", "space", "transductive", "verbose", "random_state"}
    assert rows == {name: defaults[name] for name in rows}


def test_the_options_of_a_classifier_serve_a_regressor():
    """`krepes train` has one set of options for both; three parameters are the classifier's own."""
    of_both = [inspect.signature(owner).parameters for owner in (KernelRidgeClassifier, KernelRidgeRegressor)]
    classifier, regressor = ({name: p.default for name, p in found.items()} for found in of_both)
    assert classifier == regressor | {"class_weight": None, "loss": "squared", "transductive": False}


@pytest.mark.parametrize(
    ("owner", "name", "kind"),
    [
        ("KernelEmbedding", "kernel", Kernel),
        ("KernelEmbedding", "loss", Loss),
        ("KernelEmbedding", "views", Views),
        ("KernelEmbedding", "landmarks", LandmarkSelector),
        ("KernelEmbedding", "solver", Solver),
        ("KernelRidgeClassifier", "kernel", Kernel),
        ("KernelRidgeClassifier", "landmarks", LandmarkSelector),
        ("SubspaceClustering", "coding", Coding),
    ],
)
def test_the_choices_are_the_names_that_exist(owner, name, kind):
    """All but kernels on objects: the files that commands read have rows of numbers and categories."""
    own = {key for key, cls in named(kind).items() if cls.__module__.startswith("krepes.")}
    own -= {key for key, cls in named(Kernel).items() if kind is Kernel and cls.only_objects}
    assert own - {"auto"} == set(parameter(owner, name).choices) - {"auto", "none"}


def test_options_are_told_apart():
    for rows in TABLE.values():
        assert len({row.option for row in rows}) == len(rows)
        assert all(row.help.endswith(".") for row in rows)


def test_the_help_answers_at_once():
    """Half a second of the processor at most, the best of three: nothing heavy is imported."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    seconds = []
    for _ in range(3):
        before = used()
        subprocess.run([sys.executable, "-m", "krepes", "--help"], check=True, capture_output=True)
        seconds.append(used() - before)
    assert min(seconds) < 0.5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n_landmarks=0: expected", "--n-landmarks 0: expected"),
        ("use views='tabular'.", "use --views tabular."),
        ("give views= or positives=.", "give --views or positives=."),
        ("name it with label= or exclude=.", "name it with --label or --exclude."),
        ("allow overwriting (overwrite=True).", "allow overwriting (--force)."),
        ("SGD(max_epochs=3), Image(size=(2, 3))", "SGD(max_epochs=3), Image(size=(2, 3))"),
        ("max_epochs=0", "--epochs 0"),
        ("lam=2 is too large", "lam=2 is too large"),
        ('say predictions="out_of_bag".', "say --out-of-bag."),
        ('rows with predictions="given".', "rows without --out-of-bag."),
        ("give classes=[...], in order", "give --classes [...], in order"),
        ("labels=y.npz:ARRAY.", "--labels y.npz:ARRAY."),
    ],
)
def test_messages_of_the_library_are_told_in_options(text, told):
    names: dict[str, Parameter | str] = {
        row.name.rpartition("__")[2]: row for row in TABLE["KernelEmbedding"]
    }
    names |= {row.name: row for row in TABLE["prune_ensemble"]}
    names |= {name: f"--{name}" for name in ("label", "labels", "exclude", "classes", "size")}
    names["overwrite"] = "--force"
    token = command._options.set(names)
    try:
        assert command.in_options(text) == told
    finally:
        command._options.reset(token)


def test_a_table_that_is_wrong_is_seen(tool, monkeypatch):
    monkeypatch.setitem(tool.OPTIONS, "n_landmarks", "--anchors")
    assert tuple(tool.rows(KernelEmbedding)) != TABLE["KernelEmbedding"]


def test_options_reach_the_help():
    text = run("cluster", "--help")
    for word in ("--n-init", "-k", "--selection", "elastic_net"):
        assert word in text


def test_lengthscales_may_be_multiples_of_the_median():
    lengthscale = Parameter("lengthscale", "--lengthscale", "float", "auto", "", choices=("auto", "median"))
    assert [lengthscale.checked(text) for text in ("4 median", "median", "2.5")] == [
        "4 median",
        "median",
        2.5,
    ]
    for text in ("four median", "4 auto", "4 medians"):
        with refuses(typer.BadParameter, "number"):
            lengthscale.checked(text)
