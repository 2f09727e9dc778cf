"""`krepes fit --base` and `krepes train --base`: the sums of one part of the data, for `krepes merge`; and --follow."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from krepes.cli.option_defaults import TABLE
from krepes.cli.session import terminated_gently

if TYPE_CHECKING:
    from krepes.embedding import KernelEmbedding
    from krepes.one_pass import OnePassEstimator
    from krepes.sources import Source

M = TypeVar("M", bound="OnePassEstimator")
RUNNING = ("device",)  # options that say how, not what


def refuse_options(owner: str, parameters: Mapping[str, Any], others: Mapping[str, object], why: str) -> None:
    """Refuse options of the model where another file says what it is."""
    for row in TABLE[owner]:
        if row.name not in RUNNING and parameters.get(row.name, row.default) != row.default:
            raise typer.BadParameter(f"{row.option.split()[0]}: {why}")
    refuse_given(others, why)


def refuse_given(options: Mapping[str, object], why: str) -> None:
    """Refuse options that were given, where they mean nothing."""
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"{name}: {why}")


def continued(base: Path, kind: type[M], device: str) -> M:
    """A base without its rows."""
    from krepes import load

    model = load(base, device=device)
    if not isinstance(model, kind):
        raise ValueError(f"--base {base} holds a {type(model).__name__}, which this command does not make.")
    copy = model.empty_copy()
    copy.verbose = 1
    return copy


def fit_part(
    model: OnePassEstimator, source: Source, output: Path, overwrite: bool, **given: Any
) -> dict[str, Any]:
    """Sum up the rows of a part, save them, and say what to do next."""
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import console, facts, line

    start = time.perf_counter()
    model.partial_fit(source, **given)
    model.verbose = 0
    model.save(output, overwrite=overwrite)
    seconds = time.perf_counter() - start
    size = output.stat().st_size
    following = f"krepes merge {output} OTHERS ... -o all.krepes"
    shown = {
        "rows": f"{model.n_samples_seen_:,} ({model.rows_seen_})",
        "time": f"{seconds:.1f} s",
        "saved": f"{output}, {readable_bytes(size)}",
    }
    console().print(facts(shown))
    line(f"Next: {following}")
    return {
        "data": source.describe(),
        "model": str(output),
        "bytes": size,
        "seconds": seconds,
        "rows": model.n_samples_seen_,
        "ranges": list(model.rows_seen_.ranges) if model.rows_seen_ is not None else None,
        "groups": model.groups_,
        "next": following,
    }


def follow(
    folder: Path, model: KernelEmbedding, output: Path, once: bool, poll: float, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Absorb the files of a folder until told to stop; a model that is there already is continued."""
    from krepes import load
    from krepes.cli.describe import line
    from krepes.streams.follow import Follower

    if output.exists():
        found = load(output, device=model.device)
        if type(found) is not type(model) or (found.n_samples_seen_ and not found.tally_.files):
            raise ValueError(
                f"{output} exists, and was not written by --follow. Choose another name; to start from it, give --base "
                f"{output}."
            )
        model = found
        line(f"{output}: continued after {len(model.tally_.files):,} files, {model.n_samples_seen_:,} rows.")
    model.verbose = 0
    follower = Follower(folder, model, output, poll, arguments, report=_told)
    with terminated_gently(KeyboardInterrupt):  # ends as Ctrl-C does, with the model written
        done = follower.run(once)
    names = len(done.absorbed)
    seen = getattr(follower.model, "n_samples_seen_", 0)
    line(f"{names:,} files absorbed, {len(done.set_aside):,} set aside; {seen:,} rows in {output}.")
    return {
        "model": str(output) if output.exists() else None,
        "absorbed": list(done.absorbed),
        "set_aside": done.set_aside,
        "rows": seen,
        "stopped": done.stopped,
    }


def _told(text: str) -> None:
    """A line that a log has at once."""
    from krepes.cli.describe import line

    line(text)
    sys.stdout.flush()
