"""A model that was just written: what it is, how long it took, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from krepes.cli.terminal import line, show_facts

if TYPE_CHECKING:
    from krepes.one_pass import OnePassEstimator
    from krepes.sources import Source


def saved_facts(output: Path, seconds: float) -> dict[str, str]:
    """The last lines about a model that was written."""
    from krepes.base.files import readable_bytes

    return {"time": f"{seconds:.1f} s", "saved": f"{output}, {readable_bytes(output.stat().st_size)}"}


def saved_numbers(source: Source, output: Path, seconds: float) -> dict[str, Any]:
    """The same for --json."""
    size = output.stat().st_size
    return {"data": source.describe(), "model": str(output), "bytes": size, "seconds": seconds}


def show_saved(model: OnePassEstimator, output: Path, seconds: float, following: str, note: str = "") -> None:
    """Print what was learned, where it is, and the next command."""
    from krepes.cli.describe import facts_of, held_words

    show_facts(facts_of(model) | saved_facts(output, seconds))
    if note:
        line(note, style="dim")
    line(held_words(model))
    line(f"Next: {following}")
