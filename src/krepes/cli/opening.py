"""Opening what a path on the command line names: rows, with progress where that needs a scan, and models."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import typer

from krepes import load
from krepes.base.reporting import Bars
from krepes.cli.session import check_exists, url_of
from krepes.one_pass import OnePassEstimator
from krepes.report.facts import input_words
from krepes.sources import Source, open_source

M = TypeVar("M", bound=OnePassEstimator)

# The kinds of rows that a model takes, by the kind that it was fitted on.
FITS = {
    "table": ("table", "vectors"),
    "vectors": ("vectors", "sparse"),
    "sparse": ("sparse", "vectors"),
    "images": ("images",),
    "series": ("vectors", "images"),
}
USES = {"KernelEmbedding": "transform", "NoveltyDetector": "detect", "KernelAutoencoder": "reconstruct"}


def parse_size(size: str | None) -> tuple[int, int] | None:
    """`32` or `48x42` (height × width) as a pair.

    >>> parse_size("48x42")
    (48, 42)
    """
    if size is None:
        return None
    parts = size.lower().replace("×", "x").split("x")
    if len(parts) > 2 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"--size {size}: expected a number of pixels such as 32, or height x width such as 48x42."
        )
    numbers = [int(part) for part in parts]
    return numbers[0], numbers[-1]


def open_data(
    path: Path, array: str = "X", size: tuple[int, int] | None = None, encoding: str | None = None
) -> Source:
    """A source of the rows of a file or folder."""
    check_exists(path)
    seen = 0
    with Bars().stage("Reading") as stage:

        def progress(rows: int) -> None:
            nonlocal seen
            stage.advance(rows - seen)
            seen = rows

        return open_source(url_of(path) or path, array=array, size=size, encoding=encoding, progress=progress)


def open_for(model: OnePassEstimator, path: Path, array: str = "X", encoding: str | None = None) -> Source:
    """A source of rows for a fitted model; images are brought to the model's size.

    The model decides what columns are and which words are missing values; only the encoding of a file may differ.
    """
    space = model.input_space_
    folder = path.expanduser().is_dir()
    size = (space.shape[0], space.shape[1]) if space.kind == "images" and folder else None
    source = open_data(path, array, size, encoding)
    if source.kind not in FITS.get(space.kind, ()):
        raise ValueError(f"The model was fitted on {input_words(space)}; {path} is {source.describe()}.")
    return source


def load_model(path: Path, device: str, *kinds: type[M], made_by: str = "") -> M:
    """The model of a file; an error where it is of none of the kinds, which are `made_by` another command."""
    model = load(path, device=device)
    if isinstance(model, kinds):
        return model
    raise ValueError(f"{other_use(model, path)} This command takes what `krepes {made_by}` writes.")


def other_use(model: OnePassEstimator, path: Path) -> str:
    """What a file holds, and what it is for."""
    kind = type(model).__name__
    if not isinstance(model, OnePassEstimator):
        return f"{path} holds a {kind}: in Python, krepes.load({str(path)!r}).predict(X) labels new rows."
    return f"{path} holds a {kind}: use `krepes {USES.get(kind, 'predict')} {path} DATA -o FILE`."


def label_in_fit(model: OnePassEstimator) -> str | None:
    """The column that `krepes fit --label`, or `krepes train --label`, named."""
    encoder = model.input_space_.encoder
    return getattr(model, "label_", None) if encoder is None else encoder.label
