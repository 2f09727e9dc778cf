"""A labelled data set for evaluation: rows of one or two sources, labels, and which rows are for testing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from krepes.cli.data import find_labels, find_split, is_npz, npz_names, open_for, read_labels

if TYPE_CHECKING:
    from krepes.embedding import KernelEmbedding
    from krepes.sources import Source


@dataclass(frozen=True)
class LabelledData:
    """Rows of the sources one after the other, with labels and, where known, training and test masks."""

    sources: list[Source]
    y: np.ndarray
    where: str  # the labels were found
    train: np.ndarray | None = None
    test: np.ndarray | None = None
    hints: list[str] = field(default_factory=list)

    def describe(self) -> str:
        return " and ".join(source.describe() for source in self.sources)


def open_labelled(
    model: KernelEmbedding,
    data: Path,
    test: Path | None,
    label: str | None,
    labels: str | None,
    array: str,
    split: str | None,
    n_train: int | None,
) -> LabelledData:
    """Open the data, find the labels and decide which rows are for testing."""
    source = open_for(model, data, array)
    y, where = (read_labels(labels), labels) if labels else find_labels(model, source, data, label)
    _check_length(y, source, where)
    if test is not None:
        if labels:
            raise ValueError("--labels has the labels of one data set; with --test use --label NAME.")
        other = open_for(model, test, array)
        y_test, where_test = find_labels(model, other, test, label)
        _check_length(y_test, other, where_test)
        is_test = np.arange(source.n_rows + other.n_rows) >= source.n_rows
        return LabelledData([source, other], _together(y, y_test), where, ~is_test, is_test)
    if split is not None:
        return LabelledData([source], y, where, *find_split(source, data, split))
    n_train = _stored_n_train(data) if n_train is None else n_train
    if n_train is not None:
        if not 0 < n_train < source.n_rows:
            raise ValueError(f"--n-train {n_train:,}: expected a number below the {source.n_rows:,} rows.")
        is_test = np.arange(source.n_rows) >= n_train
        return LabelledData([source], y, where, ~is_test, is_test)
    return LabelledData([source], y, where, hints=_hints(source))


def _check_length(y: np.ndarray, source: Source, where: str) -> None:
    if np.ndim(y) != 1 or len(y) != source.n_rows:
        shape = np.shape(y)
        raise ValueError(
            f"The labels in {where} have shape {shape}; expected one for each of the {source.n_rows:,} rows of "
            f"{source.describe()}."
        )


def _together(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    if first.dtype.kind == second.dtype.kind:
        return np.concatenate([first, second])
    return np.concatenate([first.astype(object), second.astype(object)])


def _stored_n_train(data: Path) -> int | None:
    from krepes.sources import read_array

    if not is_npz(data) or "n_train" not in npz_names(data):
        return None
    return int(read_array(data, "n_train").reshape(-1)[0])


def _hints(source: Source) -> list[str]:
    """What the user may want to know about a random test part."""
    hints = [
        "Test rows were drawn at random; the model has seen them, without labels, if it was fitted on this data."
    ]
    names = getattr(source, "column_names", [])
    found = [name for name in names if name.lower() in ("split", "fold", "set", "partition")]
    if found:
        hints.append(
            f"The data has a column {found[0]!r}: --split {found[0]} tests on the rows that it names."
        )
    return hints
