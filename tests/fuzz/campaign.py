"""A run of everything: jobs for cases, files, kills, threads, loaders; a table of what was counted; the failures."""

from __future__ import annotations

import argparse
import functools
import importlib
import re
import sys
import time
from collections import Counter

import torch

from fuzz.cases import Report, run_target, shares, warm_up
from fuzz.forgery import run_files
from fuzz.jobs import SECONDS, Job, run_jobs
from fuzz.killed_fits import WORKS
from fuzz.kills import IMPORTED, run_kills
from fuzz.misbehaving import run_misbehaving
from fuzz.targets import TARGETS, uncovered
from fuzz.threads import run_threads

CHUNK = 400  # cases of one job
FILES = 1250  # of one job
COLUMNS = ("result", "clear", "unclear", "not finite", "changed", "lost")


def say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fuzz krepes and count what went wrong.")
    parser.add_argument("--cases", type=int, default=20_000, help="over all targets")
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument(
        "--threads", type=int, default=100, help="calls of each of 8 threads, for every model"
    )
    parser.add_argument("--loaders", type=int, default=1200, help="loaders and views that misbehave")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds after which a job hangs")
    parser.add_argument(
        "--only", default="", help="targets (and work to kill) whose name or public name contains this"
    )
    parser.add_argument("--no-shrink", action="store_true", help="print failing inputs as they were drawn")
    parser.add_argument("--messages", action="store_true", help="print every clear message once")
    return parser.parse_args()


def planned(options: argparse.Namespace) -> list[Job]:
    """The jobs, the longest first."""
    jobs = []
    works = [work for work in WORKS if options.only in work.name] or WORKS
    n_parts = min(4, len(works), 1 + options.kills // 20)
    parts = [works[i::n_parts] for i in range(n_parts)]
    for i, part in enumerate(parts):
        n = options.kills // len(parts) + (i < options.kills % len(parts))
        if n:
            jobs.append(
                Job("kills", f"kills {i}", functools.partial(run_kills, options.seed + i, n, works=part))
            )
    if options.threads:
        jobs.append(Job("threads", "threads", functools.partial(run_threads, options.threads)))
    for start in range(0, options.loaders, CHUNK):
        run = functools.partial(run_misbehaving, min(CHUNK, options.loaders - start), options.seed + start)
        jobs.append(Job("loaders", f"loaders {start}", run))
    for start in range(0, options.files, FILES):
        indices = range(start, min(start + FILES, options.files))
        jobs.append(Job("files", f"files {start}", functools.partial(run_files, options.seed, indices)))
    chosen = [t for t in TARGETS.values() if any(options.only in name for name in (t.name, *t.covers))]
    for name, n in shares(chosen, options.cases).items() if options.cases else ():
        for i, start in enumerate(range(0, n, CHUNK)):
            size = min(CHUNK, n - start)
            seed = 1000 * options.seed + i
            run = functools.partial(run_target, TARGETS[name], size, seed, not options.no_shrink)
            jobs.append(Job("cases", f"{name} {i}", run))
    return jobs


def line(name: str, counts: Counter[str], seconds: float | None = None) -> str:
    total = counts["kills"] or sum(counts[column] for column in COLUMNS)
    numbers = "".join(f"{counts[column]:>12,}" for column in COLUMNS)
    return f"{name:<34}{total:>9,}{numbers}" + ("" if seconds is None else f"{seconds:>9.0f} s")


def table(totals: dict[str, Report]) -> None:
    say(f"\n{'':<34}{'number':>9}" + "".join(f"{column:>12}" for column in COLUMNS) + f"{'time':>11}")
    for name, counts in sorted(totals["cases"].by_target.items()):
        say(line(name, counts))
    say()
    for kind, report in totals.items():
        say(line(kind, report.counts, report.seconds))
    kills = totals["kills"].counts
    if kills["kills"]:
        by_work = ", ".join(f"{name} {counts['kills']}" for name, counts in totals["kills"].by_target.items())
        say(
            f"\nOf {kills['sent']} processes {kills['kills']} were killed before their end ({by_work}). "
            f"{kills['resumed']} starts found a checkpoint; {kills['result']} outputs had the same bytes."
        )


def messages(totals: dict[str, Report]) -> None:
    """Every clear error once, numbers left out, so that a reader can judge the words."""
    found: Counter[str] = Counter()
    for text, count in sum((report.messages for report in totals.values()), Counter[str]()).items():
        found[re.sub(r"[-+]?\d[\d.,e+-]*", "#", text)] += count
    for text, count in sorted(found.items()):
        say(f"{count:>6}  {text}")


def main() -> int:
    options = parsed()
    torch.set_num_threads(1)
    for module in IMPORTED:  # once, not in every child
        importlib.import_module(module)
    if options.cases:
        warm_up()
    missing = uncovered()
    if missing:
        say(f"No target covers {', '.join(missing)}: add one to tests/fuzz, or name it in targets.INNER.")
    jobs, start = planned(options), time.perf_counter()
    totals = {kind: Report() for kind in ("cases", "files", "kills", "threads", "loaders")}
    for done, (job, report) in enumerate(run_jobs(jobs, options.processes, options.limit), start=1):
        totals[job.kind].add(report)
        place = f"[{done}/{len(jobs)}] {time.perf_counter() - start:4.0f} s"
        say(f"{place}  {line(job.name, report.counts, report.seconds)}")
    table(totals)
    if options.messages:
        messages(totals)
    for text in (text for report in totals.values() for text in report.slow):
        say(f"\nslow: {text}")
    failures = [failure for report in totals.values() for failure in report.failures.values()]
    for number, failure in enumerate(failures, start=1):
        say(f"\n--- failure {number}: {failure.text()}")
    say(
        f"\n{len(failures)} failures in {(time.perf_counter() - start) / 60:.1f} minutes, seed {options.seed}."
    )
    return 1 if failures or missing else 0
