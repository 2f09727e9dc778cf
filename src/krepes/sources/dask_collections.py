"""Dask frames and arrays: every partition is a source, made where it is read and never gathered.

A partition travels as the part of Dask's graph that makes it (paths to read, functions to apply), and is computed by
the process that reads its rows: a worker of a cluster, or this one. Opening a collection asks Dask for the number of
rows of each partition, and for the columns of a frame; Dask runs that where it runs everything (its current client, or
threads of this process). Chunks of arrays are joined along the columns, so that a row is whole. Memory is one
partition. Dask is not imported here: whoever gives a collection has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from krepes.base.rows import Rows, count_rows, slice_rows
from krepes.sources.arrays.in_memory import array_kind, check_array, ready
from krepes.sources.rows_in_sequence import Named, SequenceSource, in_sequence
from krepes.sources.source import Source, TableSource, conform
from krepes.sources.tables.frames import pandas_source

if TYPE_CHECKING:
    import pandas as pd


class Recipe:
    """How Dask makes a partition: its graph, no larger than needed, and the key of the result."""

    def __init__(self, graph: Mapping[Hashable, object], key: Hashable):
        from dask.optimization import cull

        self.graph, self.key = cull(dict(graph), [key])[0], key

    def computed(self) -> object:
        from dask.local import get_sync

        graph: Any = {key: _fetched(value) for key, value in self.graph.items()}
        key: Any = self.key
        return get_sync(graph, key)


class PartitionSource(Source):
    """The rows of one partition of an array."""

    by_reference = True

    def __init__(self, recipe: Recipe, name: str, n_rows: int, kind: str):
        self.recipe, self.name, self.n_rows, self.kind = recipe, name, n_rows, kind

    def batches(self, batch_rows: int, start: int = 0) -> Iterator[tuple[int, Rows]]:
        batch_rows, start = self._checked_range(batch_rows, start)
        rows = self._rows()
        if count_rows(rows) != self.n_rows:
            now = f"{count_rows(rows):,} rows now, and had {self.n_rows:,} when it was opened"
            raise ValueError(f"{self.name} has {now}. Open it again.")
        for first in range(start, self.n_rows, batch_rows):
            yield first, slice_rows(rows, first, min(first + batch_rows, self.n_rows))

    def _rows(self) -> Rows:
        return ready(np.asarray(self._computed()))

    def _computed(self) -> object:
        try:
            return self.recipe.computed()
        except MemoryError:
            raise
        except Exception as error:  # whatever the functions of a user's graph raise
            raise ValueError(f"{self.name} cannot be computed: {type(error).__name__}: {error}") from error

    def identity(self) -> dict[str, object]:
        return {"Dask key": str(self.recipe.key), "rows": self.n_rows}

    def describe(self) -> str:
        return f"{self.name}, {self.n_rows:,} rows"


class PartitionTable(PartitionSource, TableSource):
    """The rows of one partition of a frame."""

    kind = "table"

    def __init__(self, recipe: Recipe, name: str, n_rows: int, schema: pa.Schema):
        super().__init__(recipe, name, n_rows, "table")
        self.schema = schema

    def _rows(self) -> pa.Table:
        frame = cast("pd.DataFrame", self._computed())
        present = [str(column) for column in frame.columns]
        missing = [column for column in self.schema.names if column not in present]
        if missing:
            raise ValueError(f"{self.name} has no column {missing[0]!r}; it has {', '.join(present)}.")
        table = next(pandas_source(frame).batches(max(1, len(frame))))[1]
        try:
            return conform(table, self.schema)
        except pa.ArrowException as error:
            raise ValueError(f"{self.name} has another schema: {error}.") from error


def dask_kind(data: object) -> str | None:
    """Whether data is a frame or an array of Dask; None for anything else, such as a bag or a delayed value."""
    if not hasattr(data, "__dask_graph__"):
        return None
    if any(cls.__module__.startswith("dask.") and cls.__name__ == "Array" for cls in type(data).__mro__):
        return "array"
    return "frame" if hasattr(data, "to_delayed") and hasattr(data, "columns") else None


def open_dask(data: Any) -> SequenceSource:
    """One source of all partitions."""
    try:
        return _open_array(data) if dask_kind(data) == "array" else _open_frame(data)
    except ValueError as error:
        if "Missing dependency" not in str(error):
            raise
        raise ValueError(
            "The Dask collection is persisted on a cluster, and there is no client to ask for it: make its client the "
            "current one (client.as_current()), or give the collection before persist()."
        ) from error


def _open_array(data: Any) -> SequenceSource:
    import dask
    from dask.core import flatten

    whole = data.rechunk(dict.fromkeys(range(1, data.ndim), -1)) if data.ndim > 1 else data
    if any(np.isnan(size) for size in whole.chunks[0]):
        whole = whole.compute_chunk_sizes()
    check_array(tuple(map(int, whole.shape)), whole.dtype, "The Dask array: ")
    (whole,) = dask.optimize(whole)
    graph, keys = dict(whole.__dask_graph__()), list(flatten(whole.__dask_keys__()))
    kind, parts = array_kind(whole.shape), []
    for i, (key, size) in enumerate(zip(keys, whole.chunks[0], strict=True)):
        name = f"chunk {i} of the Dask array"
        if size:
            parts.append(Named(name, PartitionSource(Recipe(graph, key), name, int(size), kind)))
    return in_sequence(parts, f"Dask array, {len(keys):,} chunks", whole=True)


def _open_frame(data: Any) -> SequenceSource:
    import dask

    delayed = data.to_delayed()
    graph, keys = dict(delayed[0].dask), [part.key for part in delayed]
    described = dask.compute(*[dask.delayed(_described)(part) for part in delayed])
    parts = []
    for i, (key, found) in enumerate(zip(keys, described, strict=True)):
        name = f"partition {i} of the Dask frame"
        n_rows, schema, error = found
        if error is not None:
            raise ValueError(f"{name}: {error}")
        if n_rows:
            parts.append(Named(name, PartitionTable(Recipe(graph, key), name, n_rows, schema)))
    return in_sequence(parts, f"Dask frame, {len(keys):,} partitions", whole=True)


def _described(frame: pd.DataFrame) -> tuple[int, pa.Schema | None, str | None]:
    """The number of rows, the columns and types, and what is wrong with a partition."""
    if not len(frame):
        return 0, None, None
    try:
        return len(frame), pandas_source(frame).schema, None
    except ValueError as error:
        return len(frame), None, str(error)


def _fetched(value: object) -> object:
    """A node of a graph; results that a cluster holds (a persisted collection) are fetched by who needs them."""
    distributed = sys.modules.get("distributed")
    held = getattr(value, "value", value)
    if distributed is None or not isinstance(held, distributed.Future):
        return value
    return held.result()
