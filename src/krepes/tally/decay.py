"""Rows that count less, the older they are.

    weight of the row k = 2^(-(t - 1 - k) / half_life),        t = 1 + the largest index so far

The age of a row is counted in rows, by its global index, so that the sums do not depend on how a stream was cut into
calls: sums at the clock t become those at the later clock t' when they are multiplied by 2^(-(t' - t) / half_life).
"""

from __future__ import annotations

import numpy as np

from krepes.base.limits import is_number


def check_half_life(half_life: float | None) -> None:
    """Refuse what is not a positive number of rows."""
    if half_life is not None and not is_number(half_life, above=0):
        raise ValueError(f"half_life={half_life!r}: expected a number of rows > 0.")


def decay(rows: float, half_life: float) -> float:
    """By how much sums shrink while so many rows pass.

    >>> decay(2000, half_life=1000)
    0.25
    """
    return float(np.exp2(-rows / half_life))


def row_weights(first_row: int, n: int, clock: int, half_life: float) -> np.ndarray:
    """The weights at a clock of the n rows from `first_row` on, (n,).

    >>> row_weights(0, 3, clock=3, half_life=1).tolist()
    [0.25, 0.5, 1.0]
    """
    age = clock - 1 - np.arange(first_row, first_row + n, dtype=np.int64)
    return np.exp2(-age / half_life)
