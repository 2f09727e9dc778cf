"""Opening what a path on the command line names, with progress where opening needs a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from krepes.base.progress import Bars

if TYPE_CHECKING:
    from krepes.autoencoder import KernelAutoencoder
    from krepes.embedding import KernelEmbedding
    from krepes.machines import NoveltyDetector
    from krepes.machines.kernel_ridge.machine import RidgeMachine
    from krepes.machines.labelled_machine import LabelledMachine
    from krepes.one_pass import OnePassEstimator
    from krepes.preprocessing import InputSpace
    from krepes.sources import Source


def check_exists(*paths: Path | str | None) -> None:
    """Refuse a path that is not there before anything heavy is imported; a pattern is looked up when it is opened."""
    for path in paths:
        pattern = path is not None and any(mark in Path(path).name for mark in "*?[")
        if path is not None and not pattern and not Path(path).expanduser().exists():
            raise FileNotFoundError(f"There is no file or folder {path}.")


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
    from krepes.sources import open_source

    check_exists(path)
    with _counting("Reading") as progress:
        return open_source(path, array=array, size=size, encoding=encoding, progress=progress)


def load_embedding(path: Path, device: str) -> KernelEmbedding:
    """A representation that `krepes fit` wrote; an error where the file holds a machine."""
    from krepes import load

    return _embedding(load(path, device=device), path)


def _embedding(model: OnePassEstimator, path: Path) -> KernelEmbedding:
    from krepes import KernelEmbedding

    if not isinstance(model, KernelEmbedding):
        raise ValueError(f"{path} {_other_use(model, path)} A representation is what `krepes fit` writes.")
    return model


def load_decoding(path: Path, device: str) -> KernelEmbedding | KernelAutoencoder:
    """What can rebuild its rows: a representation or an autoencoder."""
    from krepes import KernelAutoencoder, load

    model = load(path, device=device)
    return model if isinstance(model, KernelAutoencoder) else _embedding(model, path)


def load_machine(path: Path, device: str) -> RidgeMachine:
    """A ridge machine that `krepes train` wrote; an error where the file holds something else."""
    from krepes.machines.kernel_ridge.machine import RidgeMachine

    model = load_predicting(path, device)
    if not isinstance(model, RidgeMachine):
        raise ValueError(
            f"{path} holds a {type(model).__name__}: this command is for ridge machines and representations. Use "
            f"`krepes predict {path} DATA -o FILE`."
        )
    return model


def load_predicting(path: Path, device: str) -> LabelledMachine[Any, Any]:
    """Any machine that `krepes train` wrote; an error where the file holds a representation."""
    from krepes import load
    from krepes.machines.labelled_machine import LabelledMachine

    model = load(path, device=device)
    if not isinstance(model, LabelledMachine):
        raise ValueError(
            f"{path} {_other_use(model, path)} A machine that predicts is what `krepes train DATA --label COLUMN -o "
            "MODEL` writes."
        )
    return model


def _other_use(model: OnePassEstimator, path: Path) -> str:
    """What a file holds, and what it is for."""
    kind = type(model).__name__
    if kind == "KernelEmbedding":
        return f"holds a representation, which predicts nothing: use `krepes transform {path} DATA -o FILE`."
    if kind == "NoveltyDetector":
        return f"holds a {kind}, which finds rows unlike others: use `krepes detect {path} DATA -o FILE`."
    if kind == "KernelAutoencoder":
        return f"holds a {kind}, which rebuilds rows: use `krepes reconstruct {path} DATA -o FILE`."
    return f"holds a {kind}, which predicts: use `krepes predict {path} DATA -o FILE`."


def load_detector(path: Path, device: str) -> NoveltyDetector:
    """A detector that `krepes train --task detect` wrote; an error where the file holds something else."""
    from krepes import load
    from krepes.machines import NoveltyDetector

    model = load(path, device=device)
    if not isinstance(model, NoveltyDetector):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which detects nothing: train a detector with `krepes train DATA "
            "--task detect -o MODEL`."
        )
    return model


def is_machine(path: Path) -> bool:
    """Whether a file holds what `krepes train` writes; cheap, because only its header is read."""
    from krepes.base.model_file import kind_of

    return kind_of(path).startswith(("KernelRidge", "GaussianProcess"))


def is_explained(path: Path) -> bool:
    """Whether a file holds what landmarks explain row by row: a representation or a ridge machine."""
    from krepes.base.model_file import kind_of

    return not kind_of(path).startswith(("GaussianProcess", "NoveltyDetector"))


def load_any(path: Path, device: str) -> OnePassEstimator:
    """Whatever model a file holds."""
    from krepes import load

    return load(path, device=device)


def open_for(model: OnePassEstimator, path: Path, array: str = "X", encoding: str | None = None) -> Source:
    """A source of rows for a fitted model; images are brought to the model's size.

    What columns are and which words are missing values is the model's; only how a file is encoded may differ.
    """
    space = model.input_space_
    folder = path.expanduser().is_dir()
    size = (space.shape[0], space.shape[1]) if space.kind == "images" and folder else None
    source = open_data(path, array, size, encoding)
    _check_kind(source, space, path)
    return source


def label_in_fit(model: OnePassEstimator) -> str | None:
    """The column that `krepes fit --label`, or `krepes train --label`, named."""
    encoder = model.input_space_.encoder
    return getattr(model, "label_", None) if encoder is None else encoder.label


def _check_kind(source: Source, space: InputSpace, path: Path) -> None:
    """Refuse data of another kind than the model was fitted on, such as images for tables; the error names both."""
    fits = {
        "table": ("table", "vectors"),
        "vectors": ("vectors", "sparse"),
        "sparse": ("sparse", "vectors"),
        "images": ("images",),
        "series": ("vectors", "images"),
    }
    if source.kind not in fits.get(space.kind, ()):
        from krepes.report.words import input_words

        raise ValueError(f"The model was fitted on {input_words(space)}; {path} is {source.describe()}.")


@contextmanager
def _counting(name: str) -> Iterator[Callable[[int], None]]:
    """A progress function that is told how many rows have been seen."""
    with Bars().stage(name) as stage:
        seen = 0

        def progress(rows: int) -> None:
            nonlocal seen
            stage.advance(rows - seen)
            seen = rows

        yield progress
