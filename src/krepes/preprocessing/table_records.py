"""Rows of a table as records: the numbers of its encoded columns, then the values of columns as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from krepes.base.validation import check_columns
from krepes.preprocessing.column_values import family
from krepes.preprocessing.table_encoder import TableEncoder
from krepes.sources import Rows, TableSource, open_source


def table_records(batch: Rows, encoder: TableEncoder | None, raw: Sequence[str]) -> list[list[Any]]:
    """One list for every row.

    >>> table_records(pa.table({"review": ["good", None]}), None, ["review"])
    [['good'], ['']]
    """
    table = batch if isinstance(batch, pa.Table) else _table(batch)
    check_columns(raw, table.column_names, "the table")
    values = [_values(table.column(name), name) for name in raw]
    if encoder is None:
        return [list(row) for row in zip(*values)]
    return [[*numbers, *rest] for numbers, *rest in zip(encoder.encode(table).tolist(), *values)]


def _table(batch: Rows) -> pa.Table:
    source = open_source(batch)
    if not isinstance(source, TableSource):
        raise ValueError(f"This model compares the columns of a table by name; got {source.describe()}.")
    return pa.concat_tables([part for _, part in source.batches(max(1, source.n_rows))])


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    values = column.to_pylist()
    if family(kind) == "text":
        return ["" if value is None else value for value in values]
    if column.null_count:
        raise ValueError(
            f"Column {name!r} is compared as it is, and {column.null_count:,} of its values are missing. Fill them in "
            "or drop the rows first."
        )
    return values
