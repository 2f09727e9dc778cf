"""What a kernel may know of the rows that it will compare: their kind, their width, the columns of a table in them.

kind            rows
vectors         (d,)
sparse          (d,), mostly zeros
images          (h, w[, c])
table           (d,), where each column of the table has become one number or several
series          (t, c); tensors (t_i, c) where lengths differ
precomputed     (1 + n,), a row of a kernel matrix after its number
objects         anything; of a table, records: encoded numbers, then columns as they are
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True)
class EncodedColumn:
    """Where the numbers of one column of a table are in an encoded row.

    Attributes
    ----------
    name : str
    kind : "number", "category" or "point"
        A point is a vector of length 1: a place on a circle, a text.
    places : tuple of int
        All numbers of the column.
    values : tuple of int
        The places to compare: without indicators of missing values, and of a date only how late it is.
    missing : int or None
        The place that is 1 where the value is missing.
    """

    name: str
    kind: Literal["number", "category", "point"]
    places: tuple[int, ...]
    values: tuple[int, ...]
    missing: int | None = None

    def moved(self, by: int) -> EncodedColumn:
        """The same column, its numbers this many places further on."""
        places, values = (tuple(place + by for place in each) for each in (self.places, self.values))
        return replace(
            self, places=places, values=values, missing=None if self.missing is None else self.missing + by
        )


@dataclass(frozen=True)
class RowLayout:
    """The kind of rows, and where things are in them.

    Attributes
    ----------
    kind : str
    width : int or None
        Numbers in a row; None for objects and for series of different lengths.
    columns : tuple of EncodedColumn
        The columns of an encoded table, in their order.
    names : tuple of str
        All columns of the table, used or not.
    raw : tuple of str
        Columns of the table that come as they are, after the encoded numbers.
    left_out : mapping of str to str
        Why a column of the table is not encoded; columns that were excluded are not in it.
    """

    kind: str
    width: int | None = None
    columns: tuple[EncodedColumn, ...] = ()
    names: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_categories(self) -> bool:
        """Whether the rows are a table whose columns are all categories."""
        return bool(self.columns) and all(column.kind == "category" for column in self.columns)

    def part(self, names: Sequence[str]) -> RowLayout:
        """Rows of these columns of an encoded table alone."""
        kept: list[EncodedColumn] = []
        width = 0
        for column in self.columns:
            if column.name in names:
                kept.append(column.moved(width - column.places[0]))
                width += len(column.places)
        return RowLayout("table", width, tuple(kept), tuple(names))
