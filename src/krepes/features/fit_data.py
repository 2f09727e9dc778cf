"""The rows of a fit: opened once, and read as blocks in a model's input space.

    FitData = sources side by side (X, positives, negatives), targets, weights, groups
    RowReader = FitData + input space + range of rows

Rows are encoded where they are read, which is in the engine's prefetching thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import Block, IndexedReader, Placement, part_edges
from krepes.base.reporting import warn
from krepes.base.rows import Rows, count_rows, slice_rows
from krepes.base.storage.packing import digest
from krepes.preprocessing.input_space import InputSpace
from krepes.sources import Source, open_source
from krepes.sources.identity_of_files import file_stamps
from krepes.sources.row_subset import section

ALONGSIDE = ("y", "weight", "group")


@dataclass(frozen=True, eq=False)
class FitData:
    """What a model is fitted on.

    Attributes
    ----------
    sources : tuple of Sources of n rows each
        X; X and positives; or X, positives and negatives.
    y : ndarray of shape (n, ...), optional
    weight : ndarray of shape (n,), float64, optional
    group : ndarray of shape (n,), optional
    first_row : int
        The global index of the first row.
    group_column : str, optional
        The column that the groups are, which is then not a feature.
    """

    sources: tuple[Source, ...]
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    group: np.ndarray | None = None
    first_row: int = 0
    group_column: str | None = None
    stamps: Mapping[Path, tuple[int, ...]] = field(
        default_factory=dict
    )  # of the files, when they were opened

    @classmethod
    def open(
        cls,
        X: Any,
        positives: Any = None,
        negatives: Any = None,
        *,
        y: Any = None,
        weight: Any = None,
        group: np.ndarray | None = None,
        opener: Callable[[Any], Source] = open_source,
        positives_name: str = "positives",
    ) -> FitData:
        """Open the data; `opener` belongs to the input space, if that exists already.

        `positives_name` is what the estimator calls them.
        """
        if negatives is not None and positives is None:
            raise ValueError(
                "negatives= need positives= too: a triplet is a sample, a positive and a negative."
            )
        first = opener(X)
        pairs = [data for data in (positives, negatives) if data is not None]
        if first.companions and pairs:
            raise ValueError(
                f"X holds second views of its rows, and {positives_name}= were given too. Leave them out, or read one "
                "entry of X with krepes.sources.open_source(X, key=0)."
            )
        if first.reading:
            warn(first.reading)
        sources = (first, *(_opened_like(first, data, opener) for data in pairs or first.companions))
        n = sources[0].n_rows
        for name, source in zip((positives_name, "negatives"), sources[1:]):
            if source.n_rows != n:
                raise ValueError(f"{name}= has {source.n_rows} rows, X has {n}: one is needed for every row.")
        return cls(
            sources,
            _along(y, n, "y"),
            as_weights(weight, n),
            _along(group, n, "groups"),
            stamps=file_stamps(path for source in sources for path in source.paths),
        )

    def check_unchanged(self) -> None:
        """Refuse files that were changed since they were opened: landmarks and sums would be of different rows."""
        now = file_stamps(self.stamps)
        changed = [path for path, stamp in self.stamps.items() if now[path] != stamp]
        if changed:
            raise ValueError(
                f"{changed[0]} was changed while it was read, so that some rows are of the file before and some of the "
                "file after. Fit again when nothing writes to it."
            )

    @property
    def n_rows(self) -> int:
        return self.sources[0].n_rows

    @property
    def paired(self) -> bool:
        return len(self.sources) > 1

    @property
    def counting_rows(self) -> np.ndarray | None:
        """The rows whose weight is not zero; None where that is all of them."""
        if self.weight is None or (self.weight > 0).all():
            return None
        return np.flatnonzero(self.weight > 0)

    def reader(self, inputs: InputSpace, placement: Placement, first_row: int = 0) -> RowReader:
        """A reader of all rows; `first_row` is the global index of the first."""
        sources = tuple(map(inputs.selected, self.sources))
        data = FitData(sources, self.y, self.weight, self.group)
        return RowReader(data, inputs, placement, first_row, 0, self.n_rows)


@dataclass(frozen=True, eq=False)
class RowReader(IndexedReader):
    """The rows start .. stop of some data as blocks in an input space."""

    data: FitData
    inputs: InputSpace
    placement: Placement
    first_row: int  # the global index of row 0 of the data
    start: int
    stop: int

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.stop - self.start

    def read(self, batch_rows: int, start: int = 0) -> Iterator[Block]:
        first = self.start + start
        streams = [source.batches(batch_rows, first) for source in self.data.sources]
        for batches in zip(*streams):
            if first >= self.stop:
                return
            last = min(first + count_rows(batches[0][1]), self.stop)
            rows = torch.arange(self.first_row + first, self.first_row + last)
            inputs = tuple(
                self._encoded(slice_rows(batch, 0, last - first), source, np.arange(first, last))
                for source, (_, batch) in zip(self.data.sources, batches)
            )
            yield Block(rows, inputs, *self._alongside(slice(first, last)))
            first = last

    def take(self, indices: np.ndarray) -> Block:
        """The rows at these positions of the range, in that order."""
        places = self.start + indices
        inputs = tuple(self._encoded(source.take(places), source, places) for source in self.data.sources)
        return Block(torch.from_numpy(self.first_row + places), inputs, *self._alongside(places))

    def parts(self, n: int) -> list[RowReader]:
        edges = part_edges(self.start, self.stop, n, seams=self.data.sources[0].seams)
        return [replace(self, start=first, stop=stop) for first, stop in pairwise(edges)]

    def portable(self) -> RowReader:
        """With only its own targets and weights, and of data in memory only its own rows."""
        sources = tuple(section(source, self.start, self.stop) for source in self.data.sources)
        y, weight, group = self._alongside(slice(self.start, self.stop))
        data = FitData(sources, y, weight, group)
        return replace(self, data=data, first_row=self.first_row + self.start, start=0, stop=self.n_rows)

    def identity(self) -> dict[str, str]:
        """Hashes of the number of rows, the sources (`Source.identity`) with the place in them, targets and weights."""
        place = [self.first_row, self.start, self.stop]
        sources = [source.identity() for source in self.data.sources]
        known: dict[str, Any] = {"number of rows": self.n_rows, "data": [place, sources]}
        for name, values in zip(ALONGSIDE, self._alongside(slice(self.start, self.stop))):
            if values is not None:  # text is hashed as JSON
                known[name] = values if values.dtype.kind in "biuf" else values.tolist()
        return {name: digest(value) for name, value in known.items()}

    def _encoded(self, batch: Rows, source: Source, places: np.ndarray) -> Rows:
        return self.inputs.tensor_from(source, places, batch, self.placement.dtype, self.placement.device)

    def _alongside(self, part: slice | np.ndarray) -> Sequence[np.ndarray | None]:
        values = (getattr(self.data, name) for name in ALONGSIDE)
        return [None if array is None else array[part] for array in values]


def _opened_like(first: Source, data: Any, opener: Callable[[Any], Source]) -> Source:
    """The source of pairs; a folder of images comes at the size of the images that it is paired with."""
    folder = isinstance(data, str | os.PathLike) and Path(data).is_dir()
    if opener is not open_source or not folder or first.kind != "images":
        return opener(data)
    height, width = np.shape(next(first.batches(1))[1])[1:3]
    return open_source(data, size=(height, width))


def as_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Sample weights, checked: finite numbers >= 0, not all of them zero; a single number counts for all rows."""
    if sample_weight is None:
        return None
    given = sample_weight.detach().cpu() if isinstance(sample_weight, Tensor) else sample_weight
    try:
        array = np.array(given, dtype=np.float64)  # a copy, because torch cannot share what is read-only
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight: expected one number per row; {error}.") from error
    array = np.full(n_rows, float(array)) if array.ndim == 0 else array
    if array.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has the shape {array.shape}; expected ({n_rows},), one number per row."
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError("sample_weight has negative, NaN or infinite values; expected numbers >= 0.")
    if not (array > 0).any():
        raise ValueError("sample_weight is zero for every row: there is nothing to learn from.")
    return array


def _along(data: Any, n_rows: int, name: str) -> np.ndarray | None:
    """One entry for every row, as an array."""
    if data is None:
        return None
    array = np.asarray(data.detach().cpu() if isinstance(data, Tensor) else data)
    if array.ndim == 0 or len(array) != n_rows:
        given = "a single value" if array.ndim == 0 else f"{len(array):,} values"
        raise ValueError(f"{name} has {given} for {n_rows:,} rows; one is needed for every row.")
    return array
