"""Rows that are time series: checked, and standardised by channel.

    (n, t) or (n, t, c)             one tensor (n, t, c)
    series of different lengths     a list of tensors (t_i, c)

Every channel is standardised by its mean and deviation over all points of the candidate rows, so that no channel
outweighs the others; the level and the spread of a single series are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import Rows
from krepes.base.series import Series, as_series
from krepes.sources import Source

WAYS = "an array (n, t) or (n, t, c), or a list of arrays (t,) or (t, c) whose lengths may differ"


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
    """Refuse series with other channels than in the fit, or, where it is fixed, of another length."""
    for i, x in enumerate(series):
        if x.shape[1] != shape[-1]:
            raise ValueError(f"Series {i} has {x.shape[1]} channels; this model was fitted on {shape[-1]}.")
        if len(shape) == 2 and len(x) != shape[0]:
            raise ValueError(
                f"Series {i} has {len(x)} steps, and this model was fitted on an array of series of {shape[0]}. For "
                "series of different lengths, fit on a list of them."
            )
