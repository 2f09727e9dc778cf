"""Targets of pruning: labels or numbers, none missing, as columns that predictions are compared with."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from krepes.alignment.pruning.prediction_matrices import REFUSED, is_missing
from krepes.base.validation import REMEDIES, as_array


def labels_or_numbers(y: Any) -> np.ndarray:
    """Targets as an array (n,), labels or numbers, none missing."""
    y = as_array(y, "y")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 or not len(y):
        raise ValueError(f"y has shape {y.shape}; expected one target per row, (n,).")
    if y.dtype.kind in REFUSED:
        raise TypeError(f"y holds {y.dtype}; expected labels or numbers. {REMEDIES[y.dtype.kind]}")
    missing = is_missing(y) | (np.isinf(y) if y.dtype.kind == "f" else False)
    if missing.any():
        raise ValueError(
            f"y is missing or infinite in {missing.sum():,} of {len(y):,} rows. Leave these rows out."
        )
    if y.dtype != object:
        return y
    if not all(isinstance(value, str | numbers.Number) for value in y):
        raise TypeError("y holds objects that are neither words nor numbers; expected one label per row.")
    return y.astype(str)


def target_numbers(y: Any) -> np.ndarray:
    """Targets of regression."""
    y = labels_or_numbers(y)
    if y.dtype.kind not in "fiub":
        raise TypeError(f"y holds {y.dtype}; a regressor predicts numbers.")
    return y.astype(np.float64)


def target_columns(y: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """The target as columns (n, c): numbers, or zeros and a one for the class."""
    if classes is None:
        return y[:, None]
    target = (y[:, None] == classes).astype(np.float64)
    unknown = y[~target.any(axis=1)]
    if len(unknown):
        raise ValueError(
            f"y has the label {unknown.tolist()[0]!r}, which is not a class of the ensemble: {classes[:20].tolist()}."
        )
    if (y == y[0]).all():
        raise ValueError(f"All {len(y):,} labels are {y.tolist()[0]!r}; at least two classes are needed.")
    return target
