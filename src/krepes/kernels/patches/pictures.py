"""Rows as pictures: arrays of every form become (n, h, w, c), and large ones are averaged down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from krepes.base.reporting import warn
from krepes.base.rows import SparseRows
from krepes.base.validation import writable

FINEST = 64  # pixels of a side; larger pictures are averaged down
LARGEST = 256  # pixels of a side up to which nothing is said about that


def as_pictures(X: Any, shape: Sequence[int] | None) -> Tensor:
    """Rows as pictures, (n, h, w, c); flattened ones by their shape."""
    if isinstance(X, SparseRows):
        raise TypeError("Patches are parts of pictures, and these rows are sparse.")
    if not isinstance(X, Tensor):
        try:
            X = torch.as_tensor(writable(np.asarray(X)))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError("Patches are parts of pictures: give arrays (n, h, w) or (n, h, w, c).") from None
        if not bool(torch.isfinite(X).all()):
            raise ValueError("The pictures hold NaN or infinite numbers: fill them in, or leave them out.")
    X = X if X.is_floating_point() else X.float()
    if X.ndim == 2 and shape is not None:
        if X.shape[1] != math.prod(shape):
            raise ValueError(f"Patches(shape={tuple(shape)}) does not fit rows of {X.shape[1]} numbers.")
        X = X.reshape(len(X), *shape)
    if X.ndim == 3:
        X = X[..., None]
    if X.ndim != 4 or min(X.shape[1:]) < 1:
        raise ValueError(
            f"Patches are parts of pictures (n, h, w) or (n, h, w, c); got rows of shape {tuple(X.shape[1:])}. Say "
            "how to read flattened pictures: Patches(shape=(28, 28))."
        )
    return X


def precision_of(X: Any) -> torch.dtype:
    """The precision of kernel values of rows."""
    found = X.dtype if isinstance(X, Tensor) else torch.as_tensor(np.asarray(X)[:0]).dtype
    return found if found in (torch.float32, torch.float64) else torch.float32


def say_if_large(images: Tensor) -> None:
    """Warn of pictures whose details are lost."""
    height, width = images.shape[1:3]
    if max(height, width) > LARGEST:
        small = tuple(reduced(images[:1]).shape[1:3])
        warn(
            f"Pictures of {height} × {width} pixels are averaged down to {small[0]} × {small[1]} before patches."
        )


def reduced(images: Tensor) -> Tensor:
    """Pictures of at most 64 pixels a side: means over blocks of pixels."""
    longest = max(images.shape[1:3])
    if longest <= FINEST:
        return images
    factor = math.ceil(longest / FINEST)
    size = (max(1, round(images.shape[1] / factor)), max(1, round(images.shape[2] / factor)))
    return functional.adaptive_avg_pool2d(images.permute(0, 3, 1, 2), size).permute(0, 2, 3, 1)
