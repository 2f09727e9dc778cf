"""SIGKILL at random moments: whoever starts the work again gets the same bytes, and no half file is ever seen.

Each work runs in a forked child of this process, which has imported everything and done nothing. After a kill

    the output is whole or absent (whole, where it existed before),
    a checkpoint is whole or absent,

and once a child has been left alone until its end

    the output has the bytes of an undisturbed run,
    nothing else is left: no checkpoint, no temporary file.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuzz.cases import Failure, Report
from fuzz.killed_fits import CHECKPOINT, WORKS, Work
from fuzz.outcome import Outcome
from krepes.base.storage import model_file
from krepes.base.storage.checkpoint import SECONDS

LOG = "log.txt"
# What the work would import first of all, in every child anew: torch's optimizers alone take longer than a whole fit.
IMPORTED = (
    *(
        "torch._dynamo",
        "torch.func",
        "optuna",
        "pyarrow.csv",
        "pyarrow.parquet",
        "PIL.Image",
        "numba",
        "rich.table",
    ),
    *(
        "krepes.cli.app",
        "krepes.cli.commands.fit",
        "krepes.cli.commands.apply",
        "krepes.results",
    ),
)
PATIENCE = 120.0  # seconds: a child that takes longer hangs
LATE = 0.75  # of the kills come after the first checkpoint
IN_A_ROW = 4  # kills of one piece of work at most, before it is left alone


@dataclass
class Reference:
    """What an undisturbed run leaves, and how long it takes.

    Attributes
    ----------
    folder : the inputs
    output : bytes
    seconds : until the end
    quiet : seconds until the first checkpoint is written
    files : names of all files that are left
    """

    folder: Path
    output: bytes
    seconds: float
    quiet: float
    files: set[str]

    def moment(self, rng: np.random.Generator) -> float:
        """When to kill: mostly after the first checkpoint, because then there is something to go on from."""
        start = self.quiet if rng.random() < LATE else 0.0
        return float(rng.uniform(start, 1.05 * self.seconds))


def forked(work: Callable[[Path], None], folder: Path, interval: str = "0") -> int:
    """Run a function in a child process, with so many seconds between checkpoints; its number."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        log = os.open(folder.parent / f"{folder.name}.{LOG}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ[SECONDS] = interval
        os.environ["TERM"] = "dumb"
        work(folder)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def ended(process: int, seconds: float) -> int | None:
    """The status of a child that ends within some seconds; None if it does not."""
    deadline = time.perf_counter() + seconds
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return status
        if time.perf_counter() >= deadline:
            return None
        time.sleep(0.0005)


def killed(process: int) -> int:
    """Kill a child; its status, which is that of its own end where that came first."""
    os.kill(process, signal.SIGKILL)
    return os.waitpid(process, 0)[1]


def finished(work: Callable[[Path], None], folder: Path, interval: str = "0") -> str:
    """Run to the end; what went wrong, or ""."""
    process = forked(work, folder, interval)
    status = ended(process, PATIENCE)
    if status is None:
        killed(process)
        return f"it did not end within {PATIENCE:.0f} s"
    log = folder.parent / f"{folder.name}.{LOG}"
    return "" if status == 0 else f"it ended with status {status}:\n{log.read_text()[-2000:]}"


def undisturbed(work: Work, prepared: Path, whole: Path, interval: str) -> bytes:
    """The output of a run without any kill."""
    shutil.rmtree(whole, ignore_errors=True)
    shutil.copytree(prepared, whole)
    problem = finished(work.run, whole, interval)
    if problem:
        raise RuntimeError(f"{work.name}: without any kill, {problem}")
    return (whole / work.output).read_bytes()


def reference(work: Work, folder: Path) -> Reference:
    """An undisturbed run, after one without checkpoints, which has to leave the same bytes."""
    prepared, whole = folder / "prepared", folder / "whole"
    prepared.mkdir(parents=True)
    problem = finished(work.prepare, prepared)
    if problem:
        raise RuntimeError(f"{work.name}: its inputs were not written, {problem}")
    without, start = undisturbed(work, prepared, whole, "1000"), time.perf_counter()
    output = undisturbed(work, prepared, whole, "0")
    seconds = time.perf_counter() - start
    if output != without:
        raise RuntimeError(f"{work.name}: with and without checkpoints, the output has other bytes")
    found = Reference(prepared, output, seconds, 0.0, _files(whole))
    found.quiet = first_checkpoint(work, found, folder / "watched")
    return found


