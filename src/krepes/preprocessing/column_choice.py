"""Which kind of column each column of a table is, decided from what a scan has seen.

    number              `Number`
    date, time          `Date`
    text, categorical   what its cells say (`text_reading`): `Number`, `Date`, `YesNo`, `Text`, else `Category`
    anything else       `LeftOut`: ids, row numbers, near-unique text, binary, nested and empty columns

The rules look at names and values of the whole table, in one scan. skrub's TableVectorizer decides alike, but for a
frame in memory: a file larger than that must give the same columns as the frame it was written from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from krepes.base.column_scale import ColumnSample, column_samples
from krepes.base.reporting import warn
from krepes.preprocessing.cells.numbers import UNIT_FORMS
from krepes.preprocessing.column_scan import FORMS, ColumnScan, read_form
from krepes.preprocessing.column_values import family, number_matrix, text_chunks
from krepes.preprocessing.columns import Category, Column, Date, LeftOut, Number, Text, YesNo
from krepes.preprocessing.text_reading import as_levels, clear_forms, read_column

TARGET_NAMES = ("label", "target", "class", "y", "split")
_ID_NAME = re.compile(r"(row_?)?(id|index|idx)|uuid|guid|unnamed: \d+|__index_level_\d+__|", re.IGNORECASE)
_NINES = re.compile(r"-?9{3,}|-99")
EXACT = 2.0**53  # beyond which whole numbers cannot be told apart in float64: nobody measures so exactly
_ORDERED_ROWS = 20  # below this many rows increasing integers may be chance
# What a typed column may be asked to be.
_ALLOWED = {"number": ("number", "category"), "date or time": ("date", "category")}


@dataclass(frozen=True)
class ColumnChoice:
    """Chooses the columns of a table.

    Parameters
    ----------
    min_frequency, max_levels, columns : as in `TableEncoder`.
    ids : whether columns may be ids; columns of an array are not.
    """

    min_frequency: str | int | float
    max_levels: int
    ids: bool
    columns: Mapping[str, str]

    def __call__(self, schema: pa.Schema, scan: ColumnScan, sample: pa.Table) -> list[Column]:
        """Every column of a table; `sample` is the rows that medians and usual ranges are taken from."""
        matrix = number_matrix(sample, scan.numbers, scan.sentinels)
        samples = dict(zip(scan.numbers, column_samples(matrix), strict=True))
        clear = clear_forms(scan.texts.values())
        found: list[Column] = []
        for field in schema:
            reason = left_out(field, scan, self.ids and field.name not in self.columns)
            if reason is not None:
                found.append(LeftOut(field.name, reason))
            elif field.name in scan.texts:
                found.append(self._of_text(field, scan, sample.column(field.name), clear))
            else:
                found.append(self._typed(field, scan, samples[field.name]))
        return found

    def _typed(self, field: pa.Field, scan: ColumnScan, sample: ColumnSample) -> Column:
        """A column of numbers, dates or times."""
        kind, asked = family(field.type), self.columns.get(field.name)
        if asked is not None and asked not in _ALLOWED[kind]:
            holds = f"the column holds {field.type}; it can be {' or '.join(map(repr, _ALLOWED[kind]))}"
            raise ValueError(f"columns={{{field.name!r}: {asked!r}}}: {holds}.")
        given = (field.name, scan.moments, scan.position[field.name], sample, scan.n_rows)
        value_type = field.type.value_type if pt.is_dictionary(field.type) else field.type
        duration = pt.is_duration(value_type)
        if kind == "date or time" and not duration:
            return Date.of_seconds(*given, form="time" if pt.is_time(value_type) else "year first")
        warn_of_nines(field.name, sample.values)
        column = Number.learned(*given)
        words = [f"{word:g}" for word in scan.sentinels] or None
        return replace(column.noted("seconds", ": ") if duration else column, words=words)

    def _of_text(self, field: pa.Field, scan: ColumnScan, sample: pa.ChunkedArray, clear: set[str]) -> Column:
        """A column of text, by what its cells say."""
        name, text = field.name, scan.texts[field.name]
        asked, cells = self.columns.get(name), _cells(sample)
        if pt.is_dictionary(field.type) and asked is None:
            reading = as_levels(text)
        else:
            reading = read_column(name, text, cells[:1000], asked, clear)
        if reading.warning:
            warn(reading.warning)
        words = None if text.words is None else list(text.words)
        if reading.kind is LeftOut:
            return LeftOut(name, reading.note)
        if reading.kind is Text:
            return Text.learned(name)
        if reading.kind is YesNo:
            return replace(YesNo.of_words(name, text, reading.pair, scan.n_rows), words=words)
        if reading.kind is Category:
            least = _least_count(self.min_frequency, scan.n_rows)
            return Category.learned(field, text, text.missing_words, least, self.max_levels)
        numbers = ColumnSample.of(read_form(cells, reading.form, text.words, text.unit))
        given = (name, text.moments, FORMS.index(reading.form), numbers, scan.n_rows)
        if reading.kind is Date:
            column: Date | Number = Date.of_seconds(*given, form=reading.form)
        else:
            warn_of_nines(name, numbers.values)
            column = Number.learned(*given)
        return replace(
            column.noted(reading.note),
            form=reading.form,
            from_text=True,
            tolerant=reading.tolerant,
            words=words,
            unit=text.unit if reading.form in UNIT_FORMS else None,
        )


def readable_columns(schema: pa.Schema) -> list[str]:
    """The columns whose values decide their role; all columns if there are no such columns."""
    readable = [field.name for field in schema if family(field.type) not in ("binary", "nested")]
    return readable or schema.names


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


def _cells(column: pa.ChunkedArray) -> list[str]:
    """The cells of a column of text that are there."""
    return [values[code] for codes, values in text_chunks(column) for code in codes.tolist() if code >= 0]


def _least_count(min_frequency: str | int | float, n_rows: int) -> float:
    if isinstance(min_frequency, str):
        return min(10, n_rows / 100)
    return min_frequency * n_rows if isinstance(min_frequency, float) else min_frequency
