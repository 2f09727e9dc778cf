"""What a model chooses before its feature space: landmarks and views.

Landmarks come by a rule, as row indices or points of the user's, or they are all points:

    all points = x_1 .. x_n, x_1^+ .. x_n^+, x_1^- .. x_n^-       given pairs or triplets
               = every drawn view of every row                    where views are drawn
               = the rows                                         for losses of one view

A regularised loss of these points has its minimum in the span of their phi(x)  [esser, Thm. 1], and so has the simple
contrastive loss under W^T W = I if enough eigenvalues are positive  [esser, Thm. 2, 3]. With m points as landmarks
Nyström features span all of it, so nothing is approximated; points that add nothing to the span are cut by rank. Cost
O(m^3), memory O(m^2). Views are what the user named, or what suits the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import available_memory
from krepes.base.components import resolve
from krepes.base.reporting import warn
from krepes.base.rows import Rows, SparseRows, as_sparse, concat_rows, count_rows, take_rows
from krepes.base.storage.files import readable_bytes
from krepes.features.fit_data import FitData, RowReader
from krepes.kernels import Kernel
from krepes.landmarks import LandmarkSelector
from krepes.preprocessing.preparing import Candidates
from krepes.sources import Source
from krepes.views.chain import as_views
from krepes.views.image import Image
from krepes.views.series import TimeSeries
from krepes.views.sparse import Sparse
from krepes.views.tabular import Tabular
from krepes.views.views import MOST_VIEWS, NoViews, Paired, Views

AUTO_LANDMARKS = 2000
FEW_CANDIDATES = 10_000  # if no rule says how many: enough to learn scales from
MOST_POINTS = 20_000  # more take hours, and 26 GB of memory
MATRICES = 8  # of m x m float64 that exist at once: K and its vectors, F, three moments and the solver's
SECONDS = 5.5e-10  # times m^3, on one core: two minutes for 6000 points


class LandmarkRows(NamedTuple):
    """Landmarks in the input space, the rows of the data that they are, and the views of each."""

    points: Rows
    rows: np.ndarray | None
    n_views: int = 1


class LandmarkChoice:
    """An estimator's `landmarks` and `n_landmarks`, resolved once.

    Parameters
    ----------
    landmarks : name or LandmarkSelector; row indices; or points
        Points and indices are taken as they are, and `n_landmarks` is ignored.
    n_landmarks : int or None
        None: no rule is needed, every point that the model is fitted on is a landmark.
    """

    def __init__(self, landmarks: Any, n_landmarks: int | None):
        by_rule = isinstance(landmarks, str | LandmarkSelector | type)
        self.selector: LandmarkSelector | None = resolve(LandmarkSelector, landmarks) if by_rule else None
        self.given, self.n_landmarks = landmarks, n_landmarks or 0
        self.everything = by_rule and n_landmarks is None

    @property
    def n_candidates(self) -> int:
        """How many candidate rows to sample."""
        if self.selector is None or self.everything:
            return FEW_CANDIDATES
        return self.selector.n_candidates(self.n_landmarks)

    @property
    def views_per_landmark(self) -> int:
        """p of the rule; points that the user gives are taken as they are."""
        if self.selector is None:
            return 1
        p = self.selector.views_per_landmark
        if not isinstance(p, int | np.integer) or isinstance(p, bool) or not 1 <= p <= MOST_VIEWS:
            raise ValueError(f"views_per_landmark={p!r}: expected an integer from 1 to {MOST_VIEWS}.")
        return int(p)

    def choose(
        self, candidates: Candidates, preferred: Candidates | None, kernel: Kernel, generator: torch.Generator
    ) -> LandmarkRows:
        """Landmarks by the rule: among the preferred rows first, then among the others."""
        assert self.selector is not None
        if preferred is None:
            return self._selected(candidates, self.n_landmarks, kernel, generator)
        if len(preferred.indices) >= self.n_landmarks:
            return self._selected(preferred, self.n_landmarks, kernel, generator)
        others = np.flatnonzero(~np.isin(candidates.indices, preferred.indices))
        missing = self.n_landmarks - len(preferred.indices)
        if not len(others):
            return LandmarkRows(preferred.rows, preferred.indices)
        rest = Candidates(take_rows(candidates.rows, others), candidates.indices[others])
        others_chosen = self._selected(rest, missing, kernel, generator)
        points = concat_rows([preferred.rows, others_chosen.points])
        return LandmarkRows(points, np.concatenate([preferred.indices, others_chosen.rows]))

    def _selected(
        self, candidates: Candidates, n: int, kernel: Kernel, generator: torch.Generator
    ) -> LandmarkRows:
        assert self.selector is not None
        chosen = torch.as_tensor(self.selector.select(candidates.rows, kernel, n, generator)).cpu().numpy()
        return LandmarkRows(take_rows(candidates.rows, chosen), candidates.indices[chosen])

    def points(self, reader: RowReader) -> LandmarkRows:
        """Landmarks that the user gave: rows by index, or points."""
        inputs, placement = reader.inputs, reader.placement
        landmarks = as_sparse(self.given)
        array = landmarks if isinstance(landmarks, Tensor) else _as_array(landmarks)
        if array is not None and array.ndim == 1 and not _is_float(array) and inputs.kind != "objects":
            indices = np.asarray(array, dtype=np.int64)
            if len(indices) == 0 or indices.min() < 0 or indices.max() >= reader.n_rows:
                raise ValueError(
                    f"landmarks= are row indices; they must lie between 0 and {reader.n_rows - 1} and not be empty."
                )
            return LandmarkRows(reader.take(indices).inputs[0], indices)
        points = inputs.tensor(landmarks if array is None else array, placement.dtype, placement.device)
        if len(points) == 0:
            raise ValueError(
                "landmarks= is empty: give at least one point or row index, or the name of a rule."
            )
        return LandmarkRows(points, None)


def with_views(chosen: LandmarkRows, views: Views, p: int, seed: int, pairs: Sequence[Rows]) -> LandmarkRows:
    """Landmark tuples: p views of every landmark as centres, ordered by view.         [krepes, section 3]

    They are the views that training sees of these rows; for pairs, the row, its positive and its negative.
    """
    points, rows, _ = chosen
    if pairs:
        parts = [points, *pairs]
        if p > len(parts):
            raise ValueError(f"views_per_landmark={p}, but pairs give {len(parts)} views of every row.")
        parts = parts[:p]
    elif views.n_views < 2 or not (isinstance(points, Tensor | SparseRows) or views.takes_lists):
        raise ValueError(
            f"views_per_landmark={p} needs views of the landmarks, and this loss or data has none: use 1."
        )
    else:
        numbers = torch.arange(count_rows(points)) if rows is None else torch.from_numpy(rows)
        given: Any = points
        parts = [views.drawn(given, numbers, seed, index) for index in range(p)]
    return LandmarkRows(concat_rows(parts), None if rows is None else np.tile(rows, p), p)


def points_of(data: FitData, views: Views) -> int:
    """Points of every row: itself and its pair, or its views."""
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


def all_points(reader: RowReader, views: Views, seed: int) -> LandmarkRows:
    """Every point that a model is fitted on, ordered by view."""
    counting = reader.data.counting_rows
    rows = np.arange(reader.n_rows) if counting is None else counting
    X, *pairs = reader.take(rows).inputs
    p = points_of(reader.data, views)
    return with_views(LandmarkRows(X, rows), views, p, seed, pairs) if p > 1 else LandmarkRows(X, rows)


def _as_array(value: object) -> np.ndarray | None:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of several lengths, sparse rows
        return None
    return array if array.dtype.kind in "biuf" else None


def _is_float(array: np.ndarray | Tensor) -> bool:
    return array.is_floating_point() if isinstance(array, Tensor) else array.dtype.kind == "f"


def landmark_count(asked: int | str | None, n: int) -> int:
    """How many landmarks `n_landmarks` means for n rows: "auto", None for all of them, or a number.

    >>> landmark_count("auto", 50_000), landmark_count("auto", 300), landmark_count(None, 5000), landmark_count(20, 300)
    (2000, 300, 5000, 20)
    """
    if asked is None:
        return n
    return min(n, AUTO_LANDMARKS) if asked == "auto" else int(asked)


POINTS, FEW_POINTS = 40_000, 4_000  # views of all rows together, at most, where a row has more than two

TOKENS_REPLACED = 0.15  # the share of tokens that masked language models change [devlin]


def choose_views(
    views: object,
    source: Source,
    views_needed: int,
    paired: bool,
    few: bool = False,
    series: bool = False,
    tokens: bool = False,
) -> Views:
    """The views object for a source: `views="auto"` picks by its kind and size, pairs need none.

    `few`: because every view becomes a landmark. `series`: the rows are read as time series. `tokens`: the
    kernel reads whole numbers as names of tokens, so views replace some of them and add no noise.
    """
    if source.kind == "precomputed" and (paired or views_needed > 1):
        raise ValueError(
            "A kernel matrix has no views of its rows: use loss='kernel_pca', or a kernel of rows in the place of "
            "kernel='precomputed'."
        )
    if paired:
        if views_needed < 2:
            raise ValueError(
                "There are two views of every row (positives=, or the pairs of a loader), but this model looks at one: "
                "leave positives= out, or read one entry with krepes.sources.open_source(data, key=0), or key='0[0]' "
                "if views are nested in the first."
            )
        if not (views is None or isinstance(views, str | Paired)):
            warn(f"views={views!r:.60} is not used: the data give two views of every row.")
        return Paired()
    if isinstance(views, str) and views == "auto":
        if views_needed < 2:
            return NoViews()
        if source.kind == "objects" and not series:
            raise ValueError(
                "There is no augmentation for arbitrary objects: give positives= (a second view of every "
                "sample), or use loss='kernel_pca'. Time series of different lengths: preprocess='series'."
            )
        n_views = views_of(source.n_rows, FEW_POINTS if few else POINTS)
        if series:
            return TimeSeries(n_views=n_views)
        if tokens and source.kind == "vectors" and holds_integers(source):
            return Tabular(noise=0.0, replace=TOKENS_REPLACED, n_views=n_views)
        if source.kind == "images":
            return Image(strength="auto", flip="auto", n_views=n_views)
        return Sparse(n_views=n_views) if source.kind == "sparse" else Tabular(n_views=n_views)
    if views is None or (isinstance(views, str) and views == "none"):
        if views_needed > 1:
            raise ValueError("This loss compares two views of a sample: give views= or positives=.")
        return NoViews()
    chosen = as_views(views)
    if source.kind == "sparse" and isinstance(chosen, Tabular | Image):
        raise ValueError(
            f"{type(chosen).__name__} views change dense rows, and these are sparse: use views='sparse', which drops "
            "and replaces entries."
        )
    return chosen


def holds_integers(source: Source) -> bool:
    """Whether the rows of a source are integers."""
    dtype = getattr(next(source.batches(1))[1], "dtype", None)
    return str(dtype).removeprefix("torch.").startswith(("int", "uint"))


def views_of(n_rows: int, points: int = POINTS) -> int:
    """How many views a row has: more where rows are few, which estimates S_+ better, at little cost."""
    return min(8, max(2, points // n_rows))
