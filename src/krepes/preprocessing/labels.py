"""Labels as class codes: whatever a column of labels holds becomes 0 .. K - 1, or -1 where it is missing.

Numbers, text and true/false are labels. None, NaN and NaT are missing. Numbers with fractions are not classes,
and are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from krepes.base.validation import as_array

MISSING = -1
# what labels are, and as which dtype they are kept; the first that all of them are
_PLAIN = (
    (str, str),
    (bool | np.bool_, bool),
    (int | np.integer, np.int64),
    (int | float | np.number | bool | np.bool_, np.float64),
)


@dataclass(frozen=True)
class Labels:
    """Codes of n labels (-1 where missing) and the K classes they stand for, sorted."""

    codes: np.ndarray  # shape: (n,)
    classes: np.ndarray  # shape: (K,)

    @property
    def present(self) -> np.ndarray:
        """Row indices that have a label."""
        return np.flatnonzero(self.codes != MISSING)


def encode_labels(y: Any, name: str = "y", n_rows: int | None = None) -> Labels:
    """Check labels and turn them into codes.

    >>> encode_labels(["cat", None, "dog", "cat"])
    Labels(codes=array([ 0, -1,  1,  0]), classes=array(['cat', 'dog'], dtype='<U3'))
    """
    y = label_vector(y, name)
    if n_rows is not None and len(y) != n_rows:
        raise ValueError(f"{name} has {len(y):,} labels for {n_rows:,} rows; one is needed for every row.")
    values, missing = present_labels(y, name)
    if values.dtype.kind in "Mmc":
        raise ValueError(f"{name} holds {values.dtype}; labels are text, integers or true/false.")
    if values.dtype.kind == "f":
        _check_whole(values, name)
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) > max(10, len(values) / 2):
        raise ValueError(
            f"{name} has {len(classes):,} different values in {len(values):,} rows: it looks like an identifier or a "
            "quantity. A class should have several rows."
        )
    all_codes = np.full(len(y), MISSING, dtype=np.int64)
    all_codes[~missing] = codes
    return Labels(all_codes, _tidy(classes))


def present_labels(y: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Non-missing labels as a plain array, and which labels are missing."""
    y = label_vector(y, name)
    missing = missing_values(y)
    if missing.all():
        raise ValueError(f"{name} has no label at all: all {len(y):,} are missing.")
    return plain_values(y[~missing], name), missing


def missing_values(y: np.ndarray) -> np.ndarray:
    """Which entries of a 1-D array are None, NaN, NaT or pandas' NA."""
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind in "Mm":
        return np.isnat(y)
    if y.dtype != object:
        return np.zeros(len(y), dtype=bool)
    return np.fromiter((_is_missing(value) for value in y), dtype=bool, count=len(y))


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and value != value


def label_vector(y: Any, name: str) -> np.ndarray:
    """One entry for every row, of any dtype."""
    if isinstance(y, str) or not hasattr(y, "__len__"):
        raise TypeError(f"{name} must be a sequence with one label per row; got {type(y).__name__}.")
    if isinstance(y, list | tuple):  # numpy would make text of a mixed list, and "None" of None
        if any(isinstance(value, list | tuple | np.ndarray) for value in y):
            raise ValueError(f"{name} must have one label per row; its entries are sequences.")
        values = np.empty(len(y), dtype=object)
        values[:] = y
        return values
    y = as_array(y, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name} must have one label per row; got an array of shape {y.shape}.")
    return y


def plain_values(values: np.ndarray, name: str) -> np.ndarray:
    """An object array as the plain dtype of what it holds; other arrays as they are."""
    if values.dtype != object:
        return values
    for given, dtype in _PLAIN:
        if all(isinstance(value, given) for value in values):
            return values.astype(dtype)
    kinds = sorted({type(value).__name__ for value in values})
    raise ValueError(
        f"{name} mixes labels of the types {', '.join(kinds)}; use text, integers or true/false throughout."
    )


def _check_whole(values: np.ndarray, name: str) -> None:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has infinite labels; leave a label empty where it is not known.")
    fractional = values[values != np.round(values)]
    if len(fractional):
        such = f"numbers with fractions such as {fractional[0]:g}"
        raise ValueError(f"{name} holds {such}: a quantity, not classes. Cut it into classes first.")


def _tidy(classes: np.ndarray) -> np.ndarray:
    """Whole floats, which a column with missing values has, as integers."""
    if classes.dtype.kind == "f" and np.abs(classes).max() < 2**53:
        return classes.astype(np.int64)
    return classes
