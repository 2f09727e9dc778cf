"""Condition monitoring: a stream of rows in batches, each scored before anything is learned from it.

    chance = P(at least so many alarms among the rows of a batch),      alarms ~ Beta-binomial(m, k, n + 1 - k)

for m rows that are as the n calibration rows (`krepes.machines.novelty.calibration`). A single alarm is expected once
in 1 / rate rows; a batch with a small chance says that the stream has changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krepes.machines.novelty.calibration import Calibration


@dataclass(frozen=True, eq=False)
class Reading:
    """What a detector says of one batch of a stream; print it.

    Attributes
    ----------
    first_row : int
        How many rows of the stream came before.
    scores, p_values : ndarrays of shape (b,)
    alarms : ndarray of shape (b,), bool
    chance : float
        The probability of at least so many alarms in a batch of rows as those that were learned.
    n_rows, n_alarms : int
        Of the stream so far, this batch included.
    """

    first_row: int
    scores: np.ndarray
    p_values: np.ndarray
    alarms: np.ndarray
    chance: float
    n_rows: int
    n_alarms: int

    @classmethod
    def of(cls, scores: np.ndarray, held: Calibration, rate: float, before: Reading | None) -> Reading:
        """Of the scores of a batch, by the calibration rows as they are now, and the reading before."""
        alarms = scores < held.threshold(rate, -np.inf)
        first, alarmed = (0, 0) if before is None else (before.n_rows, before.n_alarms)
        n_alarms = int(alarms.sum())
        chance = held.chance(n_alarms, len(scores), rate)
        counts = first + len(scores), alarmed + n_alarms
        return cls(first, scores, held.p_values(scores), alarms, chance, *counts)

    @property
    def alarm_rate(self) -> float:
        """The share of alarms in the stream so far."""
        return self.n_alarms / max(1, self.n_rows)

    def __str__(self) -> str:
        last = self.first_row + len(self.scores) - 1
        return (
            f"rows {self.first_row:,} to {last:,}: {int(self.alarms.sum()):,} alarms, which happen by chance with "
            f"probability {self.chance:.2g}; {100 * self.alarm_rate:.1f} % alarms so far"
        )
