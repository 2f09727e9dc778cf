"""What a fit takes, roughly, so that one that cannot end or does not fit into memory is named before it begins.

    kernel values    n V m + N m          rows n, views V of each, landmarks m, candidates N
    features         2 n V m (m + m)      operations: projection and moments, if all m features are kept
    decomposition    10 m^3
    memory           3 N d + 2 m d + N m numbers, and 5 m^2 of double precision

The time of a kernel value is measured on a few candidates. Estimates are good to a factor of three or so.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from krepes.base.caller_warning import warn
from krepes.base.memory import available_memory
from krepes.base.rows import Rows, slice_rows
from krepes.kernels import Kernel
from krepes.preprocessing.column_values import family
from krepes.sources import Source, TableSource

CANDIDATE_NUMBERS = 2**28  # that candidates have together, at most: 1 GB in single precision
TEXT_WIDTH = 30  # numbers that a cell of text, or a date, may become, for this estimate
LONG_SECONDS = 3600.0  # from which on a fit is named as long
MANY_VALUES = 10**7  # kernel values below which no fit is long, so that none is measured
PROBE_SECONDS, PROBE_ROWS = 0.02, 512
OPERATIONS = 2e10  # of matrix products, per second and thread


def allowed_candidates(source: Source, wanted: int, n_landmarks: int) -> int:
    """How many of the wanted candidates to draw: fewer where rows are so wide that they would fill the memory.

    >>> from krepes.sources import open_source
    >>> allowed_candidates(open_source(np.zeros((3, 100_000), dtype=np.int8)), 20_000, 1000)
    2684
    """
    if isinstance(source, TableSource):  # rows are held as they are read, as numbers, and encoded
        width = 4 * sum(1 if family(field.type) == "number" else TEXT_WIDTH for field in source.schema)
    elif source.kind in ("vectors", "images"):
        width = int(np.prod(np.shape(next(source.batches(1))[1])[1:]))
    else:
        return wanted
    return max(n_landmarks, min(wanted, CANDIDATE_NUMBERS // max(1, width)))


def warn_of_cost(candidates: Rows, kernel: Kernel, n_rows: int, n_views: int, n_landmarks: int) -> None:
    """Warn if a fit will take more than an hour, or more memory than there is."""
    N, m = len(candidates), min(n_landmarks, n_rows)
    values = n_rows * n_views * m + N * m
    numbers = candidates.numel() if isinstance(candidates, torch.Tensor) else 0
    memory = 4 * (3 * numbers + 2 * numbers // N * m + N * m) + 40 * m**2
    seconds = 0.0
    if values > MANY_VALUES:
        features = 4 * n_rows * n_views * m**2 + 10 * m**3
        seconds = values * value_seconds(kernel, candidates) + features / OPERATIONS / torch.get_num_threads()
    free = available_memory()
    what = f"{n_rows:,} rows, {n_views} views of each and {m:,} landmarks"
    if memory > free:
        warn(
            f"This fit needs about {memory / 1e9:.0f} GB of memory for {what}; {free / 1e9:.0f} GB are free. Take "
            "fewer landmarks, or reduce the columns first, for example with sklearn.random_projection."
        )
    if seconds > LONG_SECONDS:
        warn(
            f"This fit will take about {seconds / 3600:.0f} hours: {values:,} kernel values for {what}. Fewer "
            "landmarks (n_landmarks), fewer views or a cheaper kernel make it shorter in proportion; checkpoint= keeps "
            "its state."
        )


def value_seconds(kernel: Kernel, rows: Rows) -> float:
    """The time of one kernel value, from a block that grows until it can be measured."""
    first = slice_rows(rows, 0, 2)
    kernel(first, first)  # because the first call may compile something
    size = 8
    while True:
        part = slice_rows(rows, 0, size)
        elapsed = min(_elapsed(kernel, part) for _ in range(3))  # because other programs may hold one up
        if elapsed > PROBE_SECONDS or size >= min(PROBE_ROWS, len(part) * 2):
            return elapsed / len(part) ** 2
        size *= 2


def _elapsed(kernel: Kernel, part: Rows) -> float:
    start = time.perf_counter()
    kernel(part, part)
    return time.perf_counter() - start
