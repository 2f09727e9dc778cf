"""What alignment takes: representations as matrices; kernels, labels and targets as columns; row indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.validation import as_array, as_flat_matrix, check_same_rows
from krepes.kernels import Kernel
from krepes.preprocessing.labels import MISSING, encode_labels
from krepes.sources import open_source
from krepes.sources.row_sampling import RawReader

Numbers = ArrayLike | Tensor  # anything that `as_flat_matrix` takes
KernelChoice = str | Kernel | Callable[[Any, Any], Numbers]  # a function of blocks X, Y gives (n, m)


def feature_reader(X: Any, name: str) -> RawReader:
    """Rows of numbers from any source: arrays, files, folders, Dask collections. Blocks hold what the source gives."""
    source = open_source(X)
    if source.kind not in ("vectors", "images", "table"):
        raise ValueError(f"{name} is {source.describe()}; expected rows of numbers.")
    return RawReader(source)


def feature_matrix(rows: Any, name: str, *, finite: bool = True) -> np.ndarray:
    """A block of rows of numbers as a matrix, (b, d).

    >>> feature_matrix(pa.table({"a": [1, 2], "b": [3.0, 4.0]}), "X").tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    if isinstance(rows, pa.Table):
        rows = np.column_stack([np.asarray(column.to_numpy(), dtype=np.float64) for column in rows.columns])
    return as_flat_matrix(rows, name, finite=finite)


def one_hot(y: Any) -> np.ndarray:
    """Labels as a (n, K) matrix of zeros and ones, classes in sorted order.

    >>> one_hot(["b", "a", "b"])
    array([[0., 1.], [1., 0.], [0., 1.]])
    """
    classes, codes = class_codes(y)
    return np.eye(len(classes))[codes]


def class_codes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes of labels, sorted, and the code of every row; no label may be missing."""
    labels = encode_labels(as_array(y, "y") if isinstance(y, Tensor) else y)
    n_missing = int((labels.codes == MISSING).sum())
    if n_missing:
        raise ValueError(
            f"{n_missing:,} of {len(labels.codes):,} labels are missing (None or NaN). Leave these rows out."
        )
    if len(labels.classes) < 2:
        raise ValueError(
            f"All {len(labels.codes):,} labels are {labels.classes[0].item()!r}; at least two classes are needed."
        )
    return labels.classes, labels.codes


def labelled(features: Any, y: Any, name: str = "features") -> tuple[np.ndarray, np.ndarray, int]:
    """Features (n, d), the class codes of their rows (n,) and the number of classes."""
    F = as_flat_matrix(features, name)
    classes, codes = class_codes(y)
    check_same_rows(len(codes), len(F), "y", name)
    return F, codes, len(classes)


def target_matrix(y: Any) -> np.ndarray:
    """A target as columns: one-hot for labels (text, integers, true/false), as it is for numbers with fractions."""
    values = as_array(y, "y")
    fractions = values.dtype.kind == "f" and np.isfinite(values).all() and (values != np.round(values)).any()
    if (fractions and values.ndim <= 2) or (values.ndim == 2 and values.shape[1] > 1):
        return as_flat_matrix(values, "y").astype(np.float64)
    return one_hot(y)


def row_indices(rows: Any) -> np.ndarray:
    """The global indices of a batch's rows, (b,)."""
    indices = as_array(rows, "rows")
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or indices.min(initial=0) < 0:
        raise ValueError(
            f"rows has shape {indices.shape} and holds {indices.dtype}; expected an index from 0 for each row."
        )
    return indices.astype(np.int64)
