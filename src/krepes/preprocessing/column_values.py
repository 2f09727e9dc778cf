"""The values of pyarrow columns as numpy, and their moments.

Numbers are float64, text is codes into distinct values. Count, mean, sum of squares and range of a chunk of rows are
taken in two passes over the chunk and merged with the moments of other rows [chan],

    delta = mean_b - mean_a,   mean = mean_a + delta n_b / n,   M2 = M2_a + M2_b + delta^2 n_a n_b / n,   n = n_a + n_b,

in float64, so that a large mean does not swallow a small variance. Cost O(n k).

Chunks are merged as in a tree: 0 with 1, 2 with 3, then these two with one another. Which chunks are merged follows
from their places alone, so that workers that add up consecutive chunks get the bits of one process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_FEW_ROWS = 32  # below this many rows, serving one at a time, Python is faster than Arrow


@cache
def family(kind: pa.DataType) -> str:
    """What a type is for an encoder: number, text, date or time, binary, nested or empty.

    A dictionary (a pandas or polars categorical) is text, whatever its values are.

    >>> family(pa.int8()), family(pa.dictionary(pa.int8(), pa.int64())), family(pa.date32())
    ('number', 'text', 'date or time')
    """
    if pt.is_dictionary(kind):
        inner = family(kind.value_type)
        return "text" if inner == "number" else inner
    if pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        return "number"
    if pt.is_string(kind) or pt.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    if pt.is_temporal(kind) and not pt.is_interval(kind):
        return "date or time"
    if str(kind).startswith(("binary", "large_binary", "fixed_size_binary")):
        return "binary"
    return "empty" if pt.is_null(kind) else "nested"


@cache
def holds_numbers(kind: pa.DataType) -> bool:
    """Whether the values are numbers, possibly behind a dictionary."""
    return family(kind.value_type if pt.is_dictionary(kind) else kind) == "number"


def column_numbers(column: pa.ChunkedArray, missing: Sequence[float] = ()) -> np.ndarray:
    """A column as float64, NaN where a value is missing or one of `missing`.

    Dates, times and durations are seconds, since 1970 or midnight; with a time zone, as its clocks show them.
    """
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    temporal = pt.is_temporal(column.type)
    if temporal:
        column = _microseconds(column)
    numbers = np.empty(len(column))
    first = 0
    for chunk in column.chunks:
        if pt.is_decimal(chunk.type) or (chunk.null_count and pt.is_boolean(chunk.type)):
            chunk = chunk.cast(pa.float64())
        numbers[first : first + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        first += len(chunk)
    if temporal:
        numbers *= 1e-6
    if len(missing):
        numbers[np.isin(numbers, missing)] = np.nan
    return numbers


def number_matrix(table: pa.Table, names: Sequence[str], missing: Sequence[float] = ()) -> np.ndarray:
    """Columns as the rows of a (k, n) float64 matrix, as `column_numbers` gives them."""
    M = np.empty((len(names), table.num_rows))
    for row, name in zip(M, names):
        row[:] = column_numbers(table.column(name), missing)
    return M


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates, times and durations as integers; finer parts are cut off."""
    kind = column.type
    if pt.is_timestamp(kind) and kind.tz is not None:
        column = pc.local_timestamp(column)
    fine = pa.timestamp("us")
    if pt.is_time(kind) or pt.is_duration(kind):
        fine = pa.time64("us") if pt.is_time(kind) else pa.duration("us")
    return column.cast(fine, safe=False).cast(pa.int64())


def text_chunks(column: pa.ChunkedArray) -> list[tuple[np.ndarray, list[str]]]:
    """For each chunk: codes (n,), −1 where a value is missing, and the distinct values they point to."""
    return [_coded(chunk) for chunk in column.chunks if len(chunk)]


def _coded(chunk: pa.Array) -> tuple[np.ndarray, list[str]]:
    if pt.is_null(chunk.type):
        return np.full(len(chunk), -1), []
    if len(chunk) <= _FEW_ROWS and pt.is_string(chunk.type):
        texts = chunk.to_pylist()
        place = {value: i for i, value in enumerate(dict.fromkeys(v for v in texts if v is not None))}
        return np.array([place.get(value, -1) for value in texts]), list(place)
    if not pt.is_dictionary(chunk.type):
        text = chunk if pt.is_string(chunk.type) else _as_text(chunk)
        chunk = text.dictionary_encode()
    codes = chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used, codes = np.unique(codes, return_inverse=True)  # a dictionary may be far longer than the chunk
    values = chunk.dictionary.take(pa.array(used[used >= 0])).cast(pa.large_string()).to_pylist()
    codes = codes - int(used[0] < 0)
    absent = [i for i, value in enumerate(values) if value is None]
    return np.where(np.isin(codes, absent), -1, codes) if absent else codes, values


