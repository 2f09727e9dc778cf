"""What every probe checks first: representations and labels that fit together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from krepes.base.validation import as_array, as_row_indices, check_finite
from krepes.evaluation.probe_result import Model, ProbeResult, basic_scores, class_recall
from krepes.preprocessing.labels import MISSING, encode_labels, label_vector
from krepes.preprocessing.targets import as_targets

SMALL_CELLS = 1 << 20


@dataclass(frozen=True)
class ProbeInputs:
    """Rows with a label: representations as given, labels as codes of common classes or as numbers."""

    Z_train: np.ndarray  # shape: (n, h)
    train: np.ndarray  # shape: (n,)
    Z_test: np.ndarray
    test: np.ndarray
    classes: np.ndarray  # empty for a quantity

    def result(
        self,
        model: Model,
        predicted: np.ndarray,
        chosen: dict[str, float | str] | None = None,
        validation_accuracy: float = float("nan"),
        notes: Sequence[str] = (),
    ) -> ProbeResult[Model]:
        """The result of a fitted model, from its predictions for the test rows: codes or numbers."""
        quantity = len(self.classes) == 0
        recall = {} if quantity else class_recall(predicted, self.test)
        return ProbeResult(
            metrics=basic_scores(predicted, self.test, quantity),
            model=model,
            n_labels=len(self.train),
            n_test=len(self.test),
            predicted=predicted if quantity else self.classes[predicted],
            classes=self.classes,
            recall={self.classes[code].item(): share for code, share in recall.items()},
            chosen=chosen or {},
            validation_accuracy=validation_accuracy,
            notes=list(notes),
        )


def check_inputs(
    Z_train: Any, y_train: Any, Z_test: Any, y_test: Any, *, quantity: bool = False
) -> ProbeInputs:
    """Check shapes, leave out rows without a label, and number the classes."""
    Z_train, Z_test = check_matrix(Z_train, "Z_train"), check_matrix(Z_test, "Z_test")
    if Z_train.shape[1] != Z_test.shape[1]:
        raise ValueError(
            f"Z_train has {Z_train.shape[1]} columns and Z_test {Z_test.shape[1]}: both must come from one model."
        )
    y_train, y_test = label_vector(y_train, "y_train"), label_vector(y_test, "y_test")
    for name, Z, y in (("y_train", Z_train, y_train), ("y_test", Z_test, y_test)):
        if len(y) != len(Z):
            raise ValueError(
                f"{name} has {len(y):,} labels for {len(Z):,} rows; one is needed for every row."
            )
    if quantity:
        classes, train, test = np.empty(0), as_targets(y_train, "y_train"), as_targets(y_test, "y_test")
        here, there = ~np.isnan(train), ~np.isnan(test)
        if here.sum() < 2:
            raise ValueError(f"y_train has {here.sum()} target(s); a regression needs at least 2.")
    else:
        if y_train.dtype.kind != y_test.dtype.kind:  # because numpy would turn numbers into text
            y_train, y_test = y_train.astype(object), y_test.astype(object)
        both = encode_labels(np.concatenate([y_train, y_test]), "y")
        classes, (train, test) = both.classes, np.split(both.codes, [len(Z_train)])
        check_classes(train, classes, "y_train")
        here, there = train != MISSING, test != MISSING
    if not there.any():
        raise ValueError(f"y_test has no label at all: all {len(test):,} are missing.")
    Z_train, Z_test = (Z if kept.all() else Z[kept] for Z, kept in ((Z_train, here), (Z_test, there)))
    return ProbeInputs(Z_train, train[here], Z_test, test[there], classes)


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
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"{name}= must be row indices or a mask of {n_rows} rows; got {rows.dtype} of shape {rows.shape}."
        )
    return as_row_indices(np.unique(rows), n_rows, name)
