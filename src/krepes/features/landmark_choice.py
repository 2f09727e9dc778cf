"""Which rows become landmarks: a rule, row indices or points of the user's, and how many views each has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.components import resolve
from krepes.base.dtype_and_device import Placement
from krepes.base.rows import Rows, concat_rows, count_rows, take_rows
from krepes.base.sparse_rows import SparseRows, as_sparse
from krepes.kernels import Kernel
from krepes.landmarks import LandmarkSelector
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates
from krepes.sources import Source
from krepes.views import Views
from krepes.views.views import MOST_VIEWS

FEW_CANDIDATES = 10_000  # where no rule says how many: enough to learn scales from

Chosen = tuple[Rows, np.ndarray | None]  # landmarks in the input space, and their global row indices


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
    ) -> Chosen:
        """Landmarks by the rule: of the preferred rows first, of the others as far as these do not suffice."""
        assert self.selector is not None
        if preferred is None:
            return self._selected(candidates, self.n_landmarks, kernel, generator)
        if len(preferred.indices) >= self.n_landmarks:
            return self._selected(preferred, self.n_landmarks, kernel, generator)
        others = np.flatnonzero(~np.isin(candidates.indices, preferred.indices))
        missing = self.n_landmarks - len(preferred.indices)
        if not len(others):
            return preferred.rows, preferred.indices
        rest = Candidates(take_rows(candidates.rows, others), candidates.indices[others])
        rows, indices = self._selected(rest, missing, kernel, generator)
        return concat_rows([preferred.rows, rows]), np.concatenate([preferred.indices, indices])

    def _selected(
        self, candidates: Candidates, n: int, kernel: Kernel, generator: torch.Generator
    ) -> tuple[Rows, np.ndarray]:
        assert self.selector is not None
        chosen = torch.as_tensor(self.selector.select(candidates.rows, kernel, n, generator)).cpu().numpy()
        return take_rows(candidates.rows, chosen), candidates.indices[chosen]

    def points(self, source: Source, inputs: InputSpace, placement: Placement) -> Chosen:
        """Landmarks that the user gave: rows by index, or points."""
        landmarks = as_sparse(self.given)
        array = landmarks if isinstance(landmarks, Tensor) else _as_array(landmarks)
        if array is not None and array.ndim == 1 and not _is_float(array) and inputs.kind != "objects":
            indices = np.asarray(array, dtype=np.int64)
            if len(indices) == 0 or indices.min() < 0 or indices.max() >= source.n_rows:
                raise ValueError(
                    f"landmarks= are row indices; they must lie between 0 and {source.n_rows - 1} and not be empty."
                )
            return inputs.tensor(source.take(indices), placement.dtype, placement.device), indices
        points = inputs.tensor(landmarks if array is None else array, placement.dtype, placement.device)
        if len(points) == 0:
            raise ValueError(
                "landmarks= is empty: give at least one point or row index, or the name of a rule."
            )
        return points, None


def with_views(chosen: Chosen, views: Views, p: int, seed: int, pairs: Sequence[Rows]) -> Chosen:
    """Landmark tuples: p views of every landmark as centres, ordered by view.         [krepes, section 3]

    They are the views that training sees of these rows; for pairs, the row, its positive and its negative.
    """
    landmarks, indices = chosen
    if pairs:
        parts = [landmarks, *pairs]
        if p > len(parts):
            raise ValueError(f"views_per_landmark={p}, but pairs give {len(parts)} views of every row.")
        parts = parts[:p]
    elif views.n_views < 2 or not (isinstance(landmarks, Tensor | SparseRows) or views.takes_lists):
        raise ValueError(
            f"views_per_landmark={p} needs views of the landmarks, and this loss or data has none: use 1."
        )
    else:
        rows = torch.arange(count_rows(landmarks)) if indices is None else torch.from_numpy(indices)
        given: Any = landmarks
        parts = [views.view(given, rows, seed, index) for index in range(p)]
    return concat_rows(parts), None if indices is None else np.tile(indices, p)


def _as_array(value: object) -> np.ndarray | None:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of several lengths, sparse rows
        return None
    return array if array.dtype.kind in "biuf" else None


def _is_float(array: np.ndarray | Tensor) -> bool:
    return array.is_floating_point() if isinstance(array, Tensor) else array.dtype.kind == "f"
