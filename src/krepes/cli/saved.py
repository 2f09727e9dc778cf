"""Fit a model, write its file, and say what it is, how long it took, and what to do next."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from krepes.cli.terminal import line, show_facts

if TYPE_CHECKING:
    import numpy as np

    from krepes.cli.options import Parts
    from krepes.one_pass import OnePassEstimator
    from krepes.sources import Source


def learn(
    model: OnePassEstimator, source: Source, y: np.ndarray | None, weight: np.ndarray | None, parts: Parts
) -> None:
    """Fit, once the use of every column is printed."""
    from krepes.cli.describe import show_columns

    targets = () if y is None else (y,)
    how: dict[str, Any] = {"sample_weight": weight, "checkpoint": parts.checkpoint}
    if parts.groups is not None:
        if "groups" not in inspect.signature(model.fit).parameters:
            raise typer.BadParameter(f"--groups: a {type(model).__name__} keeps no sums.")
        how["groups"] = parts.groups
    space = model.prepare(source, *targets, sample_weight=weight)
    show_columns(space.inputs)
    model.fit(source, *targets, space=space, **how).set_params(verbose=0)


def saved_facts(output: Path, seconds: float) -> dict[str, str]:
    """The last lines about a model that was written."""
    from krepes.base.files import readable_bytes

    return {"time": f"{seconds:.1f} s", "saved": f"{output}, {readable_bytes(output.stat().st_size)}"}


def saved_numbers(source: Source, output: Path, seconds: float) -> dict[str, Any]:
    """The same for --json."""
    size = output.stat().st_size
    return {"data": source.describe(), "model": str(output), "bytes": size, "seconds": seconds}


def show_saved(
    model: OnePassEstimator, source: Source, output: Path, seconds: float, following: str, note: str = ""
) -> dict[str, Any]:
    """Print what was learned, where it is, and the next command; the same for --json."""
    from krepes.cli.describe import facts_of, held_words, summary_of

    show_facts(facts_of(model) | saved_facts(output, seconds))
    if note:
        line(note, style="dim")
    line(held_words(model))
    line(f"Next: {following}")
    return saved_numbers(source, output, seconds) | summary_of(model) | {"next": following}
