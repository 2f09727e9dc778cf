"""Opening what a path on the command line names: rows, labels and splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from krepes.base.progress import Bars

if TYPE_CHECKING:
    import numpy as np

    from krepes.embedding import KernelEmbedding
    from krepes.preprocessing import InputSpace
    from krepes.sources import Source


def check_exists(path: Path) -> None:
    """Refuse a path that is not there before anything heavy is imported."""
    if not path.expanduser().exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")


def split_array(file: str, array: str) -> tuple[str, str]:
    """`FILE.npz:NAME` as path and name; other files with the array that is meant by default.

    >>> split_array("layers.npz:l3", "X"), split_array("y.npy", "y")
    (('layers.npz', 'l3'), ('y.npy', 'y'))
    """
    path, _, name = file.rpartition(":") if ".npz:" in file.lower() else (file, "", array)
    return path, name


def parse_size(size: str | None) -> tuple[int, int] | None:
    """`32` or `48x42` (height × width) as a pair.

    >>> parse_size("48x42")
    (48, 42)
    """
    if size is None:
        return None
    parts = size.lower().replace("×", "x").split("x")
    if len(parts) > 2 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise ValueError(
            f"--size {size}: expected a number of pixels such as 32, or height x width such as 48x42."
        )
    numbers = [int(part) for part in parts]
    return numbers[0], numbers[-1]


def open_data(path: Path, array: str = "X", size: tuple[int, int] | None = None) -> Source:
    """A source, with progress where opening needs a scan."""
    from krepes.sources import open_source

    check_exists(path)
    with _counting("Reading") as progress:
        return open_source(path, array=array, size=size, progress=progress)


def open_for(model: KernelEmbedding, path: Path, array: str = "X") -> Source:
    """A source of rows for a fitted model; images are brought to the model's size."""
    from krepes.sources import open_source

    check_exists(path)
    space = model.input_space_
    folder = path.expanduser().is_dir()
    size = (space.shape[0], space.shape[1]) if space.kind == "images" and folder else None
    with _counting("Reading") as progress:
        source = open_source(path, array=array, size=size, progress=progress)
    _check_kind(source, space, path)
    return source


def _check_kind(source: Source, space: InputSpace, path: Path) -> None:
    """Refuse images for a model of tables and the like, in words that name both."""
    fits = {"table": ("table", "vectors"), "vectors": ("vectors",), "images": ("images",)}.get(space.kind, ())
    if source.kind not in fits:
        from krepes.cli.describe import input_words

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


def is_npz(path: Path) -> bool:
    return path.suffix.lower() == ".npz"


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    import zipfile

    try:
        with zipfile.ZipFile(path.expanduser()) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not an .npz file: {error}.") from error


def read_labels(file: str) -> np.ndarray:
    """Labels from `FILE.npy`, `FILE.npz` (array y) or `FILE.npz:NAME`."""
    from krepes.sources import read_array

    path, name = split_array(file, "y")
    if Path(path).suffix.lower() not in (".npy", ".npz"):
        raise ValueError(f"--labels {file}: expected an .npy file, or an .npz file with NAME.npz:ARRAY.")
    return read_array(path, name)


def read_label_file(file: str, column: str | None) -> np.ndarray:
    """Labels from an array (`y.npy`, `y.npz:ARRAY`), or from a column of a table."""
    path, name = split_array(file, "y")
    check_exists(Path(path))
    if Path(path).suffix.lower() in (".npy", ".npz"):
        if column is not None:
            raise ValueError(
                f"--label {column}: {file} is an array without columns. Leave --label out, or give --labels a table."
            )
        return read_named(path, name, f"--labels {path}:ARRAY")
    if column is None:
        raise ValueError(f"Which column of {file} holds the labels? Name it: --label COLUMN.")
    return open_data(Path(path)).label_column(column)


def read_named(path: str, name: str, option: str) -> np.ndarray:
    """An array of an .npz file, or that of an .npy file; `option` is how another one would be named."""
    from krepes.sources import read_array

    if is_npz(Path(path)) and name not in (names := npz_names(Path(path))):
        raise ValueError(f"{path} has no array {name!r}; it has {_shortened(names)}. Name one: {option}.")
    return read_array(path, name)


def find_labels(
    model: KernelEmbedding | None, source: Source, path: Path, label: str | None
) -> tuple[np.ndarray, str]:
    """The labels of a data set and where they were found: a column, an array, or the subfolders of images."""
    from krepes.sources import TableSource, read_array

    if isinstance(source, TableSource):
        encoder = None if model is None else model.input_space_.encoder
        label = label or (encoder.label if encoder is not None else None)
        if label is None:
            raise ValueError(
                f"Which column holds the labels? Name it: --label COLUMN. {path} has the columns "
                f"{_shortened(source.column_names)}."
            )
        return source.label_column(label), f"column {label!r}"
    if is_npz(path):
        names = npz_names(path)
        if label is None and "y" not in names:
            raise ValueError(
                f"{path} has no array 'y'; name its labels: --label ARRAY. It has {_shortened(names)}."
            )
        return read_array(path, label or "y"), f"array {label or 'y'!r}"
    if label is not None:
        raise ValueError(
            f"--label {label}: {source.describe()} has no columns and no other arrays. Give --labels FILE.npy "
            "(images in subfolders have their labels already)."
        )
    if source.labels is None:
        raise ValueError(
            f"{path} comes without labels. Give them with --labels FILE.npy (one label per row)."
        )
    return source.labels, "subfolders"


def find_weights(source: Source, path: Path, name: str) -> np.ndarray:
    """How often every row counts: a column of a table, or an array of an .npz file."""
    from krepes.sources import TableSource

    if isinstance(source, TableSource):
        values = source.label_column(name)
    elif is_npz(path):
        values = read_named(str(path), name, "--sample-weight ARRAY")
    else:
        raise ValueError(f"--sample-weight {name}: {source.describe()} has no columns and no other arrays.")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"--sample-weight {name}: expected numbers >= 0, one per row; found {values.dtype}.")
    return values


def find_split(source: Source, path: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Masks of training and test rows from a column or array that says train or test."""
    import numpy as np

    from krepes.sources import TableSource, read_array

    if isinstance(source, TableSource):
        values = source.label_column(split)
    elif is_npz(path):
        values = read_array(path, split)
    else:
        raise ValueError(
            f"--split {split}: {source.describe()} has no columns; use --test FILE or --n-train N."
        )
    words = np.array([str(value).strip().lower() for value in values])
    if values.ndim != 1 or len(words) != source.n_rows or not set(words) <= {"train", "test"}:
        found = ", ".join(map(repr, dict.fromkeys(words[:10_000].tolist())))
        raise ValueError(
            f"--split {split}: every row must say 'train' or 'test'; found {found[:120]}. For other layouts give "
            "the test rows as a file of their own (--test FILE)."
        )
    return words == "train", words == "test"


def _shortened(names: list[str], limit: int = 30) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
