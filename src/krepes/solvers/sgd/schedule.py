"""The learning rate over the epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The learning rate over the epochs: a linear warm-up, then a cosine from `top` to `bottom`.

    >>> schedule = Schedule(top=1.0, max_epochs=3, warmup_epochs=1, bottom=0.0)
    >>> [round(schedule.rate(t), 3) for t in (0.5, 1, 2, 3)]
    [0.5, 1.0, 0.5, 0.0]
    """

    top: float
    max_epochs: int
    warmup_epochs: float = 1.0
    bottom: float = 1e-5

    def rate(self, epochs: float) -> float:
        """The rate after this many epochs, which may be a fraction."""
        low = min(self.bottom, self.top)
        warm = min(self.warmup_epochs, self.max_epochs / 2)
        if epochs < warm:
            return max(low, self.top * epochs / warm)
        share = (epochs - warm) / max(self.max_epochs - warm, 1e-12)
        return low + (self.top - low) * (1 + math.cos(math.pi * min(share, 1.0))) / 2
