"""Condition monitoring: a stream of rows in batches, each scored before anything is learned from it.

    chance = P(at least so many alarms among the rows of a batch),      alarms ~ Beta-binomial(m, k, n + 1 - k)

for m rows that are as the n calibration rows (`krepes.machines.novelty.calibration`). A single alarm is expected once
in 1 / rate rows; a batch with a small chance says that the stream has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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


def readings(
    batches: Iterable[Any], scored: Callable[[Any], tuple[np.ndarray, Calibration]], rate: float
) -> Iterator[tuple[Any, Reading]]:
    """Every batch with its reading; `scored` is asked again each time, because rows may be learned in between."""
    n_rows = n_alarms = 0
    for batch in batches:
        scores, held = scored(batch)
        alarms = scores < held.threshold(rate, -np.inf)
        first, n_rows, n_alarms = n_rows, n_rows + len(scores), n_alarms + int(alarms.sum())
        chance = held.chance(int(alarms.sum()), len(scores), rate)
        yield batch, Reading(first, scores, held.p_values(scores), alarms, chance, n_rows, n_alarms)
