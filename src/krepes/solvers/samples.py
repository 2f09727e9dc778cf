"""The rows of a fit, for losses that need more than moments: what a solver may ask of them.

Rows come in the order of the data or by index, views of them as functions of (seed, row), so that every pass and every
resumed run sees the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import Block, IndexedReader
from krepes.base.random_streams import stream_key
from krepes.base.reporting import Progress, Silent
from krepes.base.rows import Rows
from krepes.base.storage.checkpoint import Checkpoint
from krepes.landmarks.nystrom import NystromMap
from krepes.views import Views

SAMPLE_ROWS = 4096  # rows that scales are estimated from
SAMPLE = 3  # purpose of a random stream; 0 to 2 belong to feature windows


@dataclass
class Samples:
    """The rows of a fit, for a solver that goes through them many times.

    Attributes
    ----------
    features : NystromMap
    views : Views
    seed : int
        The seed of the views' random streams.
    reader : IndexedReader
        Blocks with two or three inputs are pairs or triplets.
    block_rows, read_rows : int
        Rows per block computed, and per batch read.
    landmark_views : int
        Views of every landmark among the centres of `features`, ordered by view.
    noise_variance : float
        Variance of the noise that is added to the features of every view.
    checkpoint : Checkpoint, optional
    progress : Progress
    """

    features: NystromMap
    views: Views
    seed: int
    reader: IndexedReader
    block_rows: int
    read_rows: int
    landmark_views: int = 1
    noise_variance: float = 0.0
    checkpoint: Checkpoint | None = None
    progress: Progress = field(default_factory=Silent)

    @property
    def n_rows(self) -> int:
        return self.reader.n_rows

    @property
    def n_views(self) -> int:
        return self.views.n_views

    @property
    def has_negatives(self) -> bool:
        """Whether inputs are triplets."""
        return len(self.sample.inputs) > 2

    def read(self, start: int) -> Iterator[Block]:
        """Batches of `read_rows` rows from row `start`, a multiple of that number."""
        return self.reader.read(self.read_rows, start)

    def drawn(self, block: Block, seed: int, which: Sequence[int]) -> list[Rows]:
        """Some of the views of a block of rows; pairs (and triplets) come as they are."""
        if len(block.inputs) > 1:
            return list(block.inputs)
        if self.n_views == 1:
            return [block.inputs[0]]
        X: Any = block.inputs[0]  # views of a user's own may be of objects
        return [self.views.drawn(X, block.rows, seed, index) for index in which]

    def random_rows(self, size: int, *key: int) -> np.ndarray:
        """Distinct row indices, sorted; all rows if there are no more."""
        if size >= self.n_rows:
            return np.arange(self.n_rows)
        generator = np.random.default_rng(stream_key(self.seed, *key))
        return np.sort(generator.choice(self.n_rows, size, replace=False))

    @cached_property
    def sample(self) -> Block:
        """A uniform sample of rows; all of them where they are few."""
        return self.reader.take(self.random_rows(SAMPLE_ROWS, SAMPLE))

    @cached_property
    def sample_features(self) -> tuple[Tensor, float]:
        """Features (s, r) of up to two views of every row of the sample, float64, and the sum of their k(x, x)."""
        which = range(min(2, self.n_views))
        views = [
            view
            for block in self.sample.blocks(self.block_rows)
            for view in self.drawn(block, self.seed, which)[:2]
        ]
        trace = sum(self.features.kernel.diag(view).double().sum().item() for view in views)
        return torch.cat([self.features(view).double() for view in views]), trace
