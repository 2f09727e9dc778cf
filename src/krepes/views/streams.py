"""Moved to `krepes.base.streams`; this name goes in a later version."""

from __future__ import annotations

import warnings

from krepes.base.streams import normal, stream_key, uniform

__all__ = ["normal", "stream_key", "uniform"]

warnings.warn(
    "krepes.views.streams is krepes.base.streams now; this name will be removed.", FutureWarning, stacklevel=2
)
