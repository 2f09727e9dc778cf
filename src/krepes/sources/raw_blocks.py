"""A source as a reader of raw blocks: for scans that come before there is an input space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from krepes.base.blocks import Block, Reader, part_edges
from krepes.base.model_file import digest
from krepes.base.rows import count_rows, slice_rows
from krepes.sources.source import Source


@dataclass(frozen=True)
class RawReader(Reader):
    """The rows start .. stop of a source, as the source gives them.

    >>> from krepes.sources import open_source
    >>> blocks = list(RawReader(open_source([[1.0], [2.0], [3.0]])).read(2))
    >>> [(block.rows.tolist(), block.inputs[0].tolist()) for block in blocks]
    [([0, 1], [[1.0], [2.0]]), ([2], [[3.0]])]
    """

    source: Source
    start: int = 0
    stop: int | None = None

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self._stop - self.start

    @property
    def _stop(self) -> int:
        return self.source.n_rows if self.stop is None else self.stop

    def read(self, batch_rows: int, start: int = 0) -> Iterator[Block]:
        for first, batch in self.source.batches(batch_rows, self.start + start):
            if first >= self._stop:
                return
            rows = slice_rows(batch, 0, self._stop - first)
            yield Block(torch.arange(first, first + count_rows(rows)), (rows,))

    def parts(self, n: int) -> list[RawReader]:
        edges = part_edges(self.n_rows, n)
        return [RawReader(self.source, self.start + a, self.start + b) for a, b in pairwise(edges)]

    def identity(self) -> dict[str, str]:
        data = [self.start, self._stop, self.source.identity()]
        return {"number of rows": digest(self.n_rows), "data": digest(data)}
