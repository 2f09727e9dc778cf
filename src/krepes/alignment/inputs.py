"""What alignment takes: representations of the same rows as matrices, and targets as columns of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.kernels import Kernel
from krepes.preprocessing.labels import MISSING, encode_labels

Numbers = ArrayLike | Tensor  # anything that `as_matrix` takes
KernelChoice = str | Kernel | Callable[[Any, Any], Numbers]  # a function of blocks X, Y gives (n, m)


def as_matrix(X: Any, name: str = "X", finite: bool = True) -> np.ndarray:
    """Anything array-like as a (n, d) matrix of float32 or float64; images are flattened, a vector is a column."""
    if isinstance(X, Tensor):
        X = X.detach().cpu()
        X = (X.float() if not X.is_floating_point() or X.itemsize < 4 else X).numpy()
    X = np.asarray(X)
    if X.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} holds {X.dtype}; expected numbers, one row per sample. Class labels become columns by one_hot(y)."
        )
    if X.ndim == 0 or 0 in X.shape:
        raise ValueError(f"{name} has shape {X.shape}; expected one row of features per sample, (n, d).")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    X = X.reshape(len(X), -1)
    if finite:
        check_finite(X, name)
    return X


def check_finite(X: np.ndarray, name: str) -> None:
    """Refuse NaN and infinite values, and say where they are."""
    rows = np.flatnonzero(~np.isfinite(X).all(axis=1))
    if len(rows):
        raise ValueError(
            f"{name} has NaN or infinite values in {len(rows):,} of {len(X):,} rows (the first is row {rows[0]:,}). "
            "Leave these rows out, of everything that is compared."
        )


def check_same_rows(n: int, expected: int, name: str, other: str = "X") -> None:
    """Refuse representations of different numbers of rows."""
    if n != expected:
        raise ValueError(
            f"{name} has {n:,} rows and {other} has {expected:,}: expected the same rows, in the same order."
        )


def one_hot(y: Any) -> np.ndarray:
    """Labels as a (n, K) matrix of zeros and ones, classes in sorted order.

    >>> one_hot(["b", "a", "b"])
    array([[0., 1.], [1., 0.], [0., 1.]])
    """
    classes, codes = class_codes(y)
    return np.eye(len(classes))[codes]


def class_codes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes of labels, sorted, and the code of every row; no label may be missing."""
    labels = encode_labels(y.detach().cpu().numpy() if isinstance(y, Tensor) else y)
    n_missing = int((labels.codes == MISSING).sum())
    if n_missing:
        raise ValueError(
            f"{n_missing:,} of {len(labels.codes):,} labels are missing (None or NaN). Leave these rows out."
        )
    if len(labels.classes) < 2:
        raise ValueError(
            f"All {len(labels.codes):,} labels are {labels.classes[0]!r}; at least two classes are needed."
        )
    return labels.classes, labels.codes


def target_matrix(y: Any) -> np.ndarray:
    """A target as columns: one-hot for labels (text, integers, true/false), as it is for numbers with fractions."""
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.ndim == 2 and values.shape[1] > 1:
        return as_matrix(values, "y").astype(np.float64)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values != np.round(values)).any():
        return values.reshape(-1, 1).astype(np.float64)
    return one_hot(y)
