"""A published experiment that is more than a table of probes: it runs, and gives a table, sentences and a figure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krepes import __version__
from krepes.base.storage.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Conditions:
    """What an experiment is run with.

    Attributes
    ----------
    data, weights, cache : Path or None
        Folders of data sets, of network weights, and for features that are expensive to compute.
    rows, repeats : int or None
        Its size; None is the experiment's own default.
    seed : int
    say : callable(str)
        Told of progress.
    """

    data: Path | None = None
    weights: Path | None = None
    cache: Path | None = None
    rows: int | None = None
    repeats: int | None = None
    seed: int = 0
    say: Callable[[str], None] = field(default=lambda _text: None, compare=False)


@dataclass(frozen=True)
class Findings:
    """What an experiment found.

    Attributes
    ----------
    columns : the table's columns.
    table : one tuple a row: text as it is, numbers as the command prints them (4 significant digits).
    summary : sentences with the figures that matter.
    draw : callable() -> matplotlib Figure, or None
    """

    columns: tuple[str, ...]
    table: list[tuple[Any, ...]]
    summary: tuple[str, ...]
    draw: Callable[[], Figure] | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper or thesis.

    Attributes
    ----------
    name : str
        On the command line.
    title : str
    run : callable(Conditions) -> Findings
    needs : of "data" and "weights", folders without which it does not run.
    notes : how ours differs, in sentences.
    """

    name: str
    title: str
    run: Callable[[Conditions], Findings]
    needs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def check(self, conditions: Conditions) -> None:
        """Say what is missing before anything is computed."""
        for name in self.needs:
            folder = getattr(conditions, name)
            if folder is None:
                raise ValueError(f"{self.name} needs --{name} FOLDER.")
            if not folder.is_dir():
                raise FileNotFoundError(f"--{name} {folder}: there is no such folder.")


def write_findings(
    path: Path, experiment: Experiment, conditions: Conditions, findings: Findings, force: bool
) -> None:
    """The table and the summary as JSON."""
    settings = {
        name: value
        for name, value in asdict(conditions).items()
        if name in ("rows", "repeats", "seed") and value is not None
    }
    content = {
        "experiment": experiment.name,
        "settings": settings,
        "version": __version__,
        "columns": findings.columns,
        "table": findings.table,
        "summary": findings.summary,
    }
    with atomic_path(path, overwrite=force) as temporary:
        temporary.write_text(json.dumps(content, indent=1, default=float))
