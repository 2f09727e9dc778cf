"""Rows for a network: an array or tensor in memory, or the batches of a loader, in the dtype that they have.

A loader is read from its first batch to its last; some of its rows, in ascending order, are found on the way. It must
give the same rows in every pass (`krepes.sources.Batches`). Memory is one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.validation import as_array, as_numbers, check_dense, writable
from krepes.sources import Batches
from krepes.sources.loaders import is_loader


class NetworkRows:
    """Rows (n, ...) that go through a network.

    >>> rows = NetworkRows(Batches([np.zeros((3, 2)), np.ones((2, 2))]))
    >>> rows.n_rows, [(block, X.tolist()) for block, X in rows.chosen(np.array([1, 4]), 8)]
    (5, [(slice(0, 1, None), [[0.0, 0.0]]), (slice(1, 2, None), [[1.0, 1.0]])])
    """

    def __init__(self, X: Any):
        loaded = is_loader(X)
        self.given: Batches | Tensor = Batches(X) if loaded else X if isinstance(X, Batches) else as_tensor(X)
        self._n_rows: int | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows; of a loader that does not know it, they are counted once."""
        if self._n_rows is None:
            known = len(self.given) if isinstance(self.given, Tensor) else self.given.known_rows()
            self._n_rows = sum(map(len, self.batches(1))) if known is None else known
        return self._n_rows

    @property
    def in_memory(self) -> bool:
        return isinstance(self.given, Tensor)

    @property
    def first(self) -> Tensor:
        """The first rows: one, or a batch of a loader."""
        return next(self.batches(1))

    def batches(self, batch_rows: int) -> Iterator[Tensor]:
        """Block after block; the batches of a loader as they come, in the layout that it gives them."""
        if isinstance(self.given, Tensor):
            for block in row_blocks(len(self.given), batch_rows):
                yield self.given[block]
        else:
            yield from map(as_tensor, self.given)

    def chosen(self, rows: np.ndarray, batch_rows: int) -> Iterator[tuple[slice, Tensor]]:
        """(positions in `rows`, these rows) for block after block; the rows of a loader must ascend."""
        if isinstance(self.given, Tensor):
            for block in row_blocks(len(rows), batch_rows):
                yield block, self.given[torch.as_tensor(rows[block])]
            return
        start = 0
        for batch in self.batches(batch_rows):
            low, high = np.searchsorted(rows, (start, start + len(batch)))
            wanted = batch[torch.as_tensor(rows[low:high] - start)]
            for block in row_blocks(len(wanted), batch_rows):
                yield slice(int(low) + block.start, int(low) + block.stop), wanted[block]
            start += len(batch)
            if high == len(rows):
                return
        raise ValueError(
            f"The loader gave {start:,} rows, and row {int(rows[-1]):,} was expected. It must give the same rows in "
            "every pass."
        )


def as_tensor(X: Any) -> Tensor:
    """Rows for a network, (n, ...): a tensor as it is, anything else in the dtype that it has."""
    if not isinstance(X, Tensor):
        X = as_array(X)
        X = X if X.dtype.kind in "iub" else as_numbers(X, finite=False)
        X = torch.as_tensor(writable(X.astype(X.dtype.newbyteorder("="), copy=False)))
    check_dense(X)
    if X.ndim == 0 or 0 in X.shape or X.is_complex():
        raise ValueError(
            f"X has shape {tuple(X.shape)} and holds {X.dtype}; expected rows of numbers for the network, (n, ...)."
        )
    return X