def first_checkpoint(work: Work, whole: Reference, folder: Path) -> float:
    """Seconds until the first checkpoint is there; 0 for work without any, or with little after it."""
    shutil.copytree(whole.folder, folder)
    process, start = forked(work.run, folder), time.perf_counter()
    while ended(process, 0.001) is None:
        if (folder / CHECKPOINT).exists():
            killed(process)
            seconds = time.perf_counter() - start
            return (
                seconds if seconds < 0.8 * whole.seconds else 0.0
            )  # else hardly a kill would come before the end
    return 0.0


def _files(folder: Path) -> set[str]:
    """Names in a folder; those of a cache below it are hashes, and are left out."""
    return {path.name for path in folder.iterdir()}


def problem_after_kill(work: Work, folder: Path, expected: bytes) -> str:
    """What is wrong with the files that a killed process has left, or ""."""
    output = folder / work.output
    if work.kept and not output.exists():
        return "lost: the file that was written over is gone"
    if output.exists() and output.read_bytes() != expected:
        return "lost: the output is not whole"
    checkpoint = folder / CHECKPOINT
    if checkpoint.exists():
        try:
            model_file.read(checkpoint, "Checkpoint")
        except ValueError as error:
            return f"lost: the checkpoint is not whole ({error})"
    return ""


def problem_at_end(work: Work, folder: Path, whole: Reference) -> str:
    """What is wrong with the files of a process that was started again and left alone, or ""."""
    if not (folder / work.output).exists():
        return "lost: there is no output"
    if (folder / work.output).read_bytes() != whole.output:
        return "changed: the output has other bytes than that of an undisturbed run"
    left = _files(folder) ^ whole.files
    return f"lost: other files are left than after an undisturbed run: {sorted(left)}" if left else ""


def disturbed(
    work: Work, whole: Reference, folder: Path, rng: np.random.Generator, n: int, report: Report
) -> str:
    """Start the work, kill it up to n times, leave it alone; what went wrong, or ""."""
    shutil.copytree(whole.folder, folder)
    for _ in range(n):
        report.counts["resumed"] += (folder / CHECKPOINT).exists()
        process = forked(work.run, folder)
        status = ended(process, whole.moment(rng))
        if status is None:
            status = killed(process)
        report.counts["sent"] += 1
        if os.WIFSIGNALED(status):
            report.counts["kills"] += 1
        elif status:
            return f"unclear: {(folder.parent / f'{folder.name}.{LOG}').read_text()[-2000:]}"
        problem = problem_after_kill(work, folder, whole.output)
        if problem:
            return problem
        if not os.WIFSIGNALED(status):
            break
    report.counts["resumed"] += (folder / CHECKPOINT).exists()
    problem = finished(work.run, folder)
    return f"unclear: started again, {problem}" if problem else problem_at_end(work, folder, whole)


def run_kills(seed: int, n: int, works: list[Work] = WORKS) -> Report:
    """Kill until n kills have landed before the end of the work, in turn for every kind."""
    report, rng, start = Report(), np.random.default_rng(seed), time.perf_counter()
    for module in IMPORTED:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as name:
        top, wholes = Path(name), {}
        turn = 0
        while report.counts["kills"] < n:
            work = works[turn % len(works)]
            if work.name not in wholes:
                wholes[work.name] = reference(work, top / str(turn))
            before = report.counts["kills"]
            in_a_row = min(int(rng.integers(1, IN_A_ROW + 1)), n - before)
            folder = top / str(turn) / "disturbed"
            problem = disturbed(work, wholes[work.name], folder, rng, in_a_row, report)
            report.by_target.setdefault(work.name, report.counts.__class__())["kills"] += (
                report.counts["kills"] - before
            )
            if problem:
                _add_failure(report, work, problem, f"    seed {seed}, turn {turn}")
            else:
                report.counts["result"] += 1
            shutil.rmtree(folder)
            turn += 1
    report.seconds = time.perf_counter() - start
    return report


def _add_failure(report: Report, work: Work, problem: str, example: str) -> None:
    verdict = problem.partition(":")[0]
    report.counts[verdict] += 1
    outcome = Outcome(verdict, problem, f"{work.name}: {problem[:60]}")
    report.failures.setdefault(outcome.place, Failure(work.name, outcome, example, 0)).count += 1
