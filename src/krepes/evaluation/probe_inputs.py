"""What every probe checks first: representations and labels that fit together."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from krepes.base.validation import as_array, check_finite
from krepes.evaluation.probe_result import probe_scores, regression_scores
from krepes.preprocessing.labels import MISSING, encode_labels
from krepes.preprocessing.targets import as_targets

SMALL_CELLS = 1 << 20


@dataclass(frozen=True)
class ProbeInputs:
    """Rows with a label: representations as given, labels as codes of common classes."""

    Z_train: np.ndarray  # shape: (n, h)
    train: np.ndarray  # shape: (n,) codes
    Z_test: np.ndarray
    test: np.ndarray
    classes: np.ndarray

    def scored(self, predicted: np.ndarray) -> dict[str, Any]:
        """The fields of a `ProbeResult` that follow from the predicted codes of the test rows."""
        return {
            **probe_scores(predicted, self.test, self.classes),
            "classes": self.classes,
            "n_labels": len(self.train),
            "n_test": len(self.test),
            "predicted": self.classes[predicted],
        }


def check_inputs(Z_train: Any, y_train: Any, Z_test: Any, y_test: Any) -> ProbeInputs:
    """Check shapes, leave out rows without a label, and number the classes."""
    Z_train, Z_test = _check_rows(Z_train, y_train, Z_test, y_test)
    both = encode_labels(_joined(y_train, y_test), "y")
    train, test = both.codes[: len(Z_train)], both.codes[len(Z_train) :]
    check_classes(train, both.classes, "y_train")
    if not (test != MISSING).any():
        raise ValueError(f"y_test has no label at all: all {len(test):,} are missing.")
    return ProbeInputs(
        _present(Z_train, train),
        train[train != MISSING],
        _present(Z_test, test),
        test[test != MISSING],
        both.classes,
    )


@dataclass(frozen=True)
class RegressionInputs:
    """Rows with a target: representations as given, targets as numbers."""

    Z_train: np.ndarray  # shape: (n, h)
    train: np.ndarray  # shape: (n,) float64
    Z_test: np.ndarray
    test: np.ndarray

    def scored(self, predicted: np.ndarray) -> dict[str, Any]:
        """The fields of a `RegressionResult` that follow from the predictions of the test rows."""
        return {
            **regression_scores(predicted, self.test),
            "n_labels": len(self.train),
            "n_test": len(self.test),
            "predicted": predicted,
        }


def check_regression_inputs(Z_train: Any, y_train: Any, Z_test: Any, y_test: Any) -> RegressionInputs:
    """Check shapes, and leave out rows without a target."""
    Z_train, Z_test = _check_rows(Z_train, y_train, Z_test, y_test)
    train, test = as_targets(y_train, "y_train"), as_targets(y_test, "y_test")
    here, there = ~np.isnan(train), ~np.isnan(test)
    if here.sum() < 2:
        raise ValueError(f"y_train has {here.sum()} target(s); a regression needs at least 2.")
    return RegressionInputs(Z_train[here], train[here], Z_test[there], test[there])


def _check_rows(Z_train: Any, y_train: Any, Z_test: Any, y_test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Representations that come from one model, with one label for every row."""
    Z_train, Z_test = check_matrix(Z_train, "Z_train"), check_matrix(Z_test, "Z_test")
    if Z_train.shape[1] != Z_test.shape[1]:
        raise ValueError(
            f"Z_train has {Z_train.shape[1]} columns and Z_test {Z_test.shape[1]}: both must come from one model."
        )
    for name, Z, y in (("y_train", Z_train, y_train), ("y_test", Z_test, y_test)):
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise TypeError(f"{name} must be a sequence with one label per row; got {type(y).__name__}.")
        if len(y) != len(Z):
            raise ValueError(
                f"{name} has {len(y):,} labels for {len(Z):,} rows; one is needed for every row."
            )
    return Z_train, Z_test


def check_matrix(Z: Any, name: str = "Z") -> np.ndarray:
    """A representation as a 2-D array of finite numbers, in the dtype that it has: pixels may stay bytes."""
    Z = as_array(Z, name)
    if Z.ndim != 2 or Z.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be a 2-D array of numbers, one row per sample; got shape {Z.shape}, {Z.dtype}."
        )
    if 0 in Z.shape:
        raise ValueError(f"{name} is empty: its shape is {Z.shape}.")
    check_finite(Z, name)
    return Z


def check_classes(codes: np.ndarray, classes: np.ndarray, name: str) -> None:
    """A classifier needs two classes."""
    found = np.unique(codes[codes != MISSING])
    if len(found) == 0:
        raise ValueError(f"{name} has no label at all: all {len(codes):,} are missing.")
    if len(found) == 1:
        raise ValueError(
            f"{name} has a single class, {classes[found[0]].item()!r}: there is nothing to distinguish. "
            "Give labels of at least two classes."
        )


def few_threads(X: np.ndarray) -> threadpool_limits | nullcontext[None]:
    """Use one thread for small problems, where threads lose more by waiting for one another than they gain."""
    return threadpool_limits(1) if X.size < SMALL_CELLS else nullcontext()


def chosen_rows(rows: Any, n_rows: int, name: str) -> np.ndarray:
    """Sorted, distinct indices of rows given as indices or as a mask.

    >>> chosen_rows([True, False, True], 3, "train"), chosen_rows([2, 0, 0], 3, "train")
    (array([0, 2]), array([0, 2]))
    """
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if rows.shape != (n_rows,):
            raise ValueError(f"{name}= is a mask of shape {rows.shape}; expected ({n_rows},).")
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"{name}= must be row indices or a mask; got shape {rows.shape}, {rows.dtype}.")
    if len(rows) and not (rows.min() >= 0 and rows.max() < n_rows):
        raise ValueError(
            f"{name}= has rows from {rows.min()} to {rows.max()}; there are rows 0 to {n_rows - 1}."
        )
    return np.unique(rows)


def _joined(y_train: Any, y_test: Any) -> np.ndarray | list[Any]:
    """Two sequences of labels as one, without numpy turning numbers into text."""
    parts: list[Any] = [y if isinstance(y, list | tuple) else np.asarray(y) for y in (y_train, y_test)]
    arrays = all(isinstance(y, np.ndarray) and y.ndim == 1 for y in parts)
    if arrays and parts[0].dtype.kind == parts[1].dtype.kind:
        return np.concatenate(parts)
    return [label for y in parts for label in (y.tolist() if isinstance(y, np.ndarray) else y)]


def _present(Z: np.ndarray, codes: np.ndarray) -> np.ndarray:
    kept = codes != MISSING
    return Z if kept.all() else Z[kept]
