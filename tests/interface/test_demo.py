"""`krepes demo`: what a newcomer sees first."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image as Picture
from typer.testing import CliRunner

from krepes import load
from krepes.cli.app import app
from krepes.cli.work.demonstration import N_SHOWN
from krepes.explain import explain


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "krepes-demo"
    result = CliRunner().invoke(app, ["demo", "--output", str(folder), "--threads", "1"])
    assert result.exit_code == 0, result.output
    return folder, result.output


def accuracies(text: str) -> dict[str, float]:
    rows = re.findall(r"^ *(raw pixels|kernel PCA|krepes) .*?(\d+\.\d) ±", text, re.MULTILINE)
    return {name: float(value) for name, value in rows}


def test_the_learned_representation_is_the_best_of_the_table(shown):
    found = accuracies(shown[1])
    assert set(found) == {"raw pixels", "kernel PCA", "krepes"}
    assert found["krepes"] > found["kernel PCA"] > found["raw pixels"] - 1
    assert found["krepes"] > 93


def test_it_leaves_a_model_a_figure_the_data_and_a_report(shown):
    folder, text = shown
    for name in ("digits.krepes", "digits.png", "digits.npz", "digits.html", "wine.csv", "wine.krepes"):
        assert (folder / name).is_file()
        assert str(folder / name) in text.replace("\n", "")
    with Picture.open(folder / "digits.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 800
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 100


def test_the_landmarks_named_make_the_row_and_are_of_its_digit(shown):
    """The shares of `explain`; with the unexplained part they are the whole, and a person would pick these."""
    folder, text = shown
    model, data = load(folder / "digits.krepes"), np.load(folder / "digits.npz")
    row = int(re.search(r"test row (\d+)", text).group(1))
    found = explain(model, data["X"][row : row + 1], n_top=N_SHOWN)
    named = re.findall(r"row +(\d+) +a (\d) +(\d+)%", text)
    assert [int(index) for index, _, _ in named] == found.rows[0].tolist()
    for (index, digit, share), expected in zip(named, found.shares[0]):
        assert int(digit) == data["y"][int(index)] == data["y"][row]
        assert float(share) == pytest.approx(100 * expected, abs=0.51)
    rest = float(re.search(r"The other (\d+)%", text).group(1))
    assert rest + sum(float(share) for _, _, share in named) == pytest.approx(100, abs=4)


@pytest.mark.parametrize("step", range(6))
def test_the_commands_it_proposes_work(shown, tmp_path, monkeypatch, step):
    _, text = shown
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^ +krepes (\w.+?)  ", text, re.MULTILINE)
    assert len(commands) == 6
    result = CliRunner().invoke(app, commands[step].split())
    assert result.exit_code == 0, result.output
