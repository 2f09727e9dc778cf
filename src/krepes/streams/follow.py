"""A folder that files arrive in: each is absorbed once, and the model on disk always knows which.

    new file -> at rest? -> sums of its rows -> model + ledger -> one file, written atomically

The ledger, a record of every file by name, is part of the model file. Sums and ledger are replaced together, so that a
process killed at any moment leaves a model and the list of exactly the files that are in it. A file is at rest when its
size and time have not changed between two looks, or its time is older than that: one that was renamed into the folder
counts at once. Files that cannot be read, or do not fit, are set aside with the reason, and tried again when they
change.
"""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krepes.base.validation import check_number
from krepes.one_pass import OnePassEstimator

logger = logging.getLogger("krepes")

ROWS = (".parquet", ".pq", ".csv", ".tsv", ".npy", ".npz")
SAVE_SECONDS = 30.0  # between two writes of the model while files are absorbed

Stamp = tuple[int, int]  # size, time of the last change in nanoseconds


@dataclass(frozen=True)
class Followed:
    """What a run has done: names of the files, and why some were set aside."""

    absorbed: tuple[str, ...]
    set_aside: dict[str, str]
    stopped: bool


@dataclass
class Follower:
    """Absorbs the files of a folder into a model.

    Parameters
    ----------
    folder : path
        Its Parquet, CSV, .npy and .npz files are absorbed, in the order of their names. Subfolders, and files whose
        names begin with a dot or an underscore or end otherwise, such as .tmp or .part, are not looked at.
    model : estimator with `partial_fit`
        Not fitted: the first file fixes preprocessing, kernel and landmarks. Or fitted, or read from `output`, where
        the ledger of an earlier run is.
    output : path
        Where the model is written, over what is there.
    poll : float, default=2
        Seconds between two looks at the folder.
    arguments : dict
        What `partial_fit` takes beside the rows, such as half_life or groups.
    opener : callable(path) -> rows, optional
        By default the path itself is given to `partial_fit`.
    report : callable(str), optional
        Is told what happens, line by line.
    """

    folder: Path
    model: OnePassEstimator
    output: Path
    poll: float = 2.0
    arguments: dict[str, Any] = field(default_factory=dict)
    opener: Callable[[Path], Any] = str
    report: Callable[[str], None] = logger.info

    def __post_init__(self) -> None:
        if not Path(self.folder).is_dir():
            raise NotADirectoryError(f"{self.folder} is not a folder: name the one that files arrive in.")
        check_number("poll", self.poll, "a number of seconds", above=0)
        self._seen: dict[str, Stamp] = {}
        self._before_fit: dict[str, dict[str, Any]] = {}  # the ledger, while there is no model to keep it
        self._unsaved, self._told = False, set[str]()
        self._saved_at = time.monotonic()
        self._absorbed: list[str] = []

    @property
    def ledger(self) -> dict[str, dict[str, Any]]:
        """By file name: size, modified, first_row, rows; and problem, None where it was absorbed."""
        known = self.model.tally_.files if hasattr(self.model, "tally_") else {}
        return {**self._before_fit, **known}

    def run(self, once: bool = False) -> Followed:
        """Absorb what arrives until interrupted (Ctrl-C); with `once`, what is there. The model is written then."""
        stopped = False
        try:
            while not (self._round() and once):
                time.sleep(self.poll)
        except KeyboardInterrupt:
            stopped = True
        self._save()
        problems = {name: entry["problem"] for name, entry in self.ledger.items()}
        aside = {name: problem for name, problem in problems.items() if problem is not None}
        return Followed(tuple(self._absorbed), aside, stopped)

    def _round(self) -> bool:
        """Look at the folder once, and absorb what is at rest; whether nothing is left to wait for."""
        for name in self._at_rest():
            self._absorb(name)
            if time.monotonic() - self._saved_at > SAVE_SECONDS:
                self._save()
        self._save()
        return not list(self._new())

    def _new(self) -> Iterator[tuple[str, Stamp]]:
        """Files that are not in the ledger, or were set aside and have changed since."""
        ledger = self.ledger
        for name in sorted(os.listdir(self.folder)):
            path = self.folder / name
            if name.startswith((".", "_")) or path.suffix.lower() not in ROWS or not path.is_file():
                continue
            stamp, entry = _stamp(path), ledger.get(name)
            if stamp is None or (entry is not None and (entry["size"], entry["modified"]) == stamp):
                continue
            if entry is None or entry["problem"] is not None:
                yield name, stamp
            elif name not in self._told:
                self._told.add(name)
                self.report(
                    f"{name} has changed since it was absorbed; what it held then stays in the model."
                )

    def _at_rest(self) -> list[str]:
        before, self._seen = self._seen, dict(self._new())
        old = time.time_ns() - 1e9 * self.poll
        return [name for name, stamp in self._seen.items() if stamp[1] <= old or before.get(name) == stamp]

    def _absorb(self, name: str) -> None:
        """Add a file's rows and its line in the ledger, both or neither."""
        path = self.folder / name
        stamp = _stamp(path)
        if stamp is None:  # gone again
            return
        grown, problem = copy.copy(self.model), None
        before = grown.next_row_ if hasattr(grown, "tally_") else 0
        try:
            grown.partial_fit(self.opener(path), **self.arguments)
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError, OSError, EOFError, NotImplementedError) as error:
            problem, grown = " ".join(str(error).split()), self.model
        if problem is None and _stamp(path) != stamp:
            self.report(f"{name} changed while it was read, and will be read again.")
            return
        rows = grown.next_row_ - before if problem is None else 0
        entry = {
            "size": stamp[0], "modified": stamp[1], "first_row": before, "rows": rows, "problem": problem
        }  # fmt: skip
        if hasattr(grown, "tally_"):
            files = {**self._before_fit, **grown.tally_.files, name: entry}
            self.model, self._before_fit = grown.with_files(files), {}
            self._unsaved = True
        else:
            self._before_fit[name] = entry
        if problem is None:
            self._absorbed.append(name)
            self.report(f"{name}: {rows:,} rows, {grown.n_samples_seen_:,} in all.")
        else:
            self.report(f"{name} is set aside: {problem}")

    def _save(self) -> None:
        if self._unsaved:
            self.model.save(self.output, overwrite=True)
            self._unsaved = False
        self._saved_at = time.monotonic()


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
