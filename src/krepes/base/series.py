"""Time series as arrays (t, c): from an array of them, or from a list of series of different lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

Series = np.ndarray  # (t, c), float64


def as_series(X: Any, like: Sequence[Series] | None = None) -> list[Series]:
    """Rows as arrays (t, c), checked: not empty, finite, all of as many channels."""
    if not isinstance(X, Tensor | np.ndarray) and getattr(X, "ndim", getattr(X, "shape", None)) is not None:
        X = np.array(X)  # a frame, whose parts are columns
    if isinstance(X, Tensor | np.ndarray) and X.ndim not in (2, 3):
        raise ValueError(
            f"An array of series has the shape (n, t) or (n, t, c); got {tuple(X.shape)}. Give series of "
            "different lengths as a list."
        )
    if not isinstance(X, Iterable):
        raise TypeError(
            f"Expected a list of series, or an array (n, t) or (n, t, c); got {type(X).__name__}."
        )
    found = [_one_series(row, i) for i, row in enumerate(X)]
    channels = like[0].shape[1] if like else (found[0].shape[1] if found else 1)
    for i, series in enumerate(found):
        if series.shape[1] != channels:
            raise ValueError(
                f"Series {i} has {series.shape[1]} channels where others have {channels}: all need as many."
            )
    return found


def _one_series(row: object, i: int) -> Series:
    try:
        given = row.detach().cpu().numpy() if isinstance(row, Tensor) else row
        series = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"Row {i} is not a series of numbers (t,) or (t, c), but {type(row).__name__}."
        ) from None
    if series.ndim not in (1, 2) or series.size == 0:
        what = "is empty" if series.size == 0 else f"has the shape {series.shape}"
        raise ValueError(f"Series {i} {what}: expected numbers of shape (t,) or (t, c) with t >= 1.")
    if not np.isfinite(series).all():
        raise ValueError(f"Series {i} has NaN or infinite values. Cut them out or fill them in first.")
    return np.ascontiguousarray(series.reshape(len(series), -1))
