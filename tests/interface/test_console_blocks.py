"""Every ```console block of the documentation is run, and prints what it says.

Lines that begin with $ are commands; what follows is their output, where ... stands for anything. A command without
output may print what it likes. A comment before a block says that it is run by the long tests only, or why not at all:

    <!-- console: long -->        <!-- console: not run, because it needs ... -->
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from console_files import FILES
from krepes.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- console: (.*?) -->\n)?```console\n(.*?)```", re.DOTALL)
PERCENT = re.compile(r"(\d+\.\d) ± \d+\.\d %")  # an accuracy: machines and versions differ in the last rows
POINTS = 1.0
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: Path) -> list[tuple[str, str]]:
    """(mark, text) of the console blocks of a page."""
    return BLOCK.findall(page.read_text("utf-8"))


def steps(block: str) -> list[tuple[str, str]]:
    """(command, output) of a block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output without a command: {parts[0]}"
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts[1:]]


def ran(command: str) -> tuple[int, str]:
    """Exit code and output of a command."""
    words = shlex.split(command, comments=True)
    if words[0] == "krepes":
        result = CliRunner().invoke(app, words[1:], prog_name="krepes")
        return result.exit_code, result.output
    assert words[0] == "python", f"{command}: only krepes and python are run here"
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # `python -m reproduction`
    done = subprocess.run(
        [sys.executable, *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": paths},
    )
    return done.returncode, done.stdout + done.stderr


def expected_code(output: str) -> int:
    return 2 if output.startswith("Usage:") else 1 if output.startswith("Error:") else 0


def agrees(output: str, printed: str) -> bool:
    """Whether a command printed what the page says; accuracies may differ by a point, and breaks of lines."""
    shown, found = (PERCENT.sub("? %", text.replace("│", " ")) for text in (output, printed))
    if not doctest.OutputChecker().check_output(shown, found, SAME):
        return False
    accuracies = iter([float(value) for value in PERCENT.findall(printed)])
    return all(
        any(abs(float(value) - other) <= POINTS for other in accuracies) for value in PERCENT.findall(output)
    )


def check(page: Path, folder: Path, long: bool) -> None:
    for mark, block in blocks(page):
        if mark.startswith("not run") or (mark == "long") > long:
            continue
        for command, output in steps(block):
            for name, make in FILES.items():
                if name in command and not (folder / name).exists():
                    make(folder / name)
            code, printed = ran(command)
            assert code == expected_code(output), f"$ {command}\n{printed}"
            assert not output.strip() or agrees(output, printed), (
                f"$ {command}\nprinted:\n{printed}\nnot:\n{output}"
            )


def pages(*marks: str) -> list[Path]:
    return [page for page in PAGES if any(mark in marks for mark, _ in blocks(page))]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    return tmp_path


@pytest.mark.parametrize("page", pages(""), ids=lambda page: page.name)
def test_commands_print_what_the_page_says(page, folder):
    check(page, folder, long=False)


@pytest.mark.full
@pytest.mark.parametrize("page", pages("long"), ids=lambda page: page.name)
def test_long_commands_print_what_the_page_says(page, folder):
    check(page, folder, long=True)


def test_every_mark_is_known():
    marks = {mark for page in PAGES for mark, _ in blocks(page)}
    assert all(mark in ("", "long") or mark.startswith("not run, because ") for mark in marks), marks


def test_accuracies_may_differ_a_little_and_words_may_not():
    page = "raw  92.7 ± 1.0 %\n...\nours  96.8 ± 0.4 %\n"
    assert agrees(page, "raw 92.9 ± 1.1 %\nother 93.4 ± 1.3 %\nours 96.6 ± 0.5 %\n")
    assert not agrees(page, "raw 92.9 ± 1.1 %\nother 93.4 ± 1.3 %\nours 95.1 ± 0.5 %\n")
    assert not agrees(page, "row 92.7 ± 1.0 %\nours 96.8 ± 0.4 %\n")


def test_a_block_that_is_wrong_is_seen(tmp_path, folder):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ krepes --version\nkrepes 99...\n```\n")
    with pytest.raises(AssertionError, match="printed"):
        check(page, folder, long=False)
