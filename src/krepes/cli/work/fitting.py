"""Fit a model at once, in parts (`--base`, for `krepes merge`) or as files arrive (`--follow`); save it and say so."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import typer

from krepes import KernelEmbedding, load
from krepes.base.storage.files import readable_bytes
from krepes.cli.command import changed
from krepes.cli.describe import held_words, show_columns, summary_of
from krepes.cli.options import NewModel, NewRows, PartOptions
from krepes.cli.parameters import ModelOptions
from krepes.cli.session import terminated_gently
from krepes.cli.terminal import line, show_facts, show_next
from krepes.machines.labelled_machine import LabelledMachine
from krepes.one_pass import OnePassEstimator
from krepes.report.facts import model_facts
from krepes.sources import Source
from krepes.streams.follow import Follower

M = TypeVar("M", bound=OnePassEstimator)


def learn(
    model: OnePassEstimator,
    source: Source,
    y: np.ndarray | None,
    weight: np.ndarray | None,
    parts: PartOptions,
) -> None:
    """Fit, once the use of every column is printed."""
    targets = () if y is None else (y,)
    how: dict[str, Any] = {"sample_weight": weight, "checkpoint": parts.checkpoint}
    if parts.groups is not None:
        if "groups" not in inspect.signature(model.fit).parameters:
            raise typer.BadParameter(f"--groups: a {type(model).__name__} keeps no sums.")
        how["groups"] = parts.groups
    if isinstance(model, LabelledMachine) and model.may_be_in_cells(source.n_rows):
        model.fit(source, *targets, **how).set_params(verbose=0)
        show_columns(model.input_space_.encoder)
        return
    space = model.prepare(source, *targets, sample_weight=weight)
    show_columns(space.inputs.encoder)
    model.fit(source, *targets, space=space, **how).set_params(verbose=0)


def show_written(facts: dict[str, str], source: Source, output: Path, start: float) -> dict[str, Any]:
    """Print facts, how long it took since `start`, and the file that was written; the latter for --json."""
    seconds, size = time.perf_counter() - start, output.stat().st_size
    show_facts(facts | {"time": f"{seconds:.1f} s", "saved": f"{output}, {readable_bytes(size)}"})
    return {"data": source.describe(), "model": str(output), "bytes": size, "seconds": seconds}


def show_saved(
    model: OnePassEstimator, source: Source, output: Path, start: float, following: list[str], note: str = ""
) -> dict[str, Any]:
    """Print what was learned, where it is, and the next command; the same for --json."""
    written = show_written(model_facts(model), source, output, start)
    if note:
        line(note, style="dim")
    line(held_words(model))
    return written | summary_of(model) | {"next": show_next(*following)}


def refuse(options: Iterable[str], why: str) -> None:
    """Refuse options that were given, where they mean nothing."""
    for name in options:
        raise typer.BadParameter(f"{name}: {why}")


def brought(rows: NewRows, chosen: ModelOptions, parts: PartOptions) -> list[str]:
    """The options given that --base brings itself."""
    checkpoint = ["--checkpoint"] if parts.checkpoint else []
    return [*changed(chosen), *changed(rows, ("data", "array", "size", "encoding")), *checkpoint]


def continued(base: Path, device: str, verb: str, *kinds: type[M]) -> M:
    """The model of --base without its rows; one of another kind is for another `verb`."""
    model = load(base, device=device)
    if not isinstance(model, kinds):
        raise ValueError(f"--base {base} holds a {type(model).__name__}: use `krepes {verb} --base`.")
    return model.empty_copy().set_params(verbose=1)


def rows_held(model: OnePassEstimator) -> dict[str, Any]:
    """Which rows a model holds, for --json."""
    seen = model.rows_seen_
    ranges = None if seen is None else list(seen.ranges)
    return {"rows": model.n_samples_seen_, "ranges": ranges, "groups": model.groups_}


def fit_part(
    model: OnePassEstimator, source: Source, new: NewModel, parts: PartOptions, **given: Any
) -> dict[str, Any]:
    """Sum up the rows of a part, save them, and say what to do next."""
    start = time.perf_counter()
    model.partial_fit(source, first_row=parts.first_row, groups=parts.groups, **given).set_params(verbose=0)
    model.save(new.output, overwrite=new.overwrite)
    facts = {"rows": f"{model.n_samples_seen_:,} ({model.rows_seen_})"}
    written = show_written(facts, source, new.output, start)
    following = show_next("merge", new.output, "OTHERS", "...", "-o", "all.krepes")
    return written | rows_held(model) | {"next": following}


def follow(
    folder: Path, model: KernelEmbedding, output: Path, once: bool, poll: float, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Absorb the files of a folder until told to stop; a model that is there already is continued."""
    if output.exists():
        found = load(output, device=model.device)
        if type(found) is not type(model) or (found.n_samples_seen_ and not found.tally_.files):
            raise ValueError(
                f"{output} exists, and was not written by --follow. Choose another name; to start from it, give --base "
                f"{output}."
            )
        model = found
        line(f"{output}: continued after {len(model.tally_.files):,} files, {model.n_samples_seen_:,} rows.")
    follower = Follower(folder, model.set_params(verbose=0), output, poll, arguments, report=_told)
    with terminated_gently(KeyboardInterrupt):  # ends as Ctrl-C does, with the model written
        done = follower.run(once)
    seen = getattr(follower.model, "n_samples_seen_", 0)
    held = f"{seen:,} rows in {output}" if output.exists() else f"no rows, so that {output} was not written"
    line(f"{len(done.absorbed):,} files absorbed, {len(done.set_aside):,} set aside; {held}.")
    return {
        "model": str(output) if output.exists() else None,
        "absorbed": list(done.absorbed),
        "set_aside": done.set_aside,
        "rows": seen,
        "stopped": done.stopped,
    }


def _told(text: str) -> None:
    """A line that a log has at once."""
    line(text)
    sys.stdout.flush()
