"""The rows of a fit, for losses that need more than moments: what a solver may ask of them.

Rows come in the order of the data or by index, views of them as functions of (seed, row), so that every pass and every
resumed run sees the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.engines.checkpoint import Checkpoint
from krepes.linalg import row_blocks
from krepes.nystrom import NystromMap
from krepes.progress import Progress, Silent
from krepes.views import Views
from krepes.views.streams import stream_key

Inputs = tuple[Any, ...]  # rows in the model's input space: X, or X, positives[, negatives]

SAMPLE_ROWS = 4096  # rows that scales are estimated from
SAMPLE = 3  # purpose of a random stream; 0 to 2 are those of feature windows


@dataclass
class Samples:
    """The rows of a fit, for a solver that goes through them many times.

    Attributes
    ----------
    features : NystromMap
    views : Views
    n_rows : int
    seed : int
    read : callable(start) -> iterator of (first row, inputs)
        From row `start`, a multiple of `read_rows`; every batch but the last has `read_rows` rows.
    take : callable(indices) -> inputs
    read_rows, block_rows : int
        Rows per batch read, and per block computed.
    has_negatives : bool
        Whether inputs are triplets.
    landmark_views : int
        Views of every landmark among the centres of `features`, ordered by view.
    noise_variance : float
        Of noise to be added to the features of every view.
    checkpoint : Checkpoint, optional
    progress : Progress
    """

    features: NystromMap
    views: Views
    n_rows: int
    seed: int
    read: Callable[[int], Iterator[tuple[int, Inputs]]]
    take: Callable[[np.ndarray], Inputs]
    read_rows: int
    block_rows: int
    has_negatives: bool = False
    landmark_views: int = 1
    noise_variance: float = 0.0
    checkpoint: Checkpoint | None = None
    progress: Progress = field(default_factory=Silent)

    @property
    def n_views(self) -> int:
        return self.views.n_views

    def drawn(self, inputs: Inputs, rows: Tensor, seed: int, which: Sequence[int]) -> list[Any]:
        """Some of the views of a block of rows; pairs (and triplets) come as they are."""
        if len(inputs) > 1:
            return [part for part in inputs if part is not None]
        if self.n_views == 1:
            return [inputs[0]]
        return [self.views.view(inputs[0], rows, seed, index) for index in which]

    def random_rows(self, size: int, *key: int) -> np.ndarray:
        """Distinct row indices, sorted; all rows if there are no more."""
        if size >= self.n_rows:
            return np.arange(self.n_rows)
        generator = np.random.default_rng(stream_key(self.seed, *key))
        return np.sort(generator.choice(self.n_rows, size, replace=False))

    @cached_property
    def sample(self) -> tuple[Inputs, Tensor]:
        """A uniform sample of rows (all of them where they are few), and their indices."""
        rows = self.random_rows(SAMPLE_ROWS, SAMPLE)
        return self.take(rows), torch.from_numpy(rows)

    @cached_property
    def mean_eigenvalue(self) -> float:
        """tr(S) / r over the sample: what the strength of the regulariser is relative to."""
        inputs, rows = self.sample
        views = [
            self.features(view)
            for block in row_blocks(len(rows), self.block_rows)
            for view in self.drawn(part(inputs, block), rows[block], self.seed, range(min(2, self.n_views)))[
                :2
            ]
        ]
        total = sum(Phi.double().square().sum().item() for Phi in views)
        return total / sum(map(len, views)) / self.features.rank


def part(inputs: Inputs, block: slice) -> Inputs:
    return tuple(None if x is None else x[block] for x in inputs)
