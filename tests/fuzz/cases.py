"""Many cases of every target, by hypothesis; failures are shrunk, and told apart by where they arise.

Hypothesis ends at the first failure. Here a place that has failed is known from then on and only counted, and the run
goes on until every target has had its share of the cases.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from fuzz.outcome import Outcome
from fuzz.target import Draw, Target, tried

ROUNDS = 12  # new failures of one target, before it is given up
SLOW = 20.0  # seconds: what takes longer is told


@dataclass
class Failure:
    """A place that fails, and an example."""

    target: str
    outcome: Outcome
    example: str
    count: int = 1

    def text(self) -> str:
        return (
            f"{self.target}: {self.outcome.verdict} ({self.count} times)\n{self.outcome.text}\n{self.example}"
        )


@dataclass
class Report:
    """Counts of verdicts, failures by place, errors by text."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Failure] = field(default_factory=dict)
    messages: Counter[str] = field(default_factory=Counter)
    by_target: dict[str, Counter[str]] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        self.counts += other.counts
        self.messages += other.messages
        self.slow += other.slow
        self.seconds += other.seconds
        for key, failure in other.failures.items():
            if key in self.failures:
                self.failures[key].count += failure.count
            else:
                self.failures[key] = failure
        for name, counts in other.by_target.items():
            self.by_target[name] = self.by_target.get(name, Counter()) + counts


class CaseError(Exception):
    """Tells hypothesis that a case has failed; one subclass per place, so that shrinking stays at that place."""

    outcome: Outcome
    example: str


def shares(targets: list[Target], n: int) -> dict[str, int]:
    """How many of n cases each target gets: by weight, at least one, n or a few more in all."""
    total = sum(target.weight for target in targets)
    return {target.name: max(1, -(-n * target.weight // total).__trunc__()) for target in targets}


def run_target(target: Target, n: int, random: int | None, shrink: bool = True) -> Report:
    """n cases of one target; `random` is the seed, None is hypothesis's own choice, always the same."""
    report, start = Report(), time.perf_counter()
    for turn in range(1 if random is None else ROUNDS):
        before = report.counts.total()
        if before >= n:
            break
        chosen = None if random is None else zlib.crc32(f"{target.name}{random}{turn}".encode())
        _turn(target, n - before, report, chosen, shrink)
        if report.counts.total() == before:
            break
    report.by_target[target.name] = Counter(report.counts)
    report.seconds = time.perf_counter() - start
    return report


def _turn(target: Target, n: int, report: Report, random: int | None, shrink: bool) -> None:
    """Cases until n are done or a new place fails; what is tried to make that failure smaller is not counted."""
    failed: list[Outcome] = []

    @settings(
        max_examples=n,
        database=None,
        deadline=None,
        derandomize=random is None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
    )
    @given(st.data())
    def case(data: st.DataObject) -> None:
        start = time.perf_counter()
        outcome, draw = tried(target, data)
        if not failed:
            report.counts[outcome.verdict] += 1
            _note(report, target, outcome, draw, time.perf_counter() - start)
        if not outcome.failed:
            return
        if outcome.place in report.failures:
            report.failures[outcome.place].count += not failed
            return
        failed.append(outcome)
        error = _class_of(outcome)(outcome.text)
        error.outcome, error.example = outcome, draw.text()
        raise error

    try:
        (case if random is None else seed(random)(case))()
    except CaseError as error:
        report.failures[error.outcome.place] = Failure(target.name, error.outcome, error.example)
    except Flaky as error:
        flaky = Outcome("changed", f"another outcome for the same input: {error}", f"flaky {target.name}")
        report.failures[flaky.place] = Failure(target.name, flaky, "")


def _note(report: Report, target: Target, outcome: Outcome, draw: Draw, seconds: float) -> None:
    if outcome.verdict == "clear":
        report.messages[f"{target.name}: {outcome.text[:200]}"] += 1
    if seconds > SLOW:
        report.slow.append(f"{target.name}: {seconds:.0f} s\n{draw.text()}")


def warm_up() -> None:
    """What hypothesis does once in a process (it reads all source files), before there are many processes."""

    @settings(max_examples=1, database=None)
    @given(st.data())
    def nothing(data: st.DataObject) -> None:
        data.draw(st.integers())

    nothing()


_CLASSES: dict[str, type[CaseError]] = {}


def _class_of(outcome: Outcome) -> type[CaseError]:
    return _CLASSES.setdefault(outcome.place, type("CaseErrorAt", (CaseError,), {}))
