"""What the help says is what the library does, on one screen and a half; errors name their options."""

from __future__ import annotations

import inspect
import re
import resource
import subprocess
import sys

import pytest
import typer

from command_line import words
from krepes import KernelEmbedding
from krepes.base.components import named
from krepes.cli import command
from krepes.cli.app import app
from krepes.cli.parameters import estimator
from krepes.clustering import SubspaceClustering
from krepes.evaluation import Search
from krepes.features.choices import AUTO_LANDMARKS
from krepes.machines import KernelRidgeClassifier, NoveltyDetector
from refusals import refuses

VERBS = typer.main.get_command(app).commands
OWNERS = {
    "fit": [KernelEmbedding],
    "tune": [Search, KernelEmbedding],
    "train": [NoveltyDetector, KernelRidgeClassifier],
    "cluster": [SubspaceClustering],
}
STATED = re.compile(r"[Bb]y default (\d[\d.]*)")


@pytest.mark.parametrize("verb", OWNERS)
def test_defaults_in_the_help_are_the_librarys(verb):
    """An option that states a number as its default, and is named like a parameter, states the parameter's."""
    parameters = {
        name: each.default
        for owner in OWNERS[verb]
        for name, each in inspect.signature(owner).parameters.items()
    }
    for each in VERBS[verb].params:
        stated = STATED.search(getattr(each, "help", None) or "")
        default = parameters.get(each.name)
        if stated is not None and each.name in parameters and default is not None:
            expected = AUTO_LANDMARKS if default == "auto" else default
            assert float(stated[1].rstrip(".")) == expected, each.name


@pytest.mark.parametrize(("verb", "name"), [("fit", "kernel"), ("fit", "loss"), ("fit", "views")])
def test_names_in_the_help_exist(verb, name):
    (found,) = [each for each in VERBS[verb].params if each.name == name]
    listed = found.help.rpartition(": ")[2].removesuffix(", ...").split(", ")
    assert len(listed) >= 3
    assert set(listed) - {"none", "auto"} <= set(named(KernelEmbedding.component_kinds[name]))


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_fits_on_a_screen_and_a_half(verb, monkeypatch):
    from typer.testing import CliRunner

    monkeypatch.setenv("COLUMNS", "100")
    text = CliRunner().invoke(app, [verb, "--help"], terminal_width=100).output
    assert len(text.splitlines()) <= 60


def test_the_help_answers_at_once():
    """Half a second of the processor at most, the best of eight: nothing heavy is imported."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    seconds = []
    for _ in range(8):
        before = used()
        subprocess.run([sys.executable, "-m", "krepes", "--help"], check=True, capture_output=True)
        seconds.append(used() - before)
    assert min(seconds) < 0.5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n_landmarks=0: expected", "n_landmarks=0: expected (--n-landmarks)"),
        ("give views= or positives=.", "give views= or positives=. (--views)"),
        ("Exists already (overwrite=True).", "Exists already (overwrite=True). (--force)"),
        ("lam=2 is too large", "lam=2 is too large"),
        ("views=: give --views.", "views=: give --views."),
    ],
)
def test_messages_of_the_library_are_followed_by_options(text, told):
    token = command._options.set({"n_landmarks": "--n-landmarks", "views": "--views", "overwrite": "--force"})
    try:
        assert command.with_options(text) == told
    finally:
        command._options.reset(token)


@pytest.mark.parametrize(
    "owner", [KernelEmbedding, KernelRidgeClassifier, NoveltyDetector, SubspaceClustering]
)
def test_a_name_that_the_class_does_not_have_is_wrong_usage(owner):
    with refuses(typer.BadParameter, "anchors", owner.__name__, "kernel"):
        estimator(owner, {"anchors": 3})


def test_the_text_of_every_option_is_a_sentence():
    for verb in VERBS.values():
        for each in verb.params:
            text = words(getattr(each, "help", None) or "")
            assert text.endswith((".", "...")), (verb.name, each.name)
