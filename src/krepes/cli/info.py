"""`krepes info`: what a model file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from krepes.cli import options
from krepes.cli.session import command

if TYPE_CHECKING:
    from rich.table import Table

_PARTS = {
    "landmarks": "landmarks (rows of the training data)",
    "A": "coefficients A",
    "gamma": "intercept",
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
def info(model: options.Model, verbose: options.Verbose = False) -> None:
    """Show what a model is, which columns it uses, and what its file holds."""
    from krepes.cli.data import check_exists

    check_exists(model)
    from krepes import load
    from krepes.base.files import readable_bytes
    from krepes.base.model_file import read, sizes
    from krepes.cli.describe import column_roles, console, facts, model_facts

    embedding = load(model, device="cpu")
    header, _ = read(model)
    out = console()
    size = readable_bytes(model.stat().st_size)
    written = f"krepes {header['version']}, format {header['format']}"
    out.print(facts({"file": f"{model}, {size}", "written by": written} | model_facts(embedding)))
    encoder = embedding.input_space_.encoder
    if encoder is not None:
        out.print(column_roles(encoder, None if verbose else 60))
    out.print(_sizes(sizes(model)))
    if embedding.moments_ is None:
        why = "Trained on samples" if embedding.solver_.data == "samples" else "Without moments"
        out.print(f"{why}: it transforms, but cannot be refitted, continued or merged.")
    else:
        out.print(
            "With moments: it can be refitted with another loss or width, continued and merged, without the data."
        )
    landmarks = f"{len(embedding.landmarks_):,}"
    out.print(
        f"[yellow]Its {landmarks} landmarks are rows of the training data: share the file as you would the data.[/]"
    )


def _sizes(tensors: dict[str, int]) -> Table:
    """Bytes by part, largest first."""
    from krepes.base.files import readable_bytes
    from krepes.cli.describe import simple_table

    parts: dict[str, int] = {}
    for name, size in tensors.items():
        part = _PARTS.get(name.lstrip(".").split(".")[0], "other")
        parts[part] = parts.get(part, 0) + size
    table = simple_table("part", "size", right=("size",))
    for part, size in sorted(parts.items(), key=lambda item: -item[1]):
        table.add_row(part, readable_bytes(size))
    return table
