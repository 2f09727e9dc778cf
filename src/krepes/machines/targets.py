"""Targets as columns of numbers: classes as indicators, quantities in units of their spread.

    classes       y -> column c of the identity matrix
    quantities    y -> (y - shift) / scale, per column; shift and scale come from the first rows seen, by weight

so that sums in single precision keep the digits of a target that is far from zero. A ridge penalty means the same for
any unit of the target.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from krepes.base.storage.codec import Bounds, Shape, State
from krepes.base.storage.packing import digest
from krepes.base.validation import as_array, as_numbers
from krepes.features.fit_data import as_weights
from krepes.labelled import labels_of
from krepes.preprocessing.labels import encode_labels, label_vector, missing_values, plain_values
from krepes.sources import open_source


class Targets(ABC):
    """How targets become columns of numbers; fixed by the first rows, as the feature space is."""

    n_outputs: int

    @property
    def unit(self) -> np.ndarray | float:
        """What a difference of 1 between encoded targets is, (c,) or one number."""
        return 1.0

    @abstractmethod
    def encoded(self, y: Any) -> np.ndarray:
        """Targets as they are kept beside the rows, n long."""

    @abstractmethod
    def matrix(self, encoded: np.ndarray | None) -> Tensor:
        """Encoded targets as numbers, (n, c), float64."""

    @abstractmethod
    def are_encoded(self, y: np.ndarray) -> bool:
        """Whether an array, such as one of a file, holds encoded targets."""

    def fingerprint(self) -> dict[str, str]:
        return {"targets": digest(self)}


@dataclass(frozen=True, eq=False)
class Classes(Targets):
    """Classes, sorted, as indicator columns.

    >>> classes = Classes.of(["no", "yes", "no"])
    >>> classes.matrix(classes.encoded(["yes", "no"])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    values: np.ndarray  # shape: (c,)

    @classmethod
    def of(cls, y: Any) -> Classes:
        """The classes of these rows."""
        return cls._checked(encode_labels(_labels(y)).classes, "y")

    @classmethod
    def given(cls, classes: ArrayLike) -> Classes:
        """These classes."""
        twice = np.repeat(_labels(classes, "classes"), 2)  # because a class should have several rows
        return cls._checked(encode_labels(twice, "classes").classes, "classes")

    @classmethod
    def _checked(cls, values: np.ndarray, name: str) -> Classes:
        if len(values) < 2:
            raise ValueError(
                f"{name} has one class, {values.tolist()[0]!r}: a classifier needs at least two classes."
            )
        return cls(values)

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        return len(self.values)

    def encoded(self, y: Any) -> np.ndarray:
        y = _labels(y)
        if y.dtype.kind != self.values.dtype.kind and self.values.dtype.kind in "iu" and y.dtype.kind in "fb":
            y = y.astype(np.float64)
        try:
            places = np.searchsorted(self.values, y).clip(max=len(self.values) - 1)
            unknown = self.values[places] != y
        except TypeError:
            unknown, places = np.ones(len(y), dtype=bool), np.zeros(len(y), dtype=int)
        if unknown.any():
            raise ValueError(
                f"y has the class {y[unknown].tolist()[0]!r}, which this model does not know: its classes are "
                f"{', '.join(map(repr, self.values[:10].tolist()))}{', ...' if len(self.values) > 10 else ''}. Give "
                "all of them to the first call: partial_fit(X, y, classes=...)."
            )
        return places.astype(np.int64)

    def matrix(self, encoded: np.ndarray | None) -> Tensor:
        assert encoded is not None
        return torch.eye(self.n_outputs, dtype=torch.float64)[torch.from_numpy(encoded)]

    def are_encoded(self, y: np.ndarray) -> bool:
        return y.dtype == np.int64 and y.ndim == 1 and bool(((y >= 0) & (y < self.n_outputs)).all())

    def state(self) -> State:
        return {"class": "Classes", "values": self.values.tolist()}

    @classmethod
    def from_state(cls, state: State) -> Classes:
        """Labels of any type, which must differ and be in order."""
        values = state.get("values")
        classes = cls.given(values) if isinstance(values, list) else None
        if classes is None or classes.values.tolist() != values:
            raise ValueError("The file is damaged: the classes of the targets must differ, and be in order.")
        return classes


@dataclass(frozen=True, eq=False)
class Quantities(Targets):
    """Real numbers, one column or several.

    >>> quantities = Quantities.of([1.0, 3.0])
    >>> quantities.encoded([3.0]).tolist(), quantities.decoded(np.array([[-1.0]])).tolist()
    ([[1.0]], [1.0])
    """

    shift: Annotated[np.ndarray, Shape("c")]
    scale: Annotated[np.ndarray, Shape("c"), Bounds(above=0)]
    flat: bool  # whether y has one dimension

    @classmethod
    def of(cls, y: Any, shift: bool = True, weight: Any = None) -> Quantities:
        """Units of these targets; without `shift`, zero stays zero, as a machine without an intercept needs it.

        A row of weight w counts as w rows.
        """
        Y, flat = _numbers(y)
        counts = as_weights(weight, len(Y))
        share = np.ones(len(Y)) if counts is None else counts / counts.max()
        share = share / share.sum()
        mean = share @ Y if shift else np.zeros(Y.shape[1])
        largest = np.abs(Y - mean).max(axis=0)
        unit = np.where(largest > 1e-300, largest, 1.0)  # because squares of huge numbers overflow
        spread = unit * np.sqrt(share @ np.square((Y - mean) / unit))
        return cls(mean, np.where(spread > 1e-300, spread, 1.0), flat)

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        return len(self.shift)

    def encoded(self, y: Any) -> np.ndarray:
        Y, _ = _numbers(y)
        if Y.shape[1] != self.n_outputs:
            raise ValueError(f"y has {Y.shape[1]} columns; expected {self.n_outputs}, as before.")
        return (Y - self.shift) / self.scale

    @property
    def unit(self) -> np.ndarray | float:
        return self.scale

    def decoded(self, Y: np.ndarray) -> np.ndarray:
        """Predictions in the units of the targets, (n,) or (n, c)."""
        with np.errstate(over="ignore", invalid="ignore"):
            Y = checked_predictions(Y * self.scale + self.shift)
        return Y[:, 0] if self.flat else Y

    def matrix(self, encoded: np.ndarray | None) -> Tensor:
        assert encoded is not None
        return torch.from_numpy(np.asarray(encoded, dtype=np.float64))

    def are_encoded(self, y: np.ndarray) -> bool:
        return y.dtype == np.float64 and y.ndim == 2 and y.shape[1] == self.n_outputs


def targets_in(X: Any, y: Any, who: str) -> tuple[Any, np.ndarray | None]:
    """Targets, by name if y is one, and which of them are missing."""
    if y is None:
        raise ValueError(
            f"{who} requires y to be passed, but the target y is None. Give targets, or the name of a column of X."
        )
    if not isinstance(y, str):
        return y, None
    values = labels_of(open_source(X), X if isinstance(X, str | os.PathLike) else "X", y)[0]
    missing = missing_values(values)
    if not missing.any():
        return values, None
    if missing.all():
        raise ValueError(f"The column {y!r} has no value in any row: there is nothing to learn from.")
    filled = values.copy()
    filled[missing] = values[~missing][0]
    return filled, missing


def without(missing: np.ndarray | None, sample_weight: Any) -> ArrayLike | None:
    """Weights that are zero where the target is missing."""
    if missing is None:
        return sample_weight
    weight = as_weights(sample_weight, len(missing))
    return np.where(missing, 0.0, 1.0 if weight is None else weight)


def checked_predictions(found: np.ndarray) -> np.ndarray:
    """Predictions, which must be finite: a file can hold numbers whose products are not."""
    if not np.isfinite(found).all():
        raise ValueError("Predictions overflow: the numbers of this model, or of its targets, are too large.")
    return found


def _labels(y: Any, name: str = "y") -> np.ndarray:
    """One label for every row, (n,), none of them missing."""
    if not isinstance(y, list | tuple):  # of which numpy would make text where they are mixed
        y = as_array(y, name)
        _check_real(y, name)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
    labels = label_vector(y, name)
    if len(labels) == 0:
        raise ValueError(f"{name} is empty; expected one label for every row.")
    missing = missing_values(labels)
    if missing.any():
        raise ValueError(
            f"{name} has NaN or no value in {missing.sum():,} of {len(labels):,} rows (the first is row "
            f"{missing.argmax()}); leave out rows whose class is not known."
        )
    labels = plain_values(labels, name)
    if labels.dtype.kind == "f" and np.isfinite(labels).all():
        with np.errstate(invalid="ignore"):  # it casts to integers
            check_classification_targets(labels)
    return labels


def _check_real(y: np.ndarray, name: str) -> None:
    if y.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} holds {y.dtype}; expected real targets.")


def _numbers(y: Any) -> tuple[np.ndarray, bool]:
    """Targets as (n, c) float64, and whether they were (n,)."""
    given = as_array(y, "y")
    _check_real(given, "y")
    values = given.flat if given.dtype.kind in "USO" else ()
    text = next((value for value in values if isinstance(value, str | bytes)), None)
    if text is not None:
        raise TypeError(
            f"y holds text such as {str(text)!r:.60}; a regression needs numbers. Classes need a classifier."
        )
    Y = as_numbers(given, "y").astype(np.float64)
    if Y.ndim not in (1, 2):
        raise ValueError(f"y has shape {Y.shape}; expected targets (n,) or (n, c).")
    return (Y[:, None], True) if Y.ndim == 1 else (Y, False)
