"""Features of samples in shuffled batches, for losses that need more than moments.

    rows -> views -> features of a window of rows -> batches, in an order drawn from (seed, epoch, window)

With replays, what is in memory, or a stretch of some batches of it, is shuffled into new batches several times before
more is computed, so that kernel values, which cost more than steps, serve more than one step  [choi].

A window is as many rows as a memory budget holds the features of. Where that is all of them in two views or more, the
features of as many views are computed once and kept, unless every epoch draws fresh ones; else each window is computed
again in every epoch, in the order of the data, and rows are shuffled within it: sort no such data by class. Views,
order and batches are functions of (seed, epoch, row) alone, so a run that was interrupted sees the same batches when it
goes on.

Memory: the budget and one read of rows, whatever n is. Cost of an epoch that is not kept: O(n (m d + m r)) per view.

Epochs that go through all pairs fit features that agree between any two views of a sample, not between those that
happened to be paired: with 4 views of MNIST, Barlow Twins came as far in 16 epochs as in 50 with two fixed pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import Block
from krepes.base.random_streams import stream_key
from krepes.base.rows import Rows, dense
from krepes.solvers.samples import Samples

FeatureFunction = Callable[[Rows], Tensor]  # rows -> (b, width)

FRESH, ORDER, HELD_OUT = range(3)  # purposes of random streams


@dataclass
class FeatureBatch:
    """What is known of b samples before they are embedded.

    Attributes
    ----------
    features : tuple of Tensors of shape (b, width)
        Features of the two views (or of one), then of the negatives.
    X : Tensor of shape (b, d), optional
        The rows themselves, flattened.
    norm_sq : Tensor of shape (b,), optional
        k(x, x) of the first view.
    """

    features: tuple[Tensor, ...]
    X: Tensor | None = None
    norm_sq: Tensor | None = None

    def __len__(self) -> int:
        return len(self.features[0])

    def mapped(self, change: Callable[[Tensor], Tensor]) -> FeatureBatch:
        """A function of every tensor."""
        X, norm_sq = (None if values is None else change(values) for values in (self.X, self.norm_sq))
        return FeatureBatch(tuple(map(change, self.features)), X, norm_sq)

    def first(self, n: int) -> FeatureBatch:
        """The first n samples."""
        return self.mapped(lambda values: values[:n])

    def like(self, n: int) -> FeatureBatch:
        """Room for n samples of the same kind."""
        return self.mapped(lambda values: values.new_empty(n, *values.shape[1:]))

    def put(self, first: int, other: FeatureBatch) -> None:
        """Write other samples here, from position `first` on."""
        mine, theirs = ((*b.features, b.X, b.norm_sq) for b in (self, other))
        for values, written in zip(mine, theirs):
            if values is not None and written is not None:
                values[first : first + len(other)] = written


@dataclass
class FeatureWindows:
    """Feature batches of samples, epoch by epoch.

    Parameters
    ----------
    samples : Samples
    functions : list of callables rows -> (b, width)
        One for all views; or one for even and one for odd views, which are then paired with one another only.
    width : int
    dtype : torch.dtype
        In which features are stored; batches come in the dtype of the samples' features.
    budget : int
        Bytes that the features of a window may take.
    fresh : bool
        Draw new views in every epoch.
    with_inputs, with_norm_sq : bool
        Whether batches hold X and k(x, x).
    held_out : int
        How many rows, drawn at random, are kept from training.
    replays : int
        How often an epoch hands out every row.
    replay_batches : int, optional
        Batches in each stretch that is repeated; by default, a whole window.

    Attributes
    ----------
    rows_read : int
        Rows whose features were handed out so far, held-out rows and replays not counted.
    """

    samples: Samples
    functions: Sequence[FeatureFunction]
    width: int
    dtype: torch.dtype = torch.float32
    budget: int = 2 * 2**30
    fresh: bool = False
    with_inputs: bool = False
    with_norm_sq: bool = False
    held_out: int = 0
    replays: int = 1
    replay_batches: int | None = None
    rows_read: int = 0
    _kept: tuple[int, FeatureBatch, Tensor] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.excluded = (
            self.samples.random_rows(self.held_out, HELD_OUT)
            if self.held_out
            else np.empty(0, dtype=np.int64)
        )

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The two views of every epoch, in turn: of those that are kept, or of all."""
        V = len(self.stored_views) if self.kept else self.samples.n_views
        return matched_pairs(V) if len(self.functions) > 1 else view_pairs(V)

    def _pair(self, epoch: int) -> tuple[int, int]:
        return self.pairs[epoch % len(self.pairs)]

    @cached_property
    def stored_views(self) -> list[int]:
        """Indices of the views that a window holds: as many as can be kept, else the two of its epoch."""
        V, step = self.samples.n_views, len(self.functions)  # matched views come in pairs
        kept = [] if self.fresh else [v for v in range(2, V + 1, step) if self.fits(v)]
        return list(range(max(kept, default=min(V, 2))))

    def fits(self, n_views: int) -> bool:
        """Whether the features of this many views of all rows can be kept."""
        return self.samples.n_rows * self._row_bytes(n_views) <= self.budget

    def _row_bytes(self, n_views: int) -> int:
        stored = n_views + self.samples.has_negatives
        return stored * self.width * torch.empty(0, dtype=self.dtype).element_size() + self._input_bytes

    @cached_property
    def _input_bytes(self) -> int:
        """Bytes of the row itself, where batches hold it."""
        if not self.with_inputs:
            return 0
        row = dense(self.samples.sample.inputs[0])[0]
        return row.numel() * row.element_size()

    @property
    def kept(self) -> bool:
        """Whether features are computed once."""
        return not self.fresh and self.fits(len(self.stored_views))

    @cached_property
    def window_rows(self) -> int:
        """A multiple of the rows of one read."""
        unit = self.samples.read_rows
        allowed = int(self.budget // self._row_bytes(max(2, len(self.stored_views))))
        return max(unit, min(allowed, self.samples.n_rows + unit - 1) // unit * unit)

    @cached_property
    def n_windows(self) -> int:
        """The number of windows. If less than one read of rows is left at the end, it joins the last window."""
        whole, rest = divmod(self.samples.n_rows, self.window_rows)
        return max(1, whole + (rest >= self.samples.read_rows))

    def batches(
        self, epoch: int, batch_size: int, start: tuple[int, int] = (0, 0)
    ) -> Iterator[tuple[tuple[int, int], FeatureBatch]]:
        """The batches of an epoch from position (window, batch) on, each with the position after it.

        Rows of a window are dealt into batches of nearly equal size, so that none is much smaller than asked for.
        """
        first_window, first_batch = start
        for window, stored, rows in self._windows(epoch, first_window):
            trained = torch.from_numpy(np.isin(rows.numpy(), self.excluded, invert=True)).nonzero()[:, 0]
            if not len(trained):
                continue
            key = stream_key(self.samples.seed, ORDER, epoch, window)
            dealt = self._dealt(len(trained), batch_size, torch.Generator().manual_seed(key % 2**63))
            skipped = first_batch if window == first_window else 0
            for index, (new, chosen) in enumerate(dealt):
                if index < skipped:
                    continue
                if new:
                    self.rows_read += len(chosen)
                yield (window, index + 1), self._picked(stored, trained[chosen], epoch)

    def _dealt(self, n: int, batch_size: int, generator: torch.Generator) -> Iterator[tuple[bool, Tensor]]:
        """Shuffled positions of n rows in batches, and whether a batch comes for the first time."""
        order = torch.randperm(n, generator=generator)
        size = n if self.replays == 1 or self.replay_batches is None else self.replay_batches * batch_size
        for stretch in _evenly(order, size):
            for replay in range(self.replays):
                if replay:
                    stretch = stretch[torch.randperm(len(stretch), generator=generator)]
                for chosen in _evenly(stretch, batch_size):
                    yield replay == 0, chosen

    def held_out_batches(self, batch_size: int) -> list[FeatureBatch]:
        """Fixed batches of the rows that are never trained on."""
        if not len(self.excluded):
            return []
        stored = self._computed(self.samples.reader.take(self.excluded), 0, [0, 1])
        return [self._picked(stored, chosen, 0) for chosen in _evenly(torch.arange(len(stored)), batch_size)]

    def sample_batch(self) -> FeatureBatch:
        """The features of the samples' uniform sample."""
        return self._picked(self._computed(self.samples.sample, 0, [0, 1]), None, 0)

    def _picked(self, stored: FeatureBatch, chosen: Tensor | None, epoch: int) -> FeatureBatch:
        """The two views of an epoch at some positions of a window (None for all of them, not copied)."""
        found = stored
        if self.kept and 2 < len(self.stored_views) == len(stored.features):
            found = replace(stored, features=tuple(stored.features[v] for v in self._pair(epoch)))
        if chosen is not None:
            found = found.mapped(lambda values: values[chosen.to(values.device)])
        dtype = self.samples.features.dtype
        return replace(found, features=tuple(Phi.to(dtype) for Phi in found.features))

    def _windows(self, epoch: int, first: int) -> Iterator[tuple[int, FeatureBatch, Tensor]]:
        """(index, features, global rows) of the windows of an epoch."""
        if self._kept is not None:
            yield self._kept
            return
        size, n, last = self.window_rows, self.samples.n_rows, self.n_windows - 1
        window: FeatureBatch | None = None
        turns = not self.fresh and not self.kept and self.samples.n_views > 2
        views = self._pair(epoch) if turns else self.stored_views  # where none are kept, others cost no more
        stop = first * size
        for batch in self.samples.read(stop):
            start, stop = stop, stop + len(batch)
            computed = self._computed(batch, epoch, views)
            index = min(start // size, last)
            begin, end = index * size, n if index == last else (index + 1) * size
            if window is None or (start == begin and len(window) != end - begin):
                window = None  # before its successor is allocated
                window = computed.like(end - begin)
            window.put(start - begin, computed)
            if stop == end:
                result = (index, window, torch.arange(begin, end))
                if self.kept:
                    self._kept = result
                yield result

    def _computed(self, batch: Block, epoch: int, which: Sequence[int]) -> FeatureBatch:
        """Features of rows, block by block."""
        samples, V = self.samples, self.samples.n_views
        seed = stream_key(samples.seed, FRESH, epoch) % 2**63 if self.fresh else samples.seed
        chosen, done = [index for index in which if index < V], 0
        result: FeatureBatch | None = None
        for block in batch.blocks(samples.block_rows):
            views = samples.drawn(block, seed, chosen)
            indices = chosen if len(block.inputs) == 1 and V > 1 else range(len(views))
            functions = [self.functions[v % len(self.functions)] for v in indices]
            features = tuple(function(view).to(self.dtype) for function, view in zip(functions, views))
            norm_sq = samples.features.kernel.diag(views[0]) if self.with_norm_sq else None
            X = dense(block.inputs[0]).reshape(len(block), -1) if self.with_inputs else None
            piece = FeatureBatch(features, X, norm_sq)
            if result is None:
                result = piece if len(piece) == len(batch) else piece.like(len(batch))
            if result is not piece:
                result.put(done, piece)
            done += len(block)
        assert result is not None
        return result


def _evenly(rows: Tensor, size: int) -> Sequence[Tensor]:
    """Parts of nearly equal length, of about this size."""
    return rows.tensor_split(max(1, round(len(rows) / size)))


def view_pairs(n_views: int) -> list[tuple[int, int]]:
    """All pairs of views, ordered like a tournament: every round pairs all views (but one, if they are odd in number).

    >>> view_pairs(4)
    [(3, 0), (1, 2), (3, 1), (2, 0), (3, 2), (0, 1)]
    """
    odd = n_views - 1 + n_views % 2  # views in the circle; one more stands outside if their number is even
    rounds = []
    for r in range(odd):
        outside = [] if n_views % 2 else [(n_views - 1, r)]
        rounds += outside + [((r + k) % odd, (r - k) % odd) for k in range(1, (odd + 1) // 2)]
    return rounds


def matched_pairs(n_views: int) -> list[tuple[int, int]]:
    """All pairs of an even and an odd view, each view once before any comes again (of an even number of them).

    >>> matched_pairs(4)
    [(0, 1), (2, 3), (0, 3), (2, 1)]
    """
    evens, odds = range(0, n_views, 2), range(1, n_views, 2)
    return [(v, odds[(i + shift) % len(odds)]) for shift in range(len(odds)) for i, v in enumerate(evens)]
