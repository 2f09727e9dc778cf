"""Rows that are time series: checked, and standardised by channel.

    (n, t) or (n, t, c)             one tensor (n, t, c)
    series of different lengths     a list of tensors (t_i, c)

Every channel is standardised by its mean and deviation over all points of the candidate rows, so that no channel
outweighs the others; the level and the spread of a single series are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import Rows
from krepes.sources import Source

Series = np.ndarray  # (t, c), float64
WAYS = "an array (n, t) or (n, t, c), or a list of arrays (t,) or (t, c) whose lengths may differ"


def as_series(X: Any, like: Sequence[Series] | None = None) -> list[Series]:
    """Rows as arrays (t, c), checked: not empty, finite, all of as many channels."""
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


def check_series_source(source: Source) -> None:
    """Refuse data that cannot be series."""
    shape = () if source.kind == "objects" else np.shape(next(source.batches(1))[1])
    if source.kind not in ("vectors", "images", "objects") or len(shape) > 3:
        raise ValueError(f"preprocess='series' takes {WAYS}; this is {source.describe()}.")


def series_shape(sample: Rows) -> tuple[int, ...]:
    """(t, c) where all series have one length, because they come as an array; (c,) where they may differ."""
    channels = as_series(sample)[0].shape[1]
    return (channels,) if isinstance(sample, list) else (sample.shape[1], channels)


def series_points(sample: Rows) -> Tensor:
    """The points of all series, (points, 1, 1, c): a picture each, whose channels can be standardised."""
    return torch.from_numpy(np.concatenate(as_series(sample)))[:, None, None]


def check_series(series: Sequence[Series], shape: tuple[int, ...]) -> None:
    """Refuse series that do not have the channels, and where it is fixed the length, of those that were fitted."""
    for i, x in enumerate(series):
        if x.shape[1] != shape[-1]:
            raise ValueError(f"Series {i} has {x.shape[1]} channels; this model was fitted on {shape[-1]}.")
        if len(shape) == 2 and len(x) != shape[0]:
            raise ValueError(
                f"Series {i} has {len(x)} steps, and this model was fitted on an array of series of {shape[0]}. For "
                "series of different lengths, fit on a list of them."
            )
