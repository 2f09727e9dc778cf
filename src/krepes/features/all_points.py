"""Every point a landmark: the exact model, for small data.

    landmarks = x_1 .. x_n, x_1^+ .. x_n^+, x_1^- .. x_n^-       given pairs or triplets
              = every drawn view of every row                    where views are drawn
              = the rows                                         for losses of one view

A regularised loss of these points has its minimum in the span of their phi(x)  [esser, Thm. 1], and so has the simple
contrastive loss under W^T W = I where enough eigenvalues are positive  [esser, Thm. 2, 3]. With m points as landmarks
Nyström features span all of it, so nothing is approximated; points that add nothing to the span are cut by rank.

Cost O(m^3), memory O(m^2).
"""

from __future__ import annotations

import numpy as np

from krepes.base.files import readable_bytes
from krepes.base.memory import available_memory
from krepes.base.rows import Rows
from krepes.features.fit_data import FitData, RowReader
from krepes.features.landmark_choice import with_views
from krepes.views import Views

MOST_POINTS = 20_000  # more take hours, and 26 GB of memory
MATRICES = 8  # of m x m float64 that exist at once: K and its vectors, F, three moments and the solver's
SECONDS = 5.5e-10  # times m^3, on one core: two minutes for 6000 points


def points_of(data: FitData, views: Views) -> int:
    """How many points every row stands for: itself and its pair, or its views."""
    return len(data.sources) if data.paired else views.n_views


def check_all_points(data: FitData, views: Views) -> None:
    """Refuse more points than time and memory allow, and say what would work."""
    n = data.n_rows if data.counting_rows is None else len(data.counting_rows)
    p = points_of(data, views)
    m, free = n * p, available_memory()
    needed = 8 * MATRICES * m**2
    if m <= MOST_POINTS and needed <= free:
        return
    each = f"{n:,} rows" if p == 1 else f"{n:,} rows, {p} points for each"
    hours = SECONDS * m**3 / 3600
    most = min(MOST_POINTS, int((free / (8 * MATRICES)) ** 0.5)) // p
    raise ValueError(
        f"n_landmarks=None makes all {m:,} points landmarks ({each}). One matrix of their kernel values takes "
        f"{readable_bytes(8 * m**2)}, the fit about {readable_bytes(needed)} of memory ({readable_bytes(free)} are "
        f"free) and {hours:.2g} hours of one core. Up to {most:,} such rows are possible here. For more, give a number "
        "of landmarks, such as n_landmarks=1000: the kernel is then approximated by as many well-chosen rows."
    )


def all_points(
    data: FitData, reader: RowReader, views: Views, seed: int
) -> tuple[Rows, np.ndarray | None, int]:
    """The points in the input space, ordered by view; the rows that they belong to; and how many each row has."""
    rows = np.arange(data.n_rows) if data.counting_rows is None else data.counting_rows
    X, *pairs = reader.take(rows).inputs
    p = points_of(data, views)
    return *(with_views((X, rows), views, p, seed, pairs) if p > 1 else (X, rows)), p
