"""The judge sees what it is there for: planted faults are told from results and clear errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from fuzz.cases import run_target
from fuzz.kills import Reference, Work, problem_after_kill, problem_at_end
from fuzz.outcome import ChangedError, LostError, check_same, judged
from fuzz.target import Draw, Target
from krepes import KernelEmbedding
from krepes.kernels import Custom

X = np.random.default_rng(0).normal(size=(8, 2))


def broken(A, B):
    return np.linalg.inv(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (lambda: KernelEmbedding(2, n_landmarks=4, random_state=0).fit(X).transform(X), "result"),
        (lambda: KernelEmbedding(0).fit(X), "clear"),
        (lambda: KernelEmbedding().transform(X), "clear"),
        (lambda: KernelEmbedding(kernel=Custom(broken)).fit(X), "unclear"),
        (lambda: {}["a"], "unclear"),
        (lambda: 1 / 0, "unclear"),
        (lambda: torch.zeros(2, 3) @ torch.zeros(2, 3), "unclear"),
        (
            lambda: int("a number that numpy would not have"),
            "clear",
        ),  # in a user's function, which this file is
        (lambda: {"deep": [(1.0, torch.tensor([1.0, float("nan")]))]}, "not finite"),
        (lambda: float("-inf"), "not finite"),
        (lambda: check_same(X + 1e-16, X + 1e-7, "numbers"), "changed"),
    ],
)
def test_verdicts(call, verdict):
    assert judged(call).verdict == verdict


def test_an_input_that_is_written_to_is_noticed():
    def careless(draw: Draw) -> None:
        draw(st.builds(lambda: np.ones(3)))[0] = 2.0

    report = run_target(Target("careless", (), 1.0, careless), 3, random=0)
    assert report.counts["changed"] == 3
    assert len(report.failures) == 1


def test_failures_at_different_places_are_found_in_one_run_and_shrunk():
    def faulty(draw: Draw) -> int:
        number = draw(st.integers(0, 1000))
        if number > 700:
            raise KeyError(number)
        if number > 500:
            raise AttributeError(number)
        return number

    report = run_target(Target("faulty", (), 1.0, faulty), 100, random=0)
    assert report.counts.total() == 100
    assert sorted(failure.example.strip() for failure in report.failures.values()) == ["0: 501", "0: 701"]


def test_half_files_and_left_files_are_noticed(tmp_path):
    work = Work("work", lambda folder: None, lambda folder: None, "out")
    whole = Reference(tmp_path, b"whole", 1.0, 0.0, {"out"})
    assert problem_after_kill(work, tmp_path, whole.output) == ""
    assert "no output" in problem_at_end(work, tmp_path, whole)
    (tmp_path / "out").write_bytes(b"who")
    assert "not whole" in problem_after_kill(work, tmp_path, whole.output)
    assert "other bytes" in problem_at_end(work, tmp_path, whole)
    (tmp_path / "out").write_bytes(b"whole")
    assert problem_at_end(work, tmp_path, whole) == ""
    (tmp_path / ".out.part").touch()
    assert "other files" in problem_at_end(work, tmp_path, whole)
    (tmp_path / "fit.checkpoint").write_bytes(b"half")
    assert "checkpoint is not whole" in problem_after_kill(work, tmp_path, whole.output)


@pytest.mark.parametrize(("error", "verdict"), [(ChangedError, "changed"), (LostError, "lost")])
def test_broken_promises_have_their_own_verdict(error, verdict):
    def call() -> None:
        raise error("something")

    assert judged(call).verdict == verdict
