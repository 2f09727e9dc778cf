"""The values of pyarrow columns as numpy: numbers as float64, text as codes into distinct values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_FEW_ROWS = 32  # below this many rows, serving one at a time, Python is faster than Arrow


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


def text_chunks(column: pa.ChunkedArray) -> Iterator[tuple[np.ndarray, list[str]]]:
    """For each chunk: codes (n,), −1 where a value is missing, and the distinct values they point to."""
    for chunk in column.chunks:
        if not len(chunk):
            continue
        if pt.is_null(chunk.type):
            yield np.full(len(chunk), -1), []
            continue
        if len(chunk) <= _FEW_ROWS and pt.is_string(chunk.type):
            texts = chunk.to_pylist()
            place = {value: i for i, value in enumerate(dict.fromkeys(v for v in texts if v is not None))}
            yield np.array([place.get(value, -1) for value in texts]), list(place)
            continue
        if not pt.is_dictionary(chunk.type):
            text = chunk if pt.is_string(chunk.type) else _as_text(chunk)
            chunk = text.dictionary_encode()
        codes = chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        used, codes = np.unique(codes, return_inverse=True)  # a dictionary may be far longer than the chunk
        values = chunk.dictionary.take(pa.array(used[used >= 0])).cast(pa.large_string()).to_pylist()
        codes = codes - int(used[0] < 0)
        absent = [i for i, value in enumerate(values) if value is None]
        yield np.where(np.isin(codes, absent), -1, codes) if absent else codes, values


def _as_text(chunk: pa.Array) -> pa.Array:
    """Values as text; whole numbers are written alike, whether they are integers or not."""
    text = chunk.cast(pa.large_string())
    return pc.replace_substring_regex(text, r"\.0$", "") if pt.is_floating(chunk.type) else text


def first_value(column: pa.ChunkedArray) -> object:
    """The first value that is there; None if there is none."""
    return next((v.as_py() for chunk in column.chunks for v in chunk if v.is_valid), None)


def example(column: pa.ChunkedArray) -> str:
    """A value of a column to show in a message."""
    return f"{first_value(column)!r:.60}"
