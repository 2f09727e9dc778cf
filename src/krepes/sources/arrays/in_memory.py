"""Arrays and tensors in memory as sources: (n, d) vectors or (n, h, w[, c]) images.

Rows are used as given and never written to: no scaling, no conversion of the dtype. Batches are contiguous
and in the machine's byte order, so that torch can share their memory; they are views where that is possible.
A four-dimensional array whose second axis is 1, 3 or 4 long and whose last axis is longer than 4 holds images
with the channels first, the torch convention; it is read as (n, h, w, c).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from krepes.base.rows import Rows, is_tensor, take_rows
from krepes.base.validation import REMEDIES
from krepes.sources.source import IndexedSource

if TYPE_CHECKING:
    import torch

RESHAPE = "Reshape your data: array.reshape(-1, 1) if it is a feature, array.reshape(1, -1) if it is a row."
_CHANNELS = (1, 3, 4)
_TEXT = "Turn text into numbers, or use a DataFrame, whose text columns become categories."
_REMEDIES = REMEDIES | {
    "U": _TEXT,
    "S": _TEXT,
    "O": "Python objects would need unpickling, which krepes never does; save an array of numbers.",
    "V": "Structured arrays are not supported: use a DataFrame or a pyarrow table.",
}


class ArraySource(IndexedSource):
    """Rows of a numpy array or of a torch tensor, which stays where it is.

    `paths` are the files that the array comes from, if any.

    >>> source = ArraySource(np.zeros((5, 2)))
    >>> source.describe(), [(start, len(batch)) for start, batch in source.batches(3)]
    ('numpy array, 5 × 2, float64', [(0, 3), (3, 2)])
    """

    def __init__(self, X: Any, description: str | None = None, paths: Sequence[Path] = ()):
        super().__init__(paths)
        shape = tuple(X.shape)
        check_array(shape, X.dtype)
        if is_tensor(X):
            if X.layout is not sys.modules["torch"].strided:
                raise ValueError(f"Expected a dense tensor; got layout {X.layout}. Use X.to_dense().")
            X = X.detach()
        self.X = channels_last(X)
        self.kind = array_kind(shape)
        self.n_rows = shape[0]
        self._description = description or ("torch tensor" if is_tensor(X) else "numpy array")

    def _rows(self, which: slice | np.ndarray) -> Rows:
        return ready(self.X[which] if isinstance(which, slice) else take_rows(self.X, which))

    def describe(self) -> str:
        return f"{self._description}, {' × '.join(f'{s:,}' for s in self.X.shape)}, {self.X.dtype}"


def array_kind(shape: tuple[int, ...]) -> str:
    return "vectors" if len(shape) == 2 else "images"


def ready(batch: np.ndarray | torch.Tensor) -> np.ndarray | torch.Tensor:
    """A batch that torch can share: contiguous, native byte order, at most 64 bits; images with channels last."""
    batch = channels_last(batch)
    if not isinstance(batch, np.ndarray):
        return batch
    dtype = batch.dtype.newbyteorder("=")
    if dtype.kind == "f" and dtype.itemsize > 8:
        dtype = np.dtype(np.float64)
    return np.ascontiguousarray(batch, dtype=dtype)


def channels_last(X: Any) -> Any:
    """(n, c, h, w) as (n, h, w, c), as a view; everything else as it is."""
    shape = tuple(X.shape)
    if len(shape) == 4 and shape[1] in _CHANNELS and shape[3] > max(_CHANNELS):
        return X.permute(0, 2, 3, 1) if is_tensor(X) else np.moveaxis(X, 1, -1)
    return X


def check_array(shape: tuple[int, ...], dtype: Any, where: str = "") -> None:
    """Refuse what is not an array of vectors or images. `where` begins the message."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(dtype, torch.dtype):
        check_dtype(np.dtype(dtype), where)
    elif dtype.is_complex:
        raise ValueError(f"{where}Complex data not supported; got a tensor of {dtype}. Give real numbers.")
    if len(shape) < 2:
        got = f"{len(shape)}D array of shape {shape}"
        raise ValueError(f"{where}Expected 2D array, got {got} instead. {RESHAPE}")
    if len(shape) > 4:
        raise ValueError(
            f"{where}Expected vectors (n, d) or images (n, h, w) or (n, h, w, c); got shape {shape}. "
            "Flatten each sample with X.reshape(len(X), -1)."
        )
    if 0 in shape:
        found = f"array with 0 {'sample' if shape[0] == 0 else 'feature'}(s) (shape={shape})"
        raise ValueError(f"{where}Found {found} while a minimum of 1 is required.")


def check_dtype(dtype: np.dtype, where: str = "") -> None:
    """Raise unless the dtype is one of real numbers."""
    if dtype.kind not in "biuf":
        remedy = _REMEDIES.get(dtype.kind, "Turn it into numbers first.")
        raise ValueError(f"{where}Expected an array of numbers; got dtype {dtype}. {remedy}")


def numbers_of_objects(X: np.ndarray) -> np.ndarray:
    """An object array of numbers as float64; text and anything else is an error."""
    text = next((value for value in X.flat if isinstance(value, (str, bytes))), None)
    if text is not None:
        raise ValueError(
            f"Expected an array of numbers; got an object array that holds text such as {text!r:.60}. "
            "Convert it to numbers, use a DataFrame, or give a list if the rows are objects."
        )
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Expected an array of numbers; got an object array: {error}.") from error
