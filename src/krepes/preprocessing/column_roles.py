"""What each column of a table becomes, decided from what a scan has seen.

    number              numeric, standardised; a missing value is the median, with an indicator beside it
    date, time          date: how late it is, standardised, and the time of day, of the week and of the year as
                        (sin, cos), where the column spans more than one of them
    text, categorical   what its cells say (`text_reading`): numbers, dates, yes and no, running text; else
                        a category, one-hot: frequent levels, then rare, missing and unseen as separate levels

Ids, row numbers, near-unique text, binary, nested and empty columns are left out. The rules look at names and values
of the whole table, never at a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from krepes.base.caller_warning import warn
from krepes.base.column_scale import ColumnSample, column_samples
from krepes.preprocessing.cells.numbers import UNIT_FORMS
from krepes.preprocessing.column_encodings import (
    Column,
    boolean_column,
    category_column,
    date_column,
    numeric_column,
    text_column,
)
from krepes.preprocessing.column_scan import FORMS, ColumnScan, read_form
from krepes.preprocessing.column_values import family, number_matrix, text_chunks
from krepes.preprocessing.text_reading import as_levels, clear_forms, read_column, words_in

TARGET_NAMES = ("label", "target", "class", "y", "split")
_ID_NAME = re.compile(r"(row_?)?(id|index|idx)|uuid|guid|unnamed: \d+|__index_level_\d+__|", re.IGNORECASE)
_NINES = re.compile(r"-?9{3,}|-99")
EXACT = 2.0**53  # beyond which whole numbers cannot be told apart in float64: nobody measures so exactly
_ORDERED_ROWS = 20  # below this many rows increasing integers may be chance
# What a typed column may be asked to be.
_ALLOWED = {"number": ("number", "category"), "date or time": ("date", "category")}

Role = dict[str, Any]


class RoleChoice:
    """Chooses a role for every column of a table.

    Parameters
    ----------
    min_frequency, max_levels, columns : as in `TableEncoder`.
    ids : whether columns may be ids; those of an array are not.
    """

    def __init__(
        self, min_frequency: str | int | float, max_levels: int, ids: bool, columns: Mapping[str, str] = {}
    ):
        self.min_frequency, self.max_levels, self.ids, self.columns = min_frequency, max_levels, ids, columns

    def __call__(
        self, schema: pa.Schema, scan: ColumnScan, sample: pa.Table
    ) -> tuple[list[Column], list[Role]]:
        """The columns to use, with what encoding them needs, and the role of every column.

        `sample` is the rows that medians and the range of usual values are taken from.
        """
        samples = _samples(sample, scan)
        clear = clear_forms(scan.texts.values())
        columns: list[Column] = []
        roles: list[Role] = []
        for field in schema:
            reason = left_out(field, scan, self.ids and field.name not in self.columns)
            column: Column | None = None
            if reason is None and field.name in scan.texts:
                column, reason = self._text(field, scan, sample.column(field.name), clear)
            elif reason is None:
                column = self._typed(field, scan, samples[field.name])
            if column is None:
                roles.append({"column": field.name, "role": "left out", "detail": reason, "n_outputs": 0})
                continue
            roles.append({key: column[key] for key in ("column", "role", "detail", "n_outputs")})
            columns.append({key: value for key, value in column.items() if key != "detail"})
        return columns, roles

    def _typed(self, field: pa.Field, scan: ColumnScan, sample: ColumnSample) -> Column:
        """A column of numbers, dates or times."""
        kind, asked = family(field.type), self.columns.get(field.name)
        if asked is not None and asked not in _ALLOWED[kind]:
            raise ValueError(
                f"columns={{{field.name!r}: {asked!r}}}: the column holds {field.type}; it can be "
                f"{' or '.join(map(repr, _ALLOWED[kind]))}."
            )
        j = scan.position[field.name]
        value_type = field.type.value_type if pt.is_dictionary(field.type) else field.type
        if kind == "date or time" and not pt.is_duration(value_type):
            form = "time" if pt.is_time(value_type) else "year first"
            return date_column(field.name, scan.moments, j, sample, scan.n_rows, form)
        column = numeric_column(field.name, scan.moments, j, sample, scan.n_rows)
        warn_of_nines(field.name, sample.values)
        if pt.is_duration(value_type):
            column["detail"] = f"seconds: {column['detail']}"
        return column | ({"words": [f"{word:g}" for word in scan.sentinels]} if scan.sentinels else {})

    def _text(
        self, field: pa.Field, scan: ColumnScan, sample: pa.ChunkedArray, clear: set[str]
    ) -> tuple[Column | None, str | None]:
        """A column of text, by what its cells say; None and the reason where it is left out."""
        name, text = field.name, scan.texts[field.name]
        asked, cells = self.columns.get(name), _cells(sample)
        if pt.is_dictionary(field.type) and asked is None:
            reading = as_levels(text)
        else:
            reading = read_column(name, text, cells[:1000], asked, clear)
        if reading.warning:
            warn(reading.warning)
        if reading.kind == "left out":
            return None, reading.note
        custom = {} if text.words is None else {"words": list(text.words)}
        if reading.kind in ("number", "date"):
            j = FORMS.index(reading.form)
            numbers = read_form(cells, reading.form, text.words, text.unit)
            given = (name, text.moments, j, ColumnSample.of(numbers), scan.n_rows)
            if reading.kind == "number":
                warn_of_nines(name, given[3].values)
            column = date_column(*given, reading.form) if reading.kind == "date" else numeric_column(*given)
            column["detail"] = f"{reading.note}; {column['detail']}"
            unit = {"unit": text.unit} if reading.form in UNIT_FORMS else {}
            return column | {"form": reading.form, "tolerant": reading.tolerant} | unit | custom, None
        if reading.kind == "boolean":
            return boolean_column(name, text, reading.pair, scan.n_rows) | custom, None
        if reading.kind == "text":
            return text_column(name), None
        min_count = _min_count(self.min_frequency, scan.n_rows)
        return category_column(field, text, words_in(text), min_count, self.max_levels), None


def readable_columns(schema: pa.Schema) -> list[str]:
    """The columns whose values decide their role; all columns if there are no such columns."""
    unread = ("binary", "nested")
    readable = [field.name for field in schema if family(field.type) not in unread]
    return readable or schema.names


def left_out(field: pa.Field, scan: ColumnScan, ids: bool) -> str | None:
    """Why a column cannot be a feature, whatever its cells say, or None. `ids`: whether it may be an id."""
    name, kind = field.name, family(field.type)
    if kind == "binary":
        return "binary data"
    if kind == "nested":
        return (
            f"nested values, {field.type!s:.60}: give each part a column, or the column a kernel on objects"
        )
    if kind == "empty" or _present(name, scan) == 0:
        return "no value present"
    if ids and _ID_NAME.fullmatch(name) and (name in scan.ends or kind == "text"):
        return "an id or row number, by its name"
    if ids and scan.n_rows >= _ORDERED_ROWS and scan.strictly_increasing(name):
        return "an id or row number: integers that increase with every row (as float it would be used)"
    if ids and name in scan.ends and _size(name, scan) > EXACT:
        return f"an id, by its {len(str(int(_size(name, scan))))} digits (as float it would be used)"
    return None


def warn_of_nines(name: str, values: np.ndarray) -> None:
    """Warn of 999 or -9999 in several cells, far from all other values: most such cells say that a value is missing."""
    if not len(values):
        return
    ends = {float(end) for end in (values.min(), values.max()) if _NINES.fullmatch(f"{end:.15g}")}
    others = values[~np.isin(values, list(ends))]
    if not len(others) or not ends:
        return
    low, high = float(others.min()), float(others.max())
    counts = {end: int((values == end).sum()) for end in ends}
    far = {
        f"{end:g}"
        for end, n in counts.items()
        if n >= max(2, 0.001 * len(values)) and min(abs(end - low), abs(end - high)) > high - low > 0
    }
    if far:
        warn(
            f"Column {name!r} has {' and '.join(sorted(far))} in several cells, and all others lie between {low:g} and "
            f"{high:g}. If that means a missing value, name it with missing=."
        )


def _size(name: str, scan: ColumnScan) -> float:
    """The largest absolute value of a column."""
    j = scan.position[name]
    return max(-scan.moments.low[j], scan.moments.high[j])


def _present(name: str, scan: ColumnScan) -> int:
    if name in scan.texts:
        return scan.n_rows - scan.texts[name].n_missing
    return int(scan.moments.count[scan.position[name]])


def _samples(sample: pa.Table, scan: ColumnScan) -> dict[str, ColumnSample]:
    """The values of number columns that are there in a sample."""
    matrix = number_matrix(sample, scan.numbers, scan.sentinels)
    return dict(zip(scan.numbers, column_samples(matrix), strict=True))


def _cells(column: pa.ChunkedArray) -> list[str]:
    """The cells of a column of text that are there."""
    return [values[code] for codes, values in text_chunks(column) for code in codes.tolist() if code >= 0]


def _min_count(min_frequency: str | int | float, n_rows: int) -> float:
    if isinstance(min_frequency, str):
        return min(10, n_rows / 100)
    return min_frequency * n_rows if isinstance(min_frequency, float) else min_frequency
