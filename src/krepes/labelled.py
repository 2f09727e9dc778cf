"""Rows with what stands beside them: labels, which rows are for testing, how often a row counts.

A column of a table, an array of an .npz file or the subfolders of images hold one value for every row. These functions
find them, check that they are as many as the rows, and say where they were found.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "people.csv"
>>> _ = path.write_text("age,job,part\\n30,cook,train\\n40,baker,train\\n50,cook,test\\n")
>>> data = open_labelled(path, label="job", split="part")
>>> data.y, data.test
(array(['cook', 'baker', 'cook'], dtype=object), array([False, False,  True]))
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from krepes.sources import Source, TableSource, open_source, read_array
from krepes.sources.opening import is_csv

__all__ = ["LabelledRows", "labels_of", "open_labelled", "read_labels", "training_rows", "weights_of"]

ARRAYS = (".npy", ".npz")
TABLES = (".csv", ".tsv", ".parquet", ".pq")
_SPLITS = ("split", "fold", "set", "partition")
_SHOWN = 30


@dataclass(frozen=True)
class LabelledRows:
    """Rows of the sources one after the other, with labels and, where they are known, training and test masks."""

    sources: list[Source]
    y: np.ndarray  # shape: (n,)
    where: str  # the labels were found
    train: np.ndarray | None = None
    test: np.ndarray | None = None

    def describe(self) -> str:
        return " and ".join(source.describe() for source in self.sources)

    def hints(self) -> list[str]:
        """What to know about a test part that will be drawn at random."""
        if self.test is not None:
            return []
        names = getattr(self.sources[0], "column_names", [])
        found = next((name for name in names if name.lower() in _SPLITS), None)
        named = f"The data has a column {found!r}: split={found} tests on the rows that it names."
        return [
            "Test rows were drawn at random; the model has seen them, without labels, if it was fitted on this data.",
            *([named] if found is not None else []),
        ]


def open_labelled(
    data: str | os.PathLike,
    *,
    label: str | None = None,
    labels: str | os.PathLike | None = None,
    test: str | os.PathLike | None = None,
    split: str | None = None,
    n_train: int | None = None,
    opener: Callable[[Path], Source] = open_source,
    encoding: str | None = None,
) -> LabelledRows:
    """Open a data set with its labels, and divide its rows where it says how.

    Parameters
    ----------
    data : path of the rows.
    label : the column of a table, or the array of an .npz file, with the labels. By default the array y, or the
        subfolders of images.
    labels : a file of labels instead; see `read_labels`.
    test : path of the test rows; `data` is then for training.
    split : a column or an array that says train or test in every row.
    n_train : the first n_train rows are for training. By default the array n_train of an .npz file, if there is one.
    opener : opens a path, for example with the size that images are brought to.
    encoding : of a table of `labels`, such as cp1252. By default it is recognised.
    """
    data = Path(data)
    source = opener(data)
    y, where = labels_of(source, data, label, labels, encoding)
    if test is not None:
        if labels is not None:
            raise ValueError("labels= has the labels of one data set; with test= use label=NAME.")
        other = opener(Path(test))
        y_test, _ = labels_of(other, Path(test), label)
        is_test = np.arange(source.n_rows + other.n_rows) >= source.n_rows
        same = y.dtype.kind == y_test.dtype.kind
        both = np.concatenate([part if same else part.astype(object) for part in (y, y_test)])
        return LabelledRows([source, other], both, where, ~is_test, is_test)
    is_train = training_rows(source, data, split, n_train)
    if is_train is not None and split is None and is_train.all():
        raise ValueError(f"n_train={len(is_train)}: expected a number below the {source.n_rows:,} rows.")
    return LabelledRows([source], y, where, is_train, None if is_train is None else ~is_train)


def labels_of(
    source: Source,
    path: str | os.PathLike,
    label: str | None = None,
    labels: str | os.PathLike | None = None,
    encoding: str | None = None,
) -> tuple[np.ndarray, str]:
    """The labels of a source's rows, and where they were found; see `open_labelled`."""
    path = Path(path)
    if labels is not None:
        y, where = read_labels(labels, label, encoding), str(labels)
    elif isinstance(source, TableSource) and label is None:
        raise ValueError(
            f"Which column holds the labels? Name it: label=COLUMN. {path} has the columns "
            f"{_listed(source.column_names)}."
        )
    elif _is_npz(path) and label is None and "y" not in (names := array_names(path)):
        raise ValueError(f"{path} has no array 'y'; name its labels: label=ARRAY. It has {_listed(names)}.")
    elif label is not None or _is_npz(path):
        y = column_beside(source, path, label or "y", "label")
        where = f"{'column' if isinstance(source, TableSource) else 'array'} {label or 'y'!r}"
    elif source.labels is not None:
        y, where = source.labels, "subfolders"
    else:
        raise ValueError(f"{path} comes without labels. Give them with labels=FILE.npy (one label per row).")
    if np.ndim(y) != 1 or len(y) != source.n_rows:
        raise ValueError(
            f"The labels in {where} have shape {np.shape(y)}; expected one for each of the {source.n_rows:,} rows of "
            f"{source.describe()}."
        )
    return y, where


