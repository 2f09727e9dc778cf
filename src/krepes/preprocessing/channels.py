"""Images and time series by channel: standardised, and series checked.

    images                          (n, h, w) or (n, h, w, c)
    series, (n, t) or (n, t, c)     one tensor (n, t, c)
    series of different lengths     a list of tensors (t_i, c)

Every channel is standardised by its mean and deviation over all points of the candidate rows, so that no channel
outweighs the others; the level and the spread of a single image or series are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.series import Series
from krepes.sources import Source

WAYS = "an array (n, t) or (n, t, c), or a list of arrays (t,) or (t, c) whose lengths may differ"


class Normalize(Component):
    """Standardise the channels of images: (pixel - mean) / std, after division by 255.

    Parameters
    ----------
    mean, std : sequence of one number per channel, or None, default=None
        None takes them from the data.

    Examples
    --------
    >>> Normalize(mean=[0.5], std=[0.25])(torch.ones(1, 2, 2))
    tensor([[[2., 2.],
             [2., 2.]]])
    """

    def __init__(self, mean: Sequence[float] | None = None, std: Sequence[float] | None = None):
        self.mean = mean
        self.std = std

    def fitted(self, images: Tensor) -> Normalize:  # (n, h, w[, c])
        """A copy whose mean and std are numbers."""
        pixels = images.double().reshape(-1, images.shape[3] if images.ndim == 4 else 1)
        mean = pixels.mean(0) if self.mean is None else torch.tensor(self.mean, dtype=torch.float64)
        std = pixels.std(0, correction=0) if self.std is None else torch.tensor(self.std, dtype=torch.float64)
        if not len(mean) == len(std) == pixels.shape[1]:
            raise ValueError(f"Normalize needs {pixels.shape[1]} means and deviations, one per channel.")
        if not (std >= 0).all():
            raise ValueError(f"std={std.tolist()}: standard deviations cannot be negative.")
        return Normalize(mean.tolist(), torch.where(std > 0, std, 1.0).tolist())

    def check_restored(self) -> None:
        mean, std = self.mean or [], self.std or []
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise ValueError("Normalize needs as many deviations as means, all of them positive.")

    def __call__(self, images: Tensor) -> Tensor:
        mean, std = self._numbers(images)
        return (images - mean) / std

    def inverse(self, images: Tensor) -> Tensor:
        """Standardised images with the pixels that they had."""
        mean, std = self._numbers(images)
        return images * std + mean

    def _numbers(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation, of every channel or, where there are none, of all pixels."""
        mean, std = (
            torch.as_tensor(v, dtype=images.dtype, device=images.device) for v in (self.mean, self.std)
        )
        return (mean, std) if images.ndim == 4 else (mean[0], std[0])


def check_series_source(source: Source) -> None:
    """Refuse data that cannot be series."""
    shape = () if source.kind == "objects" else np.shape(next(source.batches(1))[1])
    if source.kind not in ("vectors", "images", "objects") or len(shape) > 3:
        raise ValueError(f"preprocess='series' takes {WAYS}; this is {source.describe()}.")


def series_points(series: Sequence[Series]) -> Tensor:
    """The points of all series, (points, 1, 1, c): a picture each, whose channels can be standardised."""
    return torch.from_numpy(np.concatenate(series))[:, None, None]


def check_series(series: Sequence[Series], shape: tuple[int, ...]) -> None:
    """Refuse series with other channels than in the fit, or, where it is fixed, of another length."""
    for i, x in enumerate(series):
        if x.shape[1] != shape[-1]:
            raise ValueError(f"Series {i} has {x.shape[1]} channels; this model was fitted on {shape[-1]}.")
        if len(shape) == 2 and len(x) != shape[0]:
            fitted = f"this model was fitted on an array of series of {shape[0]}"
            raise ValueError(
                f"Series {i} has {len(x)} steps; {fitted}. For different lengths, fit on a list."
            )
