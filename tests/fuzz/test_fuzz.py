"""The short part of fuzzing: a few cases of every target, some files, a few kills. `make fuzz` is the long part."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.cases import Report, run_target
from fuzz.forgery import run_files
from fuzz.misbehaving import run_misbehaving
from fuzz.targets import TARGETS, uncovered

CASES = 5  # of every target
FILES = 150
KILLS = 6
LOADERS = 60


def check(report: Report) -> None:
    assert not report.failures, "\n\n".join(failure.text() for failure in report.failures.values())


def test_every_public_name_is_fuzzed():
    assert uncovered() == []


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_any_input_gives_finite_numbers_or_a_clear_error(name):
    check(run_target(TARGETS[name], CASES, random=None, shrink=False))


@pytest.mark.parametrize("part", range(2))
def test_damaged_and_forged_files_are_refused_or_harmless(part):
    check(run_files(part, range(FILES // 2)))


def test_loaders_and_views_that_misbehave_are_refused_or_harmless():
    check(run_misbehaving(LOADERS, seed=0))


def test_killed_work_leaves_no_half_file_and_goes_on_with_the_same_bytes():
    """In a process of its own, because it forks."""
    run = Path(__file__).with_name("run.py")
    given = ["--cases", "0", "--files", "0", "--kills", str(KILLS), "--threads", "0", "--processes", "1"]
    given += ["--loaders", "0"]
    found = subprocess.run([sys.executable, run, *given], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
