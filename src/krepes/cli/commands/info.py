"""`krepes info`: what a model file holds."""

from __future__ import annotations

from typing import Any

from krepes.cli import options
from krepes.cli.command import command

_PARTS = {
    "landmarks": "landmarks (rows of the training data)",
    "A": "coefficients A",
    "gamma": "intercept",
    "spread": "scale of the components",
    "change": "scale of the components",
    "F": "Nyström factors F",
    "eigenvalues": "Nyström factors F",
    "moments": "moments",
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
    from krepes.cli.opening import check_exists

    check_exists(model)
    from krepes import load
    from krepes.base.files import readable_bytes
    from krepes.base.model_file import read, sizes
    from krepes.cli.describe import (
        column_roles,
        console,
        facts,
        line,
        model_facts,
        model_summary,
        simple_table,
    )

    embedding = load(model, device="cpu")
    header, _ = read(model)
    out, size = console(), model.stat().st_size
    written = f"krepes {header['version']}, format {header['format']}"
    file = {"file": f"{model}, {readable_bytes(size)}", "written by": written}
    out.print(facts(file | model_facts(embedding)))
    encoder = embedding.input_space_.encoder
    if encoder is not None:
        out.print(column_roles(encoder, None if verbose else 60))
    parts = _parts(sizes(model))
    table = simple_table("part", "size", right=("size",))
    for part, taken in parts.items():
        table.add_row(part, readable_bytes(taken))
    out.print(table)
    if embedding.moments_ is None:
        why = "Trained on samples" if embedding.solver_.data == "samples" else "Without moments"
        line(f"{why}: it transforms, but cannot be refitted, continued or merged.")
    else:
        line(
            "With moments: it can be refitted with another loss or width, continued and merged, without the data."
        )
    line(
        f"Its {len(embedding.landmarks_):,} landmarks are rows of the training data: share the file as you would the "
        "data.",
        style="yellow",
    )
    about = {"file": str(model), "bytes": size, "version": header["version"], "format": header["format"]}
    return about | model_summary(embedding) | {"parts": parts}


def _parts(tensors: dict[str, int]) -> dict[str, int]:
    """Bytes by part, largest first."""
    parts: dict[str, int] = {}
    for name, size in tensors.items():
        part = _PARTS.get(name.lstrip(".").split(".")[0], "other")
        parts[part] = parts.get(part, 0) + size
    return dict(sorted(parts.items(), key=lambda item: -item[1]))
