"""Which rows a report shows, and what was said about them: labels, and columns to colour by.

Up to `max_rows` rows are shown; of more, a uniform sample without replacement, in the order of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krepes.base.validation import as_array, generator_of
from krepes.embedding import KernelEmbedding
from krepes.explain.expansion import landmark_rows, landmarks_are_rows_of
from krepes.preprocessing.labels import MISSING, encode_labels, missing_values
from krepes.sources import Source, TableSource, open_source
from krepes.sources.row_subset import subset

MAX_LEVELS = 40  # of a column or of labels; the others are shown as one
FEW_VALUES = 12  # whole numbers with at most this many different values are levels

Columns = Sequence[str] | Mapping[str, ArrayLike]  # names of columns of a table, or values by name


@dataclass(frozen=True)
class ShownRows:
    """The rows of a report.

    Attributes
    ----------
    source : Source
        The source of the rows that are shown.
    rows : ndarray of shape (n,)
        Their numbers in the data.
    n_total : int
        Rows in the data.
    description : str
        A description of the data.
    landmark_rows : ndarray of shape (m,) or None
        The rows of these data that the landmarks are; None where they are not.
    """

    source: Source
    rows: np.ndarray
    n_total: int
    description: str
    landmark_rows: np.ndarray | None

    @property
    def of_all(self) -> str:
        """Says of how many rows these are a sample; nothing if all are shown."""
        return f" of {self.n_total:,}" if len(self.rows) < self.n_total else ""


@dataclass(frozen=True)
class ShownColumn:
    """Values to colour by: numbers (NaN where missing), or codes of levels (-1 where missing)."""

    name: str
    values: np.ndarray
    levels: list[str] | None


def open_rows(model: KernelEmbedding, X: Any, max_rows: int, random_state: int) -> ShownRows:
    """Open the data as the model takes them, and choose the rows to show."""
    model.check_input(X)
    source = model.input_space_.open(X)
    landmarks = landmark_rows(model) if landmarks_are_rows_of(model, source) else None
    part, rows = some_rows(source, max_rows, random_state)
    return ShownRows(part, rows, source.n_rows, source.describe(), landmarks)


def some_rows(source: Source, at_most: int, random_state: int) -> tuple[Source, np.ndarray]:
    """All rows, or a uniform sample in the order of the data; and their numbers."""
    n = source.n_rows
    if n > at_most:
        rows = np.sort(generator_of(random_state).choice(n, at_most, replace=False))
    else:
        rows = np.arange(n)
    if not source.random_access:  # files are read once, not in every pass
        return open_source(source.take(rows)), rows
    return subset(source, rows) if n > at_most else source, rows


def label_column(labels: Any, shown: ShownRows) -> tuple[ShownColumn | None, np.ndarray | None]:
    """The labels of the shown rows, and the codes of the landmarks' labels where they are known."""
    if labels is None:
        return None, None
    name = getattr(labels, "name", None)
    if isinstance(labels, Mapping):
        if len(labels) != 1:
            raise ValueError(f"labels: got {len(labels)} columns; expected one, {{name: labels}}.")
        ((name, labels),) = labels.items()
    encoded = encode_labels(labels, "labels", shown.n_total)
    codes, levels = _with_few_levels(encoded.codes, [str(label) for label in encoded.classes.tolist()])
    of_landmarks = None if shown.landmark_rows is None else codes[shown.landmark_rows]
    return ShownColumn("label" if name is None else str(name), codes[shown.rows], levels), of_landmarks


def extra_columns(X: Any, columns: Columns | None, shown: ShownRows) -> list[ShownColumn]:
    """Columns to colour by: names of a table's columns, or a mapping of names to values."""
    if columns is None:
        return []
    if isinstance(columns, Mapping):
        given = {str(name): as_array(values, f"columns: {name!r}") for name, values in columns.items()}
    else:
        given = _columns_of(X, [columns] if isinstance(columns, str) else columns)
    for name, values in given.items():
        if values.shape != (shown.n_total,):
            raise ValueError(
                f"columns: {name!r} has the shape {values.shape}; expected ({shown.n_total},), one value per row."
            )
    return [as_column(name, values[shown.rows]) for name, values in given.items()]


def _columns_of(X: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    source = open_source(X)
    if not isinstance(source, TableSource):
        raise ValueError(
            f"columns={list(names)!r} names columns of a table; got {source.describe()}. Give the values instead: "
            "columns={'name': values}."
        )
    return {name: source.label_column(name) for name in names}


def as_column(name: str, values: np.ndarray) -> ShownColumn:
    """Numbers as they are; text, true/false and few whole numbers as levels.

    >>> as_column("sex", np.array(["m", None, "f"], dtype=object))
    ShownColumn(name='sex', values=array([ 1, -1,  0]), levels=['f', 'm'])
    """
    missing = missing_values(values)
    present = values[~missing]
    numbers = present.dtype.kind in "iuf"
    if present.dtype == object and len(present):
        numbers = all(
            isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in present
        )
    if numbers:
        out = np.full(len(values), np.nan)
        out[~missing] = present.astype(np.float64)
        out[~np.isfinite(out)] = np.nan
        different = np.unique(out[~np.isnan(out)])
        whole = (different == np.round(different)).all() and np.abs(different).max(initial=0) < 2**53
        if len(different) > FEW_VALUES or not whole:
            return ShownColumn(name, out, None)
        missing = np.isnan(out)
        present = out[~missing].astype(np.int64)
    else:
        present = np.array([str(value) for value in present.tolist()], dtype=object)
    levels, places = np.unique(present, return_inverse=True)
    codes = np.full(len(values), MISSING, dtype=np.int64)
    codes[~missing] = places
    return ShownColumn(name, *_with_few_levels(codes, [str(level) for level in levels.tolist()]))


def _with_few_levels(codes: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """The most frequent levels in their order, and one for all others."""
    if len(names) <= MAX_LEVELS:
        return codes, names
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    kept = np.sort(np.argsort(-counts, kind="stable")[: MAX_LEVELS - 1])
    new = np.full(len(names) + 1, len(kept))
    new[kept], new[-1] = np.arange(len(kept)), MISSING
    return new[codes], [*(names[i] for i in kept), f"({len(names) - len(kept):,} others)"]
