"""What one scan learns about the columns of a table.

Numbers, dates and times: their moments (`column_moments`). Text: how often each value occurs, exactly, up to
`MAX_DISTINCT` values (a column with more is not a category), and for each form of numbers and dates that people write
(`cells`) how many cells have it and the moments of what they say. So the form is decided by the whole column, after
one pass. Cells are read once per chunk for each distinct value. Cost O(n d), memory O(chunk + levels).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

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
from krepes.preprocessing.cells.words import MORE_MISSING, folded
from krepes.preprocessing.column_moments import ColumnMoments
from krepes.preprocessing.column_values import family, number_matrix, text_chunks

MAX_DISTINCT = 100_000
FORMS = (*NUMBER_FORMS, *DATE_FORMS, *UNIT_FORMS)
MANY_UNITS = 20
_LIKE_A_VALUE = r"^.{0,60}$"  # and a digit: what may be a number or a date


class TextScan:
    """What the cells of a text column say.

    Parameters
    ----------
    words : words for missing values, None for the usual ones.

    >>> scan = TextScan()
    >>> scan.add(pa.chunked_array([["1,5", "2,5", "-", None]]), 4)
    >>> scan.moments.count.tolist(), scan.moments.mean.tolist()[1], scan.n_missing, scan.unread("decimal comma")
    ([0, 2, 0, 0, 0, 0, 0, 2], 2.0, 1, {})
    """

    def __init__(self, words: Collection[str] | None = None):
        self.words = words
        self.levels: dict[str, int] | None = {}  # None: too many
        self.n_missing = 0  # cells without a value
        self.n_words = 0  # cells with a word for a missing value
        self.n_whole, self.n_coded = 0, 0  # digits only; among them those that begin with a zero, as codes do
        self.n_spelled = 0  # words of two letters or more
        self.n_cells = 0  # of text
        self.units: set[str] = set()  # words behind numbers; no more are kept than say that they differ
        self.moments = ColumnMoments(len(FORMS))

    def add(self, column: pa.ChunkedArray, n_rows: int) -> None:
        read = np.full((len(FORMS), n_rows), np.nan)
        first = 0
        for codes, values in text_chunks(column):
            present = codes >= 0
            counts = np.bincount(codes[present], minlength=len(values))
            self._count(values, counts, int((~present).sum()))
            self._add_levels(values, counts)
            forms = read_forms(values, self.words)
            self._add_units(values, forms)
            for j, numbers in enumerate(forms):
                if numbers is not None:
                    read[j, first : first + len(codes)] = np.append(numbers, np.nan)[codes]
            first += len(codes)
        if not np.isnan(read).all():
            self.moments.add(read)

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

    def unread(self, form: str) -> dict[str, int]:
        """The cells that are neither of a form nor words for missing values, of the levels that are known."""
        values = list(self.levels or {})
        numbers = read_form(values, form, self.words, self.unit)
        return {
            value: (self.levels or {})[value]
            for value, number in zip(values, numbers)
            if np.isnan(number) and not is_missing_number(value, self.words)
        }

    def _count(self, values: list[str], counts: np.ndarray, n_missing: int) -> None:
        text = pa.array(values, pa.string())
        self.n_cells += int(counts.sum())
        self.n_missing += n_missing
        self.n_words += int(counts[[is_missing_number(value, self.words) for value in values]].sum())
        self.n_whole += int(counts @ _matches(text, r"^\d+$"))
        self.n_coded += int(counts @ _matches(text, r"^0\d+$"))
        self.n_spelled += int(
            counts @ pc.count_substring_regex(text, r"\p{L}{2,}").to_numpy(zero_copy_only=False)
        )

    def _add_levels(self, values: list[str], counts: np.ndarray) -> None:
        if self.levels is None:
            return
        for value, n in zip(values, counts.tolist()):
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
        self.moments = ColumnMoments(len(self.numbers))
        self.texts = {name: TextScan(words) for name, kind in kinds.items() if kind == "text"}
        self.sentinels = number_words(words)
        self.n_rows = 0
        integers = [name for name in self.numbers if pt.is_integer(schema.field(name).type)]
        self.last: dict[str, int | None] = dict.fromkeys(integers, -(2**64))  # None: not increasing

    def add(self, table: pa.Table) -> None:
        self.n_rows += table.num_rows
        self.moments.add(number_matrix(table, self.numbers, self.sentinels))
        for name in self.last:
            self._add_order(name, table.column(name))
        for name, scan in self.texts.items():
            scan.add(table.column(name), table.num_rows)

    @property
    def infinite(self) -> list[str]:
        """The columns that hold infinite values."""
        return [name for name, infinite in zip(self.numbers, self.moments.infinite) if infinite]

    def strictly_increasing(self, name: str) -> bool:
        """Whether an integer column has no missing value and every value is larger than the one before."""
        return self.last.get(name) is not None

    def _add_order(self, name: str, column: pa.ChunkedArray) -> None:
        last = self.last[name]
        if last is None:
            return
        values = column.to_numpy()
        if column.null_count or int(values[0]) <= last or not (values[1:] > values[:-1]).all():
            self.last[name] = None
        else:
            self.last[name] = int(values[-1])


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
