"""Vectors read as a table: column j of an (n, d) source is the column x{j}."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import pyarrow as pa

from krepes.base.rows import Rows, is_tensor
from krepes.sources.source import PartOfSource, Source, TableSource

if TYPE_CHECKING:
    import torch


class VectorsTable(PartOfSource, TableSource):
    """A source of vectors as a table with the columns x0, x1, ..., or with given names.

    >>> from krepes.sources import open_source
    >>> table = VectorsTable(open_source([[1, 2], [3, 4]]))
    >>> next(table.select(["x1"]).batches(10))[1].to_pydict()
    {'x1': [2, 4]}
    """

    def __init__(self, source: Source, names: Sequence[str] | None = None):
        if source.kind != "vectors":
            raise ValueError(f"Only vectors (n, d) can be read as a table; got {source.describe()}.")
        sample = _matrix(next(source.batches(1))[1])
        names = numbered_names(sample.shape[1]) if names is None else list(names)
        super().__init__(source, source.n_rows)
        self.kind = "table"
        self.schema = pa.schema([(name, pa.from_numpy_dtype(sample.dtype)) for name in names])
        self._position = {name: j for j, name in enumerate(names)}

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        for first, batch in self.source.batches(batch_rows, start):
            yield first, self._table(batch)

    def take(self, indices: np.ndarray) -> pa.Table:
        return self._table(self.source.take(indices))

    @property
    def seams(self) -> Sequence[int] | None:
        return self.source.seams

    def narrowed(self, start: int, stop: int) -> tuple[VectorsTable, int]:
        narrow = copy(self)
        narrow.source, first = self.source.narrowed(start, stop)
        narrow.n_rows = narrow.source.n_rows
        return narrow, first

    def where(self, row: int) -> str | None:
        return self.source.where(row)

    def identity(self) -> dict[str, object]:
        return {"columns": self.column_names, "of": self.source.identity()}

    def describe(self) -> str:
        return self.source.describe()

    def _table(self, batch: Rows) -> pa.Table:
        return matrix_table(batch, list(self._position), self.schema.names)


def numbered_names(width: int) -> list[str]:
    """What the columns of an array are called."""
    return [f"x{j}" for j in range(width)]


def is_matrix(batch: Rows) -> TypeGuard[np.ndarray | torch.Tensor]:
    """Whether rows are vectors of numbers."""
    numbers = is_tensor(batch) or (isinstance(batch, np.ndarray) and batch.dtype.kind in "biuf")
    return numbers and getattr(batch, "ndim", 0) == 2


def matrix_table(batch: Rows, names: Sequence[str], wanted: Sequence[str]) -> pa.Table:
    """Some columns of vectors whose columns have these names."""
    X, position = _matrix(batch), {name: j for j, name in enumerate(names)}
    columns = [pa.array(np.ascontiguousarray(X[:, position[name]])) for name in wanted]
    return pa.Table.from_arrays(columns, names=list(wanted))


def _matrix(batch: Rows) -> np.ndarray:
    if not is_tensor(batch):
        return np.asarray(batch)
    known = str(batch.dtype).removeprefix("torch.") in np.sctypeDict
    return (batch.cpu() if known else batch.cpu().float()).numpy()  # bfloat16 is torch's own
