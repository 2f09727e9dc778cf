"""What krepes says while it works: the progress of long stages, and warnings that point to the caller's line.

A stage has a name, a number of steps and a rate. The library reports through this small interface; who draws it is
decided by the caller. `Silent` draws nothing. `Bars` draws on a terminal, and only stages that last longer than a
second.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich import progress

logger = logging.getLogger("krepes")


class Stage(Protocol):
    def advance(self, steps: int) -> None: ...

    def describe(self, text: str) -> None: ...


class Progress(Protocol):
    def stage(
        self, name: str, total: int | None = None, unit: str = "rows"
    ) -> AbstractContextManager[Stage]: ...


class _Quiet:
    def advance(self, steps: int) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class Silent:
    """No display; the duration of every stage goes to the log."""

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> Iterator[Stage]:
        start = time.perf_counter()
        yield _Quiet()
        logger.info("%s: %.1f s", name, time.perf_counter() - start)


class _Bar:
    def __init__(self, display: progress.Progress, task: progress.TaskID):
        self.display, self.task, self.start = display, task, time.perf_counter()

    def advance(self, steps: int) -> None:
        self.display.advance(self.task, steps)
        if speed := self.display.tasks[0].speed:
            self.display.update(self.task, rate=f"{speed:,.0f}/s")
        if time.perf_counter() - self.start > 1:
            self.display.update(self.task, visible=True)

    def describe(self, text: str) -> None:
        self.display.update(self.task, description=text)


class Bars:
    """Bars with rate and time left on standard error; nothing where that is not a terminal."""

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> Iterator[Stage]:
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[unit]}, {task.fields[rate]}"),
            progress.TimeRemainingColumn(),
        )
        console = Console(stderr=True)
        if not console.is_terminal:
            with Silent().stage(name, total, unit) as stage:
                yield stage
            return
        with progress.Progress(*columns, console=console, transient=True) as display:
            task = display.add_task(name, total=total, visible=False, unit=unit, rate="")
            yield _Bar(display, task)


def display(verbose: int) -> Progress:
    """Bars if verbose, silence otherwise."""
    return Bars() if verbose else Silent()


# Code that stands between a user and the line that warns: our own, and scikit-learn's wrappers of methods.
OURS = str(Path(__file__).resolve().parents[1])
WRAPPERS = ("sklearn.base", "sklearn.utils", "contextlib")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line of the call stack that belongs to neither."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _between(
        frame.f_code.co_filename, frame.f_globals.get("__name__", "")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def named_few(what: str, items: Sequence[object], most: int = 3) -> str:
    """What a warning is about: the first few of it.

    >>> named_few("column", [2]), named_few("row", [5, 7, 8, 9])
    ('column 2', 'rows 5, 7, 8 and 1 more')
    """
    shown, more = ", ".join(map(str, items[:most])), len(items) - most
    return f"{what}{'s' * (len(items) > 1)} {shown}" + (f" and {more:,} more" if more > 0 else "")


def _between(file: str, module: str) -> bool:
    return file.startswith(OURS) or module.startswith(WRAPPERS)
