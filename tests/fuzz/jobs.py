"""Jobs side by side, each in a forked child: one that crashes or hangs is a failure, and the others go on."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from selectors import EVENT_READ, DefaultSelector

from fuzz.cases import Failure, Report
from fuzz.outcome import Outcome

SECONDS = 900.0  # a job that takes longer hangs, on a machine that does nothing else
MORE_BYTES = 4 * 2**30  # of memory, beyond what the parent has: a forged number must not take all there is


@dataclass
class Job:
    """Some work that gives a report.

    Attributes
    ----------
    kind : "cases", "files", "kills", "threads" or "loaders"
    name : for messages
    run : in the child
    """

    kind: str
    name: str
    run: Callable[[], Report]
    process: int = 0
    started: float = 0.0
    received: bytearray = field(default_factory=bytearray)

    def start(self) -> int:
        """Fork; the end of the pipe that the report comes from."""
        out, into = os.pipe()
        self.process, self.started = os.fork(), time.monotonic()
        if self.process:
            os.close(into)
            return out
        try:
            os.close(out)
            with os.fdopen(into, "wb") as stream:
                stream.write(pickle.dumps(self._reported()))
        finally:
            os._exit(0)

    def _reported(self) -> Report:
        try:
            limit_memory()
            return self.run()
        except BaseException:
            return failed(self, f"the harness itself failed:\n{traceback.format_exc()[-3000:]}")

    def report(self, limit: float) -> Report:
        """What has arrived; a failure where that is nothing."""
        _, status = os.waitpid(self.process, 0)
        if status or not self.received:
            how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
            return failed(
                self, f"the process ended with {how}: a crash, or it took longer than {limit:.0f} s"
            )
        return pickle.loads(self.received)


def failed(job: Job, text: str) -> Report:
    report = Report()
    report.counts["unclear"] += 1
    report.failures[f"{job.name} {text[:60]}"] = Failure(job.name, Outcome("unclear", text, job.name), "")
    return report


def limit_memory() -> None:
    """An allocation of all memory is an error, not the end of this machine."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE_BYTES, now + MORE_BYTES))


def run_jobs(jobs: list[Job], n_processes: int, limit: float = SECONDS) -> Iterator[tuple[Job, Report]]:
    """Reports in the order in which they arrive."""
    waiting, selector = list(jobs), DefaultSelector()
    while waiting or selector.get_map():
        while waiting and len(selector.get_map()) < n_processes:
            job = waiting.pop(0)
            selector.register(job.start(), EVENT_READ, job)
        for key, _ in selector.select(timeout=1.0):
            part = os.read(key.fd, 2**20)
            key.data.received += part
            if not part:
                selector.unregister(key.fd)
                os.close(key.fd)
                yield key.data, key.data.report(limit)
        for key in list(selector.get_map().values()):
            if time.monotonic() - key.data.started > limit:
                os.kill(key.data.process, signal.SIGKILL)
