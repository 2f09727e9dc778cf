"""What one scan learns about the columns of a table.

Numbers, dates and times: their moments (`column_moments`). Text: how often each value occurs, exactly, up to
`MAX_DISTINCT` values (a column with more is not a category), and for each form of numbers and dates that people write
(`cells`) how many cells have it and the moments of what they say. So the form is decided by the whole column, after
one pass. Cells are read once per chunk for each distinct value. Cost O(n d), memory O(chunk + levels).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.codec import State
from krepes.base.rows import Rows
from krepes.preprocessing.cells.dates import DATE_FORMS, read_dates
from krepes.preprocessing.cells.numbers import (
    HAS_UNIT,
    NUMBER_FORMS,
    UNIT_FORMS,
    common_unit,
    read_numbers,
    read_with_unit,
    units_of,
)
from krepes.preprocessing.cells.words import MORE_MISSING, folded, words_of
from krepes.preprocessing.column_moments import ColumnMoments, MomentTree
from krepes.preprocessing.column_values import family, number_matrix, text_chunks
from krepes.sources.row_sampling import PickedRows

MAX_DISTINCT = 100_000
FORMS = (*NUMBER_FORMS, *DATE_FORMS, *UNIT_FORMS)
MANY_UNITS = 20
Ends = tuple[int, int]  # the first and the last value of a column that increases; None where it does not
Scanned = tuple["ColumnScan", tuple[Rows, ...]]  # and picked rows
_LIKE_A_VALUE = r"^.{0,60}$"  # and a digit: what may be a number or a date


class TextScan:
    """What the cells of a text column say.

    Parameters
    ----------
    words : words for missing values, None for the usual ones.

    >>> scan = TextScan()
    >>> scan.add(pa.chunked_array([["1,5", "2,5", "-", None]]), 4)
    >>> scan.moments.count.tolist(), scan.moments.mean.tolist()[1], scan.n_missing, scan.unread("decimal comma")
    ([0, 2, 0, 0, 0, 0, 0, 2], 2.0, 1, [])
    """

    def __init__(self, words: Collection[str] | None = None):
        self.words = words
        self.levels: dict[str, int] | None = {}  # None: too many
        self.n_missing = 0  # cells without a value
        self.n_words = 0  # cells with a word for a missing value
        self.n_whole, self.n_coded = 0, 0  # digits only; digits that begin with a zero, as codes do
        self.n_spelled = 0  # words of two letters or more
        self.n_cells = 0  # of text
        self.units: set[str] = set()  # words behind numbers; no more are kept than say that they differ
        self.tree = MomentTree(len(FORMS))

    @property
    def moments(self) -> ColumnMoments:
        """Of what the cells say in every form."""
        return self.tree.total

    def add(self, column: pa.ChunkedArray, n_rows: int, place: int = 0) -> None:
        """Add the cells of the chunk at this place."""
        read = np.full((len(FORMS), n_rows), np.nan)
        first = 0
        for codes, values in text_chunks(column):
            present = codes >= 0
            counts = np.bincount(codes[present], minlength=len(values))
            self._count(values, counts, int((~present).sum()))
            self._count_levels(zip(values, counts.tolist()))
            forms = read_forms(values, self.words)
            self._add_units(values, forms)
            for j, numbers in enumerate(forms):
                if numbers is not None:
                    read[j, first : first + len(codes)] = np.append(numbers, np.nan)[codes]
            first += len(codes)
        empty = ColumnMoments(len(FORMS))
        self.tree = self.tree.with_chunk(place, empty if np.isnan(read).all() else ColumnMoments.of(read))

    def joined(self, other: TextScan) -> TextScan:
        """What the cells of both scans say, in this order."""
        both = TextScan(self.words)
        for name in ("n_missing", "n_words", "n_whole", "n_coded", "n_spelled", "n_cells"):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        both.units = self.units | other.units
        both.tree = self.tree.joined(other.tree)
        both.levels = None if self.levels is None or other.levels is None else dict(self.levels)
        if other.levels is not None:
            both._count_levels(other.levels.items())
        return both

    @property
    def unit(self) -> str | None:
        """The unit of the numbers; None where there is none, or where there are several."""
        return common_unit(self.units) if self.units else None

    def _add_units(self, values: list[str], forms: list[np.ndarray | None]) -> None:
        read = [forms[FORMS.index(form)] for form in UNIT_FORMS]
        known = [numbers for numbers in read if numbers is not None]
        if not known or len(self.units) > MANY_UNITS:
            return
        places = np.flatnonzero(~np.isnan(np.array(known)).all(axis=0))
        found = units_of(pa.array([values[i] for i in places], pa.string()))
        self.units |= {unit for unit in found if unit is not None}

    @property
    def n_said(self) -> int:
        """Cells that say something."""
        return self.n_cells - self.n_words

    def count(self, form: str) -> int:
        """Cells of this form; none have the form ""."""
        return int(self.moments.count[FORMS.index(form)]) if form else 0

    def share(self, form: str) -> float:
        """The share of a form among the cells that say something."""
        return self.count(form) / max(1, self.n_said)

    def alike(self, form: str, other: str) -> bool:
        """Whether every cell of one form has the other too, with another meaning."""
        mean, other_mean = (self.moments.mean[FORMS.index(each)] for each in (form, other))
        return self.count(form) == self.count(other) and mean != other_mean

    @property
    def missing_words(self) -> list[str]:
        """The words for missing values in this column."""
        return words_of(self.levels) if self.words is None else ["", *self.words]

    @property
    def n_missing_levels(self) -> int:
        """Cells whose level is a word for a missing value."""
        words = set(self.missing_words)
        return sum(n for level, n in (self.levels or {}).items() if level.strip() in words)

    @property
    def values(self) -> list[str]:
        """The levels that are values; none where there are too many to keep."""
        words = set(self.missing_words)
        return [level for level in self.levels or () if level.strip() not in words]

    def unread(self, form: str, sample: Sequence[str] = ()) -> list[str]:
        """Values that are not of a form, most frequent first; of a sample where there are too many levels to keep."""
        levels = self.levels
        cells = [cell for cell in levels or sample if not is_missing_number(cell, self.words)]
        numbers = read_form(cells, form, self.words, self.unit)
        found = [cell for cell, number in zip(cells, numbers) if np.isnan(number)]
        return found if levels is None else sorted(found, key=lambda cell: -levels[cell])

    def _count(self, values: list[str], counts: np.ndarray, n_missing: int) -> None:
        text = pa.array(values, pa.string())
        self.n_cells += int(counts.sum())
        self.n_missing += n_missing
        self.n_words += int(counts[[is_missing_number(value, self.words) for value in values]].sum())
        self.n_whole += int(counts @ _matches(text, r"^\d+$"))
        self.n_coded += int(counts @ _matches(text, r"^0\d+$"))
        self.n_spelled += int(counts @ np.asarray(pc.count_substring_regex(text, r"\p{L}{2,}")))

    def _count_levels(self, counted: Iterable[tuple[str, int]]) -> None:
        if self.levels is None:
            return
        for value, n in counted:
            if n:
                value = value.strip()  # spaces around a level are nothing that anybody means
                self.levels[value] = self.levels.get(value, 0) + n
        if len(self.levels) > MAX_DISTINCT:
            self.levels = None


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
            scan.add(table.column(name), table.num_rows, place)

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

    def strictly_increasing(self, name: str) -> bool:
        """Whether an integer column has no missing value and every value is larger than the one before."""
        return self.ends.get(name) is not None


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
        chunk = self.empty_scan.joined(self.empty_scan)  # a copy
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


def is_missing_number(cell: str, words: Collection[str] | None) -> bool:
    """Whether a cell in a column of numbers or dates says that a value is missing."""
    if words is None:
        return folded(cell) in MORE_MISSING
    return not cell.strip() or cell.strip() in words


def number_words(words: Collection[str] | None) -> list[float]:
    """Words for missing values that are numbers, such as -999."""
    found = read_numbers(pa.array(list(words or ()), pa.string()), "decimal point")
    return found[~np.isnan(found)].tolist()


def read_form(
    cells: list[str], form: str, words: Collection[str] | None, unit: str | None = None
) -> np.ndarray:
    """Cells as numbers, or as seconds; NaN where they are not of this form, or a word for a missing value."""
    text = pa.array(cells, pa.string())
    if form in UNIT_FORMS:
        numbers = read_with_unit(text, form, unit)
    else:
        numbers = read_dates(text, form) if form in DATE_FORMS else read_numbers(text, form)
    if words:
        numbers[[is_missing_number(cell, words) for cell in cells]] = np.nan
    return numbers


def read_forms(cells: list[str], words: Collection[str] | None) -> list[np.ndarray | None]:
    """Cells in every form; None for forms that no cell has."""
    text = pa.array(cells, pa.string())
    if not (_matches(text, _LIKE_A_VALUE) & _matches(text, r"\d")).any():
        return [None] * len(FORMS)
    found = [read_form(cells, form, words) for form in FORMS[: -len(UNIT_FORMS)]]
    if _matches(text, HAS_UNIT).any():
        found += [read_form(cells, form, words) for form in UNIT_FORMS]
    else:
        found += found[: len(NUMBER_FORMS)]
    return [None if np.isnan(numbers).all() else numbers for numbers in found]


def _matches(text: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(text, pattern).to_numpy(zero_copy_only=False)
