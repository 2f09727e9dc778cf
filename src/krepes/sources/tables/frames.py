"""Tables in memory as sources: pandas, polars and pyarrow.

A frame is turned into pyarrow one batch at a time, so that there is never a second copy of it. pandas and polars are
not imported here: whoever gives a frame has imported its library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from krepes.base.rows import take_rows
from krepes.sources.source import (
    IndexedSource,
    TableSource,
    check_unique,
    conform,
    is_pandas,
    is_polars,
    plain_schema,
)

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Index = slice | np.ndarray
Part = Callable[[Any, pa.Schema, Index], pa.Table]  # (frame, wanted columns and types, rows) -> table


class FrameSource(IndexedSource, TableSource):
    """Rows of a frame, converted as they are read.

    Parameters
    ----------
    frame : the frame, kept as it is.
    schema : the pyarrow names and types of the columns to read.
    part : the function that converts some of its rows.
    paths : the file that it was read from, if any.

    >>> source = table_source(pa.table({"age": [39, 50], "sex": ["m", "f"]}))
    >>> source.describe(), source.select(["sex"]).take([1])["sex"].to_pylist()
    ('pyarrow table, 2 rows × 2 columns', ['f'])
    """

    def __init__(
        self, frame: Any, schema: pa.Schema, part: Part, description: str, paths: Sequence[Path] = ()
    ):
        super().__init__(paths)
        n_rows = len(frame)
        check_unique(schema.names, f"The {description}")
        if n_rows == 0 or len(schema) == 0:
            empty = f"0 {'sample' if n_rows == 0 else 'feature'}(s) (shape=({n_rows}, {len(schema)}))"
            raise ValueError(f"Found a {description} with {empty} while a minimum of 1 is required.")
        self.frame, self.n_rows, self.schema = frame, n_rows, schema
        self._part, self._description = part, description

    def _rows(self, which: Index) -> pa.Table:
        return self._part(self.frame, self.schema, which)

    def describe(self) -> str:
        return f"{self._description}, {self.n_rows:,} rows × {len(self.schema):,} columns"


def table_source(table: pa.Table) -> FrameSource:
    return FrameSource(table, plain_schema(table.schema), table_part, "pyarrow table")


def mapping_source(data: Mapping[str, Any]) -> FrameSource:
    """A mapping of column names to columns of one length, or to the values of one row."""
    if all(isinstance(value, str) or not hasattr(value, "__len__") for value in data.values()):
        data = {name: [value] for name, value in data.items()}
    columns = {}
    for name, values in data.items():
        try:
            columns[str(name)] = mixed_array(values)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(
                f"Column {name!r} cannot be read: {error}. Give each column as a list or an array of one type."
            ) from error
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The columns must have one length; got {lengths}.")
    return table_source(pa.table(columns))


def pandas_source(frame: pd.DataFrame) -> FrameSource:
    names = [str(name) for name in frame.columns]
    check_unique(names, "The pandas DataFrame")
    fields = [pa.field(name, _pandas_type(frame.iloc[:, j])) for j, name in enumerate(names)]
    return FrameSource(frame, pa.schema(fields), _pandas_part, "pandas DataFrame")


def polars_source(frame: pl.DataFrame) -> FrameSource:
    try:
        schema = plain_schema(frame.head(0).to_arrow().schema)
    except Exception as error:  # polars raises its own exceptions, which cannot be named without importing it
        types = ", ".join(f"{name}: {kind}" for name, kind in zip(frame.columns, frame.dtypes))
        raise ValueError(f"The polars DataFrame cannot be read: {error}. Its columns are {types}.") from error
    return FrameSource(frame, schema, _polars_part, "polars DataFrame")


def hugging_face_source(dataset: Any) -> FrameSource:
    """A dataset of the Hugging Face library, whose rows are Arrow data in a mapped file."""
    arrow = dataset.with_format("arrow")
    empty = pa.schema([(name, pa.null()) for name in arrow.column_names])
    schema = plain_schema(arrow[:0].schema) if len(arrow) else empty
    return FrameSource(arrow, schema, _hugging_face_part, "Hugging Face dataset")


def is_hugging_face(data: object) -> bool:
    """A dataset that gives parts of itself as Arrow tables; known by what it can do, without importing its library."""
    able = all(hasattr(data, name) for name in ("with_format", "features", "__getitem__"))
    return able and isinstance(getattr(data, "column_names", None), list)


def arrow_table(data: Any) -> pa.Table | None:
    """A frame, or Arrow data of a whole table, as a pyarrow table that shares its memory where it can; else None."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    source = pandas_source(data) if is_pandas(data) else polars_source(data) if is_polars(data) else None
    if source is not None:
        return next(source.batches(source.n_rows))[1]
    column = isinstance(data, pa.ChunkedArray) or type(data).__name__ == "Series"
    return pa.table(data) if hasattr(data, "__arrow_c_stream__") and not column else None


def table_part(table: pa.Table, schema: pa.Schema, index: Index) -> pa.Table:
    table = table.select(schema.names)
    if isinstance(index, slice):
        return conform(table.slice(index.start, index.stop - index.start), schema)
    return take_rows(conform(table, schema), index)


def _polars_part(frame: pl.DataFrame, schema: pa.Schema, index: Index) -> pa.Table:
    frame = frame.select(schema.names)
    rows = frame[index.start : index.stop] if isinstance(index, slice) else frame[index]
    return conform(rows.to_arrow(), schema)


def _hugging_face_part(dataset: Any, schema: pa.Schema, index: Index) -> pa.Table:
    rows = dataset[index.start : index.stop] if isinstance(index, slice) else dataset[index.tolist()]
    return conform(rows, schema)


def _pandas_part(frame: pd.DataFrame, schema: pa.Schema, index: Index) -> pa.Table:
    position = {str(name): j for j, name in enumerate(frame.columns)}
    columns = [_pandas_column(frame.iloc[index, position[field.name]], field.type) for field in schema]
    return pa.Table.from_arrays(columns, names=schema.names)


def _pandas_type(series: pd.Series) -> pa.DataType:
    """A column's type: from its dtype, or from all its values where the dtype says only "object"."""
    return _pandas_column(series if series.dtype == object else series.iloc[:0], None).type


def _pandas_column(series: pd.Series, kind: pa.DataType | None) -> pa.Array:
    try:
        return mixed_array(series, kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(
            f"Column {series.name!r} of the DataFrame (dtype {series.dtype}) cannot be read: {error}. It mixes "
            f"types; convert it, for example with frame[{series.name!r}].astype(str)."
        ) from error


def mixed_array(values: Iterable[object], kind: pa.DataType | None = None) -> pa.Array:
    """Values as an Arrow array; where numbers and text are mixed, numbers if all can be read as such, else text.

    >>> mixed_array([1, "2", None]).to_pylist(), mixed_array([1, "x", 2.0]).to_pylist()
    ([1.0, 2.0, None], ['1', 'x', '2'])
    """
    try:
        return pa.array(values, type=kind, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        cells = [None if value is None or value != value else value for value in values]
        if not all(isinstance(cell, str | int | float | np.number | np.bool_ | None) for cell in cells):
            raise
    text = pa.array([None if cell is None else _written(cell) for cell in cells], pa.string())
    if kind is not None:
        return text.cast(kind)
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        return text


def _written(cell: object) -> str:
    """A cell as text; whole numbers without a point."""
    return str(cell).removesuffix(".0") if isinstance(cell, float | np.floating) else str(cell)
