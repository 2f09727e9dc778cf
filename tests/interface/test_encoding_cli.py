"""A new file may have another encoding than the one that a model was fitted on: every command that reads it is told."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv as pc
import pytest
import typer

from command_line import run, words
from krepes.cli.app import app

READS = {"DATA", "FEATURES...", "PREDICTIONS"}
RNG = np.random.default_rng(0)
CITIES = ["Москва", "Казань", "Омск"]
TEXT = "возраст,город,доход,класс,нет\n" + "".join(
    f"{20 + i % 40},{CITIES[i % 3]},{RNG.normal() + i % 3:.3f},{'да' if i % 3 else 'нет'},{'х' if i % 9 else i}\n"
    for i in range(90)
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table in UTF-8 and in an encoding of its own, which cannot be guessed; a model and a machine of the first."""
    folder = tmp_path_factory.mktemp("encodings")
    for name, encoding in (("plain", "utf-8"), ("other", "cp1251")):
        (folder / f"{name}.csv").write_bytes(TEXT.encode(encoding))
    common = ["--n-landmarks", 20, "--missing", "х"]
    run("fit", folder / "plain.csv", "-o", folder / "model", "--label", "класс", *common)
    run("train", folder / "plain.csv", "-o", folder / "machine", "--label", "класс", *common)
    run(
        "train",
        folder / "plain.csv",
        "-o",
        folder / "detector",
        "--task",
        "detect",
        "--label",
        "класс",
        *common,
    )
    return folder


def test_every_command_that_reads_a_file_has_the_option():
    commands = typer.main.get_command(app).commands
    reading = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands.items()
        if any(parameter.metavar in READS for parameter in command.params)
    }
    assert len(reading) >= 12
    assert {name for name, options in reading.items() if "--encoding" not in options} == {
        "export"  # its table only names rare categories
    }


WRITING = {"transform": "model", "predict": "machine", "detect": "detector", "reconstruct": "model"}


@pytest.mark.parametrize("command", WRITING)
def test_results_do_not_depend_on_the_encoding(files, tmp_path, command):
    """The words that are missing values, and what columns are, are the model's: they are not said again."""
    found = {}
    for name, encoding in (("plain", []), ("other", ["--encoding", "cp1251"])):
        output = tmp_path / f"{name}.csv"
        run(command, files / WRITING[command], files / f"{name}.csv", "-o", output, *encoding)
        found[name] = pc.read_csv(output)
    assert found["plain"].equals(found["other"])
    run(command, files / WRITING[command], files / "other.csv", "-o", tmp_path / "wrong.csv", code=1)


def untimed(found):
    """Results without the name of the file and the time that they took."""
    if not isinstance(found, dict):
        return found
    return {name: untimed(value) for name, value in found.items() if name not in ("data", "seconds")}


@pytest.mark.parametrize("model", ["model", "machine"])
@pytest.mark.parametrize(
    "command", [["evaluate"], ["explain", "--sample", 3]], ids=lambda command: command[0]
)
def test_measures_and_explanations_do_not_depend_on_the_encoding(files, command, model):
    found = [
        json.loads(run(command[0], files / model, files / f"{name}.csv", *command[1:], *encoding, "--json"))
        for name, encoding in (("plain", []), ("other", ["--encoding", "cp1251"]))
    ]
    assert untimed(found[0]) == untimed(found[1])


def test_features_labels_and_predictions_may_have_an_encoding(files, tmp_path):
    lines = TEXT.splitlines()
    (tmp_path / "z.csv").write_bytes("\n".join(line.split(",")[2] for line in lines).encode("cp1251"))
    np.save(tmp_path / "z.npy", RNG.normal(size=(90, 2)))
    named = ["--encoding", "cp1251"]
    align = ["align", tmp_path / "z.csv", tmp_path / "z.npy", *named, "--json"]
    assert json.loads(run(*align))["cka"][0][0] == pytest.approx(1)
    rank = run(
        "rank-models",
        tmp_path / "z.csv",
        "--labels",
        files / "other.csv",
        "--label",
        "класс",
        *named,
        "--json",
    )
    assert json.loads(rank)["classes"] == 2
    said = [["да" if yes else "нет" for yes in (i % 2 != (i % 7 == 0), i % 3, i % 2)] for i in range(60)]
    table = "\n".join(["а,б,цель", *map(",".join, said)])
    (tmp_path / "p.csv").write_bytes(table.encode("cp1251"))
    pruned = json.loads(run("prune", tmp_path / "p.csv", "--label", "цель", *named, "--json"))
    assert pruned["classes"] == ["да", "нет"]
    assert pruned["members"][0]["member"] == "а"


def test_an_encoding_is_for_csv_files(files, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    text = words(
        run(
            "transform",
            files / "model",
            tmp_path / "x.npy",
            "-o",
            tmp_path / "z.npy",
            "--encoding",
            "cp1251",
            code=1,
        )
    )
    assert "for CSV files" in text
