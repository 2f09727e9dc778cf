"""What one scan learns about the columns of a table.

Numbers: count, mean, sum of squares, range. A chunk's moments are taken in two passes over the chunk and
merged into those of the rows before [chan],

    delta = mean_b - mean,   mean += delta n_b / n,   M2 += M2_b + delta^2 n_a n_b / n,   n = n_a + n_b,

in float64, so that a large mean does not swallow a small variance. Text: how often each value occurs, exactly,
up to `MAX_DISTINCT` values; a column with more is not a category. Cost O(n d), memory O(chunk + levels).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from krepes.preprocessing.column_values import family, number_matrix, text_chunks

MAX_DISTINCT = 100_000


class ColumnScan:
    """Moments, levels and order of columns, over chunks of rows added one after the other.

    >>> scan = ColumnScan(pa.schema({"a": pa.float64(), "b": pa.string()}))
    >>> scan.add(pa.table({"a": [1.0, 3.0], "b": ["u", "v"]}))
    >>> scan.add(pa.table({"a": [5.0, None], "b": ["u", None]}))
    >>> scan.mean.tolist(), scan.variance.round(4).tolist(), scan.levels["b"], scan.missing["b"]
    ([3.0], [2.6667], {'u': 2, 'v': 1}, 1)
    """

    def __init__(self, schema: pa.Schema):
        self.numbers = [field.name for field in schema if family(field.type) == "number"]
        self.integers = [field.name for field in schema if pt.is_integer(field.type)]
        self.position = {name: j for j, name in enumerate(self.numbers)}
        self.n_rows = 0
        k = len(self.numbers)
        self.count = np.zeros(k, dtype=np.int64)
        self.mean, self.squares = np.zeros(k), np.zeros(k)
        self.low, self.high = np.full(k, np.inf), np.full(k, -np.inf)
        self.infinite: set[str] = set()
        self.last: dict[str, int | None] = dict.fromkeys(self.integers, -(2**64))  # None: not increasing
        texts = [field.name for field in schema if family(field.type) == "text"]
        self.levels: dict[str, dict[str, int] | None] = {name: {} for name in texts}  # None: too many
        self.missing: dict[str, int] = dict.fromkeys(texts, 0)

    def add(self, table: pa.Table) -> None:
        self.n_rows += table.num_rows
        self._add_moments(number_matrix(table, self.numbers))
        for name in self.integers:
            self._add_order(name, table.column(name))
        for name in self.levels:
            self._add_levels(name, table.column(name))

    @property
    def variance(self) -> np.ndarray:
        """Population variances of the values that are there."""
        return self.squares / np.maximum(self.count, 1)

    def strictly_increasing(self, name: str) -> bool:
        """Whether an integer column has no missing value and every value is larger than the one before."""
        return self.last.get(name) is not None

    def _add_moments(self, M: np.ndarray) -> None:  # shape: (k, b)
        missing = np.isnan(M)
        self.infinite |= {self.numbers[j] for j in np.flatnonzero(np.isinf(M).any(axis=1))}
        count = M.shape[1] - missing.sum(axis=1)
        self.low = np.fmin(self.low, np.fmin.reduce(M, axis=1, initial=np.inf))
        self.high = np.fmax(self.high, np.fmax.reduce(M, axis=1, initial=-np.inf))
        M[missing] = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            mean = M.sum(axis=1) / np.maximum(count, 1)
            M -= mean[:, None]
            M[missing] = 0.0
            squares = np.square(M, out=M).sum(axis=1)
            total = np.maximum(self.count + count, 1)
            delta = mean - self.mean
            self.mean = self.mean + delta * (count / total)
            self.squares = self.squares + squares + delta**2 * (self.count * (count / total))
        self.count = self.count + count

    def _add_order(self, name: str, column: pa.ChunkedArray) -> None:
        last = self.last[name]
        if last is None:
            return
        values = column.to_numpy()
        if column.null_count or int(values[0]) <= last or not (values[1:] > values[:-1]).all():
            self.last[name] = None
        else:
            self.last[name] = int(values[-1])

    def _add_levels(self, name: str, column: pa.ChunkedArray) -> None:
        levels = self.levels[name]
        for codes, values in text_chunks(column):
            self.missing[name] += int((codes < 0).sum())
            if levels is None:
                continue
            for value, n in zip(values, np.bincount(codes[codes >= 0], minlength=len(values)).tolist()):
                if n:
                    levels[value] = levels.get(value, 0) + n
            if len(levels) > MAX_DISTINCT:
                levels = self.levels[name] = None