def _as_text(chunk: pa.Array) -> pa.Array:
    """Values as text; whole numbers are written alike, whether they are integers or not."""
    text = chunk.cast(pa.large_string())
    return pc.replace_substring_regex(text, r"\.0$", "") if pt.is_floating(chunk.type) else text


def first_values(table: pa.Table) -> dict[str, object]:
    """The first value of every column that has one."""
    columns = zip(table.column_names, table.columns)
    firsts = {name: next((v.as_py() for v in cells if v.is_valid), None) for name, cells in columns}
    return {name: value for name, value in firsts.items() if value is not None}


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Moments of k columns, each an array (k,).

    >>> moments = ColumnMoments.of(np.array([[1.0, 3.0]])).joined(ColumnMoments.of(np.array([[5.0, np.nan]])))
    >>> moments.count.tolist(), moments.mean.tolist(), moments.variance.round(4).tolist()
    ([3], [3.0], [2.6667])
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    infinite: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        """Population variances of the values that are there."""
        return self.squares / np.maximum(self.count, 1)

    @classmethod
    def of(cls, M: np.ndarray) -> ColumnMoments:  # shape: (k, b), overwritten
        """The moments of some rows, one column after the other; NaN is a missing value."""
        missing = np.isnan(M)
        infinite = np.isinf(M).any(axis=1)
        count = M.shape[1] - missing.sum(axis=1)
        low = np.fmin.reduce(M, axis=1, initial=np.inf)
        high = np.fmax.reduce(M, axis=1, initial=-np.inf)
        M[missing] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            mean = M.sum(axis=1) / np.maximum(count, 1)
            M -= mean[:, None]
            M[missing] = 0.0
            squares = np.square(M, out=M).sum(axis=1)
        return cls(count, mean, squares, low, high, infinite)

    def joined(self, other: ColumnMoments) -> ColumnMoments:
        """The moments of the rows of both."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = other.mean - self.mean
            mean = self.mean + delta * share
            squares = self.squares + other.squares + delta**2 * (self.count * share)
        low, high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)
        return ColumnMoments(count, mean, squares, low, high, self.infinite | other.infinite)


@dataclass(frozen=True, eq=False)
class MomentTree:
    """Moments of chunks by their places, merged in a way that does not depend on who added which of them.

    >>> first, second = (ColumnMoments.of(np.full((1, 4), value)) for value in (1.0, 2.0))
    >>> whole = MomentTree(1).with_chunk(0, first).joined(MomentTree(1).with_chunk(1, second))
    >>> whole.total.mean.tolist(), whole.total.count.tolist()
    ([1.5], [8])
    """

    k: int
    nodes: dict[tuple[int, int], ColumnMoments] = field(
        default_factory=dict
    )  # (level, place): of 2^level chunks

    def with_chunk(self, place: int, moments: ColumnMoments) -> MomentTree:
        """This tree with one more chunk."""
        return self.joined(MomentTree(self.k, {(0, place): moments}))

    def joined(self, other: MomentTree) -> MomentTree:
        """The chunks of both."""
        grown = dict(self.nodes)
        for (level, place), moments in other.nodes.items():
            while (level, place ^ 1) in grown:
                beside = grown.pop((level, place ^ 1))
                moments = beside.joined(moments) if place & 1 else moments.joined(beside)
                level, place = level + 1, place >> 1
            if (level, place) in grown:  # a chunk that came in halves, because memory was short
                moments = grown[level, place].joined(moments)
            grown[level, place] = moments
        return MomentTree(self.k, grown)

    @cached_property
    def total(self) -> ColumnMoments:
        """The moments of all chunks."""
        in_order = sorted(self.nodes, key=lambda node: node[1] << node[0])
        none = ColumnMoments.of(np.empty((self.k, 0)))
        return reduce(ColumnMoments.joined, (self.nodes[node] for node in in_order), none)
