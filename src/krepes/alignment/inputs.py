"""What alignment takes: representations as readers of matrices; kernels, labels and targets as columns; row indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.blocks import Block, Reader
from krepes.base.rows import Rows
from krepes.base.validation import as_array, as_flat_matrix, check_same_rows
from krepes.kernels import Kernel
from krepes.preprocessing.labels import MISSING, encode_labels
from krepes.sources import open_source
from krepes.sources.row_sampling import RawReader

Numbers = ArrayLike | Tensor  # anything that `as_flat_matrix` takes
KernelChoice = str | Kernel | Callable[[Any, Any], Numbers]  # a function of blocks X, Y gives (n, m)


@dataclass(frozen=True, eq=False)
class FeatureReader(Reader):
    """Representations of the same rows, side by side, as matrices.

    >>> reader = FeatureReader.of({"a": [[1.0], [2.0]], "b": [[3.0, 4.0], [5.0, 6.0]]})
    >>> [matrix.tolist() for matrix in next(reader.read(8)).inputs]
    [[[1.0], [2.0]], [[3.0, 4.0], [5.0, 6.0]]]
    """

    readers: tuple[RawReader, ...]

    @classmethod
    def of(cls, features: Mapping[str, Any]) -> FeatureReader:
        """Of anything that is a source: arrays, files, folders, Dask collections."""
        if not isinstance(features, Mapping) or not features:
            raise TypeError(f"features is a {type(features).__name__}; expected {{name: features (n, d)}}.")
        sources = {name: open_source(X) for name, X in features.items()}
        first, n = next((name, source.n_rows) for name, source in sources.items())
        for name, source in sources.items():
            check_same_rows(source.n_rows, n, repr(name), repr(first))
            if source.kind not in ("vectors", "images", "table"):
                raise ValueError(f"{name!r} is {source.describe()}; expected rows of numbers.")
        return cls(tuple(RawReader(source) for source in sources.values()))

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.readers[0].n_rows

    def read(self, batch_rows: int, start: int = 0) -> Iterator[Block]:
        for blocks in zip(*(reader.read(batch_rows, start) for reader in self.readers)):
            yield Block(blocks[0].rows, tuple(_matrix(block.inputs[0]) for block in blocks))

    def parts(self, n: int) -> list[FeatureReader]:
        edges = [(part.start, part.stop) for part in self.readers[0].parts(n)]
        return [
            FeatureReader(tuple(replace(reader, start=start, stop=stop) for reader in self.readers))
            for start, stop in edges
        ]

    def portable(self) -> FeatureReader:
        return FeatureReader(tuple(reader.portable() for reader in self.readers))

    def identity(self) -> dict[str, str]:
        return {
            f"{name} {i}": value
            for i, reader in enumerate(self.readers)
            for name, value in reader.identity().items()
        }


def _matrix(rows: Rows) -> np.ndarray:
    """Rows of numbers, (b, d)."""
    if isinstance(rows, pa.Table):
        return np.column_stack([np.asarray(column.to_numpy(), dtype=np.float64) for column in rows.columns])
    return as_flat_matrix(rows, "The features", finite=False)


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
            f"rows has shape {indices.shape} and holds {indices.dtype}; expected one index per row of the batch, "
            "integers from 0."
        )
    return indices.astype(np.int64)
