"""Messy tables on the command line: roles are shown, and can be corrected."""

from __future__ import annotations

import pytest

import krepes
from command_line import run, words

LANDS = ["DE", "NA", "FR", "US", "?"]
ROWS = "".join(
    f'{100 + i % 7}{i % 10};{i % 12 + 1:02d}/{i % 9 + 1:02d}/2022;"{i},5";{LANDS[i % 5]};{"ja" if i % 3 else "nein"}\n'
    for i in range(40)
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(("plz;tag;größe;land;kunde\n" + ROWS).encode("cp1252"))
    return path


@pytest.mark.parametrize("command", ["fit", "train", "cluster"])
def test_every_fit_prints_what_it_understood(table, tmp_path, command):
    more = {
        "train": ["--label", "kunde", "--machine", "ridge"],
        "cluster": ["-k", 2, "--set", "n_iterations=1"],
    }
    output = tmp_path / ("c.csv" if command == "cluster" else "m.krepes")
    text = words(run(command, table, "-o", output, *more.get(command, [])))
    assert "column role features example" in text
    assert "größe numeric 1 0,5 decimal comma; mean 20" in text
    assert "land category 6 DE 5 levels" in text


def test_columns_and_words_can_be_named(table, tmp_path):
    model = tmp_path / "m.krepes"
    options = ["--column", "plz=category", "--column", "tag=month first", "--missing", "?"]
    text = words(run("fit", table, "-o", model, "--encoding", "cp1252", "--n-landmarks", 20, *options))
    assert "tag date 3 01/01/2022 month first; 2022-01-01 to 2022-12-" in text
    assert "land category 6 DE 4 levels, 8 missing as one" in text
    encoder = krepes.load(model).input_space_.encoder
    assert encoder.columns == {"plz": "category", "tag": "month first"}
    assert encoder.missing == ["?"]
    assert encoder.examples_ == {}
    assert encoder.columns_[0].role == "category"
    run("transform", model, table, "-o", tmp_path / "z.csv")


def test_wrong_kinds_are_named(table, tmp_path):
    output = ["-o", tmp_path / "m.krepes"]
    assert "NAME=KIND" in words(run("fit", table, *output, "--column", "plz", code=2))
    assert "expected one of" in words(run("fit", table, *output, "--column", "plz=postcode", code=1))
    assert "no such encoding" in words(run("fit", table, *output, "--encoding", "klingon", code=1))


def test_warnings_name_the_option(tmp_path):
    """What the library calls columns={...} is followed by the option --column."""
    path = tmp_path / "t.csv"
    path.write_text(
        "day,code,n\n"
        + "".join(
            f"{i % 9 + 1}/{i % 7 + 1}/2022,{i if i % 4 else 'see ' + str(i)},{i % 5}\n" for i in range(40)
        )
    )
    text = words(run("fit", path, "-o", tmp_path / "m.krepes", "--n-landmarks", 20))
    for column in ("day", "code"):
        assert f"columns={{'{column}':" in text
    assert text.count("(--column)") == 2


def test_a_title_above_the_table_is_named(tmp_path):
    path = tmp_path / "report.csv"
    path.write_text("Monthly report;;\nshop;sales;returns\nA;1;2\nB;2;3\n")
    text = words(run("fit", path, "-o", tmp_path / "m.krepes", code=1))
    assert "2 columns without a name in its first line, which names 'Monthly report'" in text
