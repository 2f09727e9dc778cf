"""One scan of a table: the moments of its numbers, dates and times, and what its text says (`text_scan`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from copy import copy, deepcopy

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.rows import Rows
from krepes.base.storage.codec import State
from krepes.preprocessing.column_values import ColumnMoments, MomentTree, family, number_matrix
from krepes.preprocessing.text_scan import TextScan, number_words
from krepes.sources.row_sampling import PickedRows

_ID_NAME = re.compile(r"(row_?)?(id|index|idx)|uuid|guid|unnamed: \d+|__index_level_\d+__|", re.IGNORECASE)
EXACT = 2.0**53  # beyond which whole numbers cannot be told apart in float64: nobody measures so exactly
_ORDERED_ROWS = 20  # below this many rows increasing integers may be chance
Ends = tuple[int, int]  # the first and the last value of a column that increases; None where it does not
Scanned = tuple["ColumnScan", tuple[Rows, ...]]  # and picked rows


class ColumnScan:
    """Moments, levels and order of columns, over chunks of rows added one after the other.

    Parameters
    ----------
    schema : pyarrow schema
    as_text : names of columns that are read as text, whatever their type is.
    words : words for missing values, None for the usual ones.

    >>> scan = ColumnScan(pa.schema({"a": pa.float64(), "b": pa.string()}))
    >>> scan.add(pa.table({"a": [1.0, 3.0], "b": ["u", "v"]}))
    >>> scan.add(pa.table({"a": [5.0, None], "b": ["u", None]}))
    >>> scan.moments.mean.tolist(), scan.texts["b"].levels, scan.texts["b"].n_missing
    ([3.0], {'u': 2, 'v': 1}, 1)
    """

    def __init__(
        self, schema: pa.Schema, as_text: Collection[str] = (), words: Collection[str] | None = None
    ):
        kinds = {field.name: "text" if field.name in as_text else family(field.type) for field in schema}
        self.numbers = [name for name, kind in kinds.items() if kind in ("number", "date or time")]
        self.position = {name: j for j, name in enumerate(self.numbers)}
        self.tree = MomentTree(len(self.numbers))
        self.texts = {name: TextScan(words) for name, kind in kinds.items() if kind == "text"}
        self.sentinels = number_words(words)
        self.n_rows, self.n_chunks = 0, 0
        integers = [name for name in self.numbers if pt.is_integer(schema.field(name).type)]
        # of integers without a missing value; not None where each is larger than the one before
        self.ends: dict[str, Ends | None] = dict.fromkeys(integers, (2**64, -(2**64)))

    @property
    def moments(self) -> ColumnMoments:
        """Of the columns of numbers, dates and times."""
        return self.tree.total

    def add(self, table: pa.Table, place: int | None = None) -> None:
        """Add the chunk at this place, by default the next one."""
        place = self.n_chunks if place is None else place
        self.n_rows, self.n_chunks = self.n_rows + table.num_rows, self.n_chunks + 1
        numbers = number_matrix(table, self.numbers, self.sentinels)
        self.tree = self.tree.with_chunk(place, ColumnMoments.of(numbers))
        for name, ends in self.ends.items():
            self.ends[name] = _one_after_other(ends, _ends(table.column(name)))
        for name, scan in self.texts.items():
            scan.add(table.column(name), place)

    def joined(self, other: ColumnScan) -> ColumnScan:
        """What is known of the rows of both scans, in this order."""
        both = copy(self)
        both.n_rows, both.n_chunks = self.n_rows + other.n_rows, self.n_chunks + other.n_chunks
        both.tree = self.tree.joined(other.tree)
        both.ends = {name: _one_after_other(ends, other.ends[name]) for name, ends in self.ends.items()}
        both.texts = {name: scan.joined(other.texts[name]) for name, scan in self.texts.items()}
        return both

    @property
    def infinite(self) -> list[str]:
        """The columns that hold infinite values."""
        return [name for name, infinite in zip(self.numbers, self.moments.infinite) if infinite]


class TableScan(Accumulator[Scanned, tuple[ColumnScan, pa.Table]]):
    """One scan of a table, here or in the workers of a cluster: what its columns are like, and some of its rows.

    Parameters
    ----------
    empty : ColumnScan without rows, which says how to read the columns
    columns : names of the columns to scan; the picked rows have every column of the reader.
    picked : sorted indices of the rows to pick
    chunk_rows : rows that are scanned at once. Parts begin at multiples of it, so that the result has the same bits
        whoever adds up which of them.
    """

    def __init__(self, empty: ColumnScan, columns: Sequence[str], picked: np.ndarray, chunk_rows: int):
        self.empty_scan, self.columns, self.chunk_rows = empty, list(columns), chunk_rows
        self.rows = PickedRows(picked)
        super().__init__()

    @property
    def rows_at_once(self) -> int:
        return self.chunk_rows

    def zero(self) -> Scanned:
        return self.empty_scan, ()

    def plus(self, sums: Scanned, block: Block) -> Scanned:
        table = block.inputs[0]
        assert isinstance(table, pa.Table)
        chunk = deepcopy(self.empty_scan)
        chunk.add(table.select(self.columns), int(block.rows[0]) // self.chunk_rows)
        return sums[0].joined(chunk), self.rows.plus(sums[1], block)

    def joined(self, first: Scanned, second: Scanned) -> Scanned:
        return first[0].joined(second[0]), self.rows.joined(first[1], second[1])

    def value(self, sums: Scanned) -> tuple[ColumnScan, pa.Table]:
        rows = self.rows.value(sums[1])
        # a part of the table may have none of the picked rows
        return sums[0], rows if isinstance(rows, pa.Table) else pa.table({})

    def sums_state(self, sums: Scanned) -> State:
        return {"scan": sums[0], "rows": sums[1]}

    def sums_from(self, state: State) -> Scanned:
        return state["scan"], tuple(state["rows"])

    def value_from(self, state: State) -> tuple[ColumnScan, pa.Table]:
        return self.value(self.sums_from(state))


def _ends(column: pa.ChunkedArray) -> Ends | None:
    """The first and the last value of a column that increases."""
    values = column.to_numpy()
    if column.null_count or not (values[1:] > values[:-1]).all():
        return None
    return int(values[0]), int(values[-1])


def _one_after_other(first: Ends | None, second: Ends | None) -> Ends | None:
    """Of the values of both, which increase if they do in each, and from the first to the second.

    >>> _one_after_other((1, 3), (4, 9)), _one_after_other((1, 3), (3, 9))
    ((1, 9), None)
    """
    if first is None or second is None or second[0] <= first[1]:
        return None
    return min(first[0], second[0]), max(first[1], second[1])


def left_out(field: pa.Field, scan: ColumnScan, ids: bool) -> str | None:
    """Why a column cannot be a feature, whatever its cells say, or None. `ids`: whether it may be an id."""
    name, kind = field.name, family(field.type)
    if kind == "binary":
        return "binary data"
    if kind == "nested":
        remedy = "give each part a column, or the column a kernel on objects"
        return f"nested values, {field.type!s:.60}: {remedy}"
    if kind == "empty" or _present(name, scan) == 0:
        return "no value present"
    if ids and _ID_NAME.fullmatch(name) and (name in scan.ends or kind == "text"):
        return "an id or row number, by its name"
    if ids and scan.n_rows >= _ORDERED_ROWS and scan.ends.get(name) is not None:
        return "an id or row number: integers that increase with every row (as float it would be used)"
    if ids and name in scan.ends and _size(name, scan) > EXACT:
        return f"an id, by its {len(str(int(_size(name, scan))))} digits (as float it would be used)"
    return None


def _size(name: str, scan: ColumnScan) -> float:
    """The largest absolute value of a column."""
    j = scan.position[name]
    return max(-scan.moments.low[j], scan.moments.high[j])


def _present(name: str, scan: ColumnScan) -> int:
    if name in scan.texts:
        return scan.n_rows - scan.texts[name].n_missing
    return int(scan.moments.count[scan.position[name]])