def training_rows(
    source: Source, path: str | os.PathLike, split: str | None = None, n_train: int | None = None
) -> np.ndarray | None:
    """Which rows are for training, as a mask; None where nothing says so. See `open_labelled`."""
    path = Path(path)
    if split is not None and n_train is not None:
        raise ValueError("Give only one of split= and n_train=.")
    if split is not None:
        values = column_beside(source, path, split, "split")
        words = np.array([str(value).strip().lower() for value in values])
        if values.ndim != 1 or len(words) != source.n_rows or not set(words) <= {"train", "test"}:
            found = ", ".join(map(repr, dict.fromkeys(words[:10_000].tolist())))
            raise ValueError(
                f"split={split}: every row must say 'train' or 'test'; found {found[:120]}. For other layouts give the "
                "test rows in a separate file (test=FILE)."
            )
        return words == "train"
    if n_train is None and _is_npz(path) and "n_train" in array_names(path):
        n_train = int(read_array(path, "n_train").reshape(-1)[0])
    if n_train is None:
        return None
    if not 0 < n_train <= source.n_rows:
        raise ValueError(f"n_train={n_train}: there are {source.n_rows:,} rows.")
    return np.arange(source.n_rows) < n_train


def weights_of(source: Source, path: str | os.PathLike, name: str) -> np.ndarray:
    """How often every row counts: a column of a table, or an array of an .npz file."""
    values = column_beside(source, Path(path), name, "sample_weight")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight={name}: expected numbers >= 0, one per row; found {values.dtype}.")
    return values


def column_beside(source: Source, path: Path, name: str, argument: str) -> np.ndarray:
    """A column of a table, or an array of an .npz file; errors call it by the `argument` that it was named with."""
    if isinstance(source, TableSource):
        return source.label_column(name)
    if _is_npz(path):
        return read_named(path, name, f"{argument}=ARRAY")
    advice = {
        "label": " Give labels=FILE.npy (images in subfolders have their labels already).",
        "split": " Use test=FILE or n_train=N.",
    }
    raise ValueError(
        f"{argument}={name}: {source.describe()} has no columns and no other arrays.{advice.get(argument, '')}"
    )


def read_labels(
    file: str | os.PathLike, column: str | None = None, encoding: str | None = None
) -> np.ndarray:
    """Labels from an array (y.npy, y.npz, y.npz:NAME), or from a `column` of a table, which may have an encoding."""
    path, name = split_array(str(file), "y")
    suffix = Path(path).suffix.lower()
    if suffix in ARRAYS:
        if column is not None:
            raise ValueError(
                f"label={column}: {file} is an array without columns. Leave label= out, or give labels= a table."
            )
        return read_named(Path(path), name, f"labels={path}:ARRAY")
    if suffix not in TABLES and not Path(path).is_dir():
        raise ValueError(
            f"labels={file}: expected an .npy file, an .npz file (NAME.npz:ARRAY), or a table with label=COLUMN."
        )
    if column is None:
        raise ValueError(f"Which column of {file} holds the labels? Name it: label=COLUMN.")
    return open_source(path, encoding=encoding if is_csv(path) else None).label_column(column)


def read_named(path: Path, name: str, how: str) -> np.ndarray:
    """An array of an .npz file, or that of an .npy file; `how` is how another one would be named."""
    if not path.expanduser().exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    if _is_npz(path) and name not in (names := array_names(path)):
        raise ValueError(f"{path} has no array {name!r}; it has {_listed(names)}. Name one: {how}.")
    return read_array(path, name)


def split_array(file: str, array: str) -> tuple[str, str]:
    """`FILE.npz:NAME` as path and name; other files with the array that is meant by default.

    >>> split_array("layers.npz:l3", "X"), split_array("y.npy", "y")
    (('layers.npz', 'l3'), ('y.npy', 'y'))
    """
    path, _, name = file.rpartition(":") if ".npz:" in file.lower() else (file, "", array)
    return path, name


def array_names(path: str | os.PathLike) -> list[str]:
    """The names of the arrays in an .npz file; none for other files."""
    if not _is_npz(Path(path)):
        return []
    try:
        with zipfile.ZipFile(Path(path).expanduser()) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not an .npz file: {error}.") from error


def _is_npz(path: Path) -> bool:
    return path.suffix.lower() == ".npz"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
