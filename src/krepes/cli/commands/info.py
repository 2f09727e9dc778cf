"""`krepes info`: what a model file holds."""

from __future__ import annotations

from typing import Any

from krepes.cli import options
from krepes.cli.command import command

_PARTS = {
    "landmarks": "landmarks (rows of the training data)",
    "sums": "sums over rows, and kept rows of the training data if there are any",
    "solution": "coefficients, and what predictions need besides",
    "targets": "targets",
    "F": "Nyström factors F",
    "eigenvalues": "Nyström factors F",
    "moments": "moments",
    "groups": "sums by group",
    "rows_seen": "row numbers",
    "input_space": "preprocessing",
    "kernel": "kernel",
    "kernel_probe": "kernel",
    "views": "views",
    "loss": "loss",
    "landmark_indices": "landmark row numbers",
}


@command
def info(model: options.Model, verbose: options.Verbose = False) -> dict[str, Any]:
    """Show what a model is, which columns it uses, and what its file holds."""
    from krepes import load
    from krepes.base.files import readable_bytes
    from krepes.base.model_file import read, sizes
    from krepes.cli import describe
    from krepes.cli.terminal import console, line, show_facts, table

    fitted = load(model, device="cpu")
    header, _ = read(model)
    size = model.stat().st_size
    written = f"krepes {header['version']}, format {header['format']}"
    file = {"file": f"{model}, {readable_bytes(size)}", "written by": written}
    show_facts(file | describe.facts_of(fitted))
    encoder = fitted.input_space_.encoder
    if encoder is not None:
        console().print(describe.column_table(encoder, None if verbose else describe.SHOWN_COLUMNS))
    parts = _parts(sizes(model))
    shown = table("part", "size", right=("size",))
    for part, taken in parts.items():
        shown.add_row(part, readable_bytes(taken))
    console().print(shown)
    line(describe.ability_words(fitted))
    line(describe.held_words(fitted), style="yellow")
    about = {"file": str(model), "bytes": size, "version": header["version"], "format": header["format"]}
    return about | describe.summary_of(fitted) | {"parts": parts}


def _parts(tensors: dict[str, int]) -> dict[str, int]:
    """Bytes by part, largest first."""
    parts: dict[str, int] = {}
    for name, size in tensors.items():
        part = _PARTS.get(name.lstrip(".").split(".")[0], "other")
        parts[part] = parts.get(part, 0) + size
    return dict(sorted(parts.items(), key=lambda item: -item[1]))
