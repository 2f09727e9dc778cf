"""Rows of a table as numbers, and back, by what was learned of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from krepes.preprocessing.cells.dates import DAY
from krepes.preprocessing.cells.grams import BUCKETS, hashed_groups
from krepes.preprocessing.column_encodings import CYCLES, YEAR, Column, text_hashes, to_years
from krepes.preprocessing.column_scan import is_missing_number, number_words, read_form
from krepes.preprocessing.column_values import family, holds_numbers, number_matrix, text_chunks


def encode_rows(
    table: pa.Table,
    columns: Sequence[Column],
    groups: Sequence[Sequence[int]],
    out: np.ndarray,  # shape: (n, n_features_out), zeros
) -> None:
    """Write the encoded rows of a table into `out`."""
    numeric = [
        (column, group) for column, group in zip(columns, groups) if column["role"] in ("numeric", "date")
    ]
    names = [column["column"] for column, _ in numeric]
    M = _numbers(table, [column for column, _ in numeric])
    refuse_infinite([name for name, bad in zip(names, np.isinf(M).any(axis=1)) if bad])
    for (column, group), values, absent in zip(numeric, M, np.isnan(M)):
        if column["role"] == "date":
            _encode_dates(values, absent, column, out[:, group[0] : group[-1] + 1])
            values = to_years(values)
        if absent.any():
            values[absent] = column["median"]
            if column["indicator"]:
                out[absent, group[-1]] = 1.0
        if column.get("linear", True):
            out[:, group[0]] = (values - column["mean"]) / column["scale"]
    rows = np.arange(table.num_rows)
    for column, group in zip(columns, groups):
        if column["role"] == "category":
            out[rows, group[0] + level_codes(table.column(column["column"]), column)] = 1.0
        elif column["role"] == "text":
            cells = table.column(column["column"]).cast(pa.large_string()).combine_chunks()
            out[:, group[0] : group[0] + BUCKETS] = hashed_groups(cells)


def _numbers(table: pa.Table, columns: Sequence[Column]) -> np.ndarray:
    """Columns of numbers and dates as the rows of a matrix, whether they are typed or written as text."""
    names = [column["column"] for column in columns]
    if not any(_is_text(table, name) or column.get("words") for name, column in zip(names, columns)):
        return number_matrix(table, names)
    M = np.empty((len(columns), table.num_rows))
    for row, column in zip(M, columns):
        if _is_text(table, column["column"]):
            row[:] = _read(table.column(column["column"]), column)
        else:
            row[:] = number_matrix(table, [column["column"]], number_words(column.get("words")))[0]
    return M


def _is_text(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return family(kind) == "text" and not holds_numbers(kind)


def _read(cells: pa.ChunkedArray, column: Column) -> np.ndarray:
    """Text as numbers or seconds, in the form that the column had; NaN where a value is missing."""
    words, pair = column.get("words"), column.get("pair", ["true", "false"])
    form = column.get("form", "decimal point")
    parts = []
    for codes, values in text_chunks(cells):
        plain = "decimal point" if form == "boolean" else form
        numbers = read_form(values, plain, words, column.get("unit"))
        for i in np.flatnonzero(np.isnan(numbers)):
            if (cell := values[i].strip().casefold()) in pair and form in ("boolean", "decimal point"):
                numbers[i] = float(cell == pair[0])
            elif not (column.get("tolerant") or is_missing_number(values[i], words)):
                was = "dates" if column["role"] == "date" else "numbers"
                raise ValueError(
                    f"Column {column['column']!r} held {was} when the encoder was fitted; now it holds a cell such as "
                    f"{values[i]!r:.60}. Correct the cell or leave it empty, or fit again with the word in missing=."
                )
        parts.append(np.append(numbers, np.nan)[codes])
    return np.concatenate([np.empty(0), *parts])


def _encode_dates(seconds: np.ndarray, absent: np.ndarray, column: Column, out: np.ndarray) -> None:
    """Write the cycles of dates; a missing date is the centre of every circle."""
    first = int(column["linear"])
    for k, cycle in enumerate(column["cycles"]):
        angle = 2 * np.pi * cycle_position(seconds, cycle)
        out[:, first + 2 * k] = np.where(absent, 0.0, np.sin(angle))
        out[:, first + 2 * k + 1] = np.where(absent, 0.0, np.cos(angle))


def cycle_position(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """How much of a day, week or year is over, from 0 to 1."""
    if cycle == "year":
        whole = np.where(np.isnan(seconds), 0, seconds).astype(np.int64).astype("M8[s]").astype("M8[Y]")
        first, last = (edge.astype("M8[s]").astype(np.int64) for edge in (whole, whole + 1))
        return (seconds - first) / (last - first)
    start = -3 * DAY if cycle == "week" else 0.0  # the Monday before 1970
    length = CYCLES[cycle][0]
    return np.mod(seconds - start, length) / length


def decode_rows(
    encoded: np.ndarray,  # shape: (n, n_features_out)
    columns: Sequence[Column],
    groups: Sequence[Sequence[int]],
) -> dict[str, np.ndarray]:
    """The columns of a table from encoded rows: numbers as float64, dates as datetime64, the rest as text or None."""
    decoded = {}
    for column, group in zip(columns, groups):
        part = encoded[:, group]
        if column["role"] == "text":
            decoded[column["column"]] = np.full(len(part), None, dtype=object)
        elif column["role"] == "category":
            special = ["(rare)"] * (len(column["rare"]) > 0) + [None] * column["missing"]
            names = np.array([*column["levels"], *special], dtype=object)
            decoded[column["column"]] = names[part[:, : len(names)].argmax(axis=1)]
        else:
            values = part[:, 0] * column["scale"] + column["mean"]
            if not column.get("linear", True):  # the angle says the time of day
                values = np.mod(np.arctan2(part[:, 0], part[:, 1]) / (2 * np.pi), 1.0) * DAY
            absent = part[:, -1] > 0.5 if column["indicator"] else np.zeros(len(part), dtype=bool)
            decoded[column["column"]] = _decoded(values, absent, column)
    return decoded


def decoded_type(column: Column) -> pa.DataType:
    """The type of a column that `inverse_transform` gives."""
    if column["role"] == "date":
        return pa.timestamp("us") if column["linear"] else pa.time64("us")
    return pa.float64() if column["role"] == "numeric" and "pair" not in column else pa.large_string()


def as_arrow(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """A decoded column as a type; NaN and NaT are missing."""
    if pa.types.is_time(kind):
        return pa.array(values).cast(pa.time64("us"))
    return pa.array(values, kind, from_pandas=True)


def decoded_numbers(values: pa.ChunkedArray, column: Column) -> np.ndarray:
    """A column that `inverse_transform` gave as the numbers that its mean and scale are of; NaN where missing."""
    if "pair" in column:
        values = pc.equal(values, column["pair"][0]).cast(pa.float64())
    elif column["role"] == "date":
        values = pa.chunked_array([to_years(number_matrix(pa.table({"v": values}), ["v"])[0])])
    return values.to_numpy()


def _decoded(values: np.ndarray, absent: np.ndarray, column: Column) -> np.ndarray:
    """Numbers as what they stand for: themselves, words for yes and no, dates, or times of day in seconds."""
    if column["role"] == "date":
        seconds = (values - 1970.0) * YEAR if column["linear"] else values
        whole = np.round(np.where(absent, 0.0, seconds) * 1e6).astype(np.int64)
        moments: np.ndarray = whole.astype("M8[us]")
        moments[absent] = np.datetime64("NaT")
        return moments
    if "pair" in column:
        yes, no = column["pair"]
        words = np.array([no, yes, None], dtype=object)
        return words[np.where(absent, 2, (values > 0.5).astype(int)).astype(int)]
    return np.where(absent, np.nan, values)


def level_codes(values: pa.ChunkedArray, column: Column) -> np.ndarray:
    """Which of a category's outputs is 1, for every row."""
    code = {level: i for i, level in enumerate(column["levels"])}
    unseen = column["n_outputs"] - 1
    rare = len(code) if len(column["rare"]) else unseen
    missing = unseen - 1 if column["missing"] else unseen
    words = set(column.get("words", ()))
    codes = []
    for chunk, distinct in text_chunks(values):
        found = [code.get(value, code.get(value.strip(), -1)) for value in distinct]
        known = np.array([*found, missing])  # the last is for missing, -1
        others = np.flatnonzero(known == -1)
        both = (text_hashes([write(distinct[i]) for i in others]) for write in (str, str.strip))
        known[others] = np.where(np.any([np.isin(h, column["rare"]) for h in both], axis=0), rare, unseen)
        known[[i for i in others if distinct[i].strip() in words]] = missing
        codes.append(known[chunk])
    return np.concatenate(codes)


def refuse_infinite(names: Sequence[str]) -> None:
    if names:
        raise ValueError(
            f"Input X contains infinity in the columns {', '.join(map(repr, names))}. Replace infinite values by NaN, "
            "which is read as missing, or exclude the columns."
        )
