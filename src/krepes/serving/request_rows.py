"""Rows of a request: what JSON a model takes, as a schema, and JSON as rows, with errors that name row and column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, time
from typing import Any

import numpy as np
import pyarrow as pa

from krepes.preprocessing.columns import Category, Column, Date, YesNo
from krepes.preprocessing.input_space import InputSpace

LARGEST = 1e12  # number in a request: what is far beyond any column is a mistake


class BadRowsError(ValueError):
    """Rows that the model does not take; the message names the first bad row and its column."""


def row_schema(inputs: InputSpace) -> dict[str, Any]:
    """The JSON schema of one row."""
    if inputs.encoder is not None:
        columns = {column.name: _column_schema(column) for column in inputs.encoder.columns_}
        return {"type": "object", "properties": columns, "required": list(columns)}
    if inputs.kind == "objects" and not inputs.raw_:
        return {"type": "string"}
    if inputs.of_objects or inputs.kind not in ("vectors", "images", "series"):
        taken = "series of any length" if inputs.kind == "series" else inputs.kind
        raise ValueError(
            f"krepes serve takes tables, arrays, images, series of one length and strings; this model takes {taken}."
        )
    schema: dict[str, Any] = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    if inputs.divide != 1.0:
        schema = {"type": "integer", "minimum": 0, "maximum": 255}
    for length in reversed(inputs.shape):
        schema = {"type": "array", "items": schema, "minItems": length, "maxItems": length}
    return schema


def _column_schema(column: Column) -> dict[str, Any]:
    if isinstance(column, Date):
        kind, example = (
            ("time", "12:30:00Z") if column.form == "time" else ("date-time", "2024-05-17T12:30:00Z")
        )
        return {"type": ["string", "null"], "format": kind, "example": example}
    if isinstance(column, YesNo):
        return {"type": ["string", "null"], "enum": [*column.pair, None], "example": column.pair[0]}
    if isinstance(column, Category):
        return {"type": ["string", "null"], "example": (column.levels or ["..."])[0]}
    if column.role == "text":
        return {"type": ["string", "null"]}
    usual = float(getattr(column, "median", 0.0))
    return {"type": ["number", "null"], "minimum": -LARGEST, "maximum": LARGEST, "example": usual}


def as_table(inputs: InputSpace, rows: Any, most: int) -> Any:
    """Rows of JSON as the model takes them."""
    if not isinstance(rows, list) or not rows:
        raise BadRowsError("rows: expected a list of at least one row.")
    if len(rows) > most:
        raise BadRowsError(f"rows: {len(rows):,} rows in one request; at most {most:,} are taken.")
    if inputs.encoder is not None:
        for i, row in enumerate(rows):
            if not isinstance(row, dict):
                raise BadRowsError(f"row {i}: expected an object of columns, got {_kind(row)}.")
        return pa.table({column.name: _cells(column, rows) for column in inputs.encoder.columns_})
    if inputs.kind == "objects":
        for i, row in enumerate(rows):
            if not isinstance(row, str):
                raise BadRowsError(f"row {i}: expected a string, got {_kind(row)}.")
        return rows
    whole = inputs.divide != 1.0
    for i, row in enumerate(rows):
        _check_numbers(row, inputs.shape, f"row {i}", whole)
    return np.array(rows, dtype=np.uint8 if whole else np.float64)


def _check_numbers(value: Any, shape: Sequence[int], where: str, whole: bool) -> None:
    if not shape:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        bounds = (0, 255) if whole else (-LARGEST, LARGEST)
        if (
            not number or not bounds[0] <= value <= bounds[1] or (whole and value % 1)
        ):  # 7.0 is a whole number
            kind = "a whole number from 0 to 255" if whole else f"a number up to {LARGEST:g}"
            raise BadRowsError(f"{where}: expected {kind}, got {value!r:.40}.")
        return
    if not isinstance(value, list) or len(value) != shape[0]:
        found = f"{len(value)} values" if isinstance(value, list) else _kind(value)
        raise BadRowsError(f"{where}: expected {shape[0]} values, got {found}.")
    for j, each in enumerate(value):
        _check_numbers(each, shape[1:], f"{where}, column {j}", whole)


def _cells(column: Column, rows: list[dict[str, Any]]) -> pa.Array:
    read, kind = _reader(column)
    cells = []
    for i, row in enumerate(rows):
        if column.name not in row:
            raise BadRowsError(
                f"row {i}: column {column.name!r} is not there; write null where its value is missing."
            )
        value = row[column.name]
        try:
            cells.append(None if value is None else read(value))
        except (ValueError, TypeError, OverflowError) as error:
            raise BadRowsError(f"row {i}, column {column.name!r}: {error}") from None
    return pa.array(cells, kind)


def _reader(column: Column) -> tuple[Callable[[Any], Any], pa.DataType]:
    if isinstance(column, Date):
        return (_time, pa.time64("us")) if column.form == "time" else (_moment, pa.timestamp("us"))
    if isinstance(column, YesNo):
        return (lambda value: _word(value, column.pair)), pa.string()
    if isinstance(column, Category) or column.role == "text":
        return _word, pa.string()
    return _number, pa.float64()


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a number or null, got {value!r:.40}.")
    if abs(value) > LARGEST:
        raise ValueError(f"{value!r:.40} is beyond {LARGEST:g}.")
    return float(value)


def _word(value: Any, allowed: Sequence[str] | None = None) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string or null, got {value!r:.40}.")
    if allowed is not None and value.strip().lower() not in allowed:
        raise ValueError(f"expected {' or '.join(map(repr, allowed))}, got {value!r:.40}.")
    return value.encode("utf-8", "replace").decode()


def _moment(value: Any) -> datetime:
    return datetime.fromisoformat(_word(value)).replace(tzinfo=None)


def _time(value: Any) -> time:
    return time.fromisoformat(_word(value)).replace(tzinfo=None)


def _kind(value: Any) -> str:
    return {"dict": "an object", "list": "a list", "str": "a string", "NoneType": "null"}.get(
        type(value).__name__, f"{value!r:.40}"
    )
