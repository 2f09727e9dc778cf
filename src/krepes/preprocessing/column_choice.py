"""Which kind of column each column of a table is, decided from what a scan has seen.

    number                                            `Number`
    date, time                                        `Date`
    text, categorical:
      two words for yes and no                        `YesNo`, 1 and 0
      90 % of the cells are numbers or dates          these, in the form that most cells have; the others are missing
      at most half as many values as rows             `Category`
      four words or more in a cell                    `Text`, running text
    anything else                                     `LeftOut`: ids, near-unique text, binary, nested, empty columns

Codes are not numbers: digits that begin with a zero, and text that is digits throughout, which somebody has made text,
because a file would have been read as numbers. A few cells that are no numbers make a category of a column with few
values ("1", "2", "3 or more"). Cells that fit two forms equally (1,234; 03/04/2022) are read as other columns of the
table are, then with a decimal point and with the day first.

The rules look at names and values of the whole table, in one scan. skrub's TableVectorizer decides alike, but for a
frame in memory: a file larger than that must give the same columns as the frame it was written from.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from krepes.base.column_scale import ColumnSample, column_samples
from krepes.base.reporting import warn
from krepes.preprocessing.cells.dates import DATE_FORMS
from krepes.preprocessing.cells.numbers import NUMBER_FORMS, UNIT_FORMS
from krepes.preprocessing.column_scan import ColumnScan, left_out
from krepes.preprocessing.column_values import family, number_matrix, text_chunks
from krepes.preprocessing.columns import Category, Column, Date, LeftOut, Number, Text, YesNo
from krepes.preprocessing.text_scan import FORMS, MAX_DISTINCT, TextScan, folded, read_form, yes_and_no

TARGET_NAMES = ("label", "target", "class", "y", "split")
_NINES = re.compile(r"-?9{3,}|-99")
# What a typed column may be asked to be.
_ALLOWED = {"number": ("number", "category"), "date or time": ("date", "category")}
MOSTLY = 0.9  # of the cells have a form
FEW_VALUES = 20  # that stay a category if some are no numbers
FEW_UNITS = 5  # that cells of one column may have; more are words
DISTINCT = 10  # at most this many values are levels, even if every row has its own
RUNNING_WORDS = 4  # in a cell, on average
KINDS = {
    "number": (*NUMBER_FORMS, *UNIT_FORMS),
    "decimal point": (NUMBER_FORMS[0], UNIT_FORMS[0]),
    "decimal comma": (NUMBER_FORMS[1], UNIT_FORMS[1]),
    "date": DATE_FORMS,
    "day first": ("day first",),
    "month first": ("month first",),
    "boolean": (),
    "category": (),
    "text": (),
}
_RIVALS = {"decimal point": "decimal comma", "day first": "month first", UNIT_FORMS[0]: UNIT_FORMS[1]}
_RIVALS |= {other: form for form, other in _RIVALS.items()}


@dataclass(frozen=True)
class TextReading:
    """What a column is, and what to say of it."""

    kind: type[Column]
    form: str = ""
    note: str = ""  # the reason where it is left out
    warning: str = ""
    tolerant: bool = False  # some cells could not be read
    pair: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class ColumnChoice:
    """Chooses the columns of a table.

    Parameters
    ----------
    min_frequency, max_levels, columns, tails : as in `TableEncoder`.
    ids : whether columns may be ids; columns of an array are not.
    """

    min_frequency: str | int | float
    max_levels: int
    ids: bool
    columns: Mapping[str, str]
    tails: str

    def __call__(self, schema: pa.Schema, scan: ColumnScan, sample: pa.Table) -> list[Column]:
        """Every column of a table; `sample` is the rows that medians and usual ranges are taken from."""
        matrix = number_matrix(sample, scan.numbers, scan.sentinels)
        samples = dict(zip(scan.numbers, column_samples(matrix), strict=True))
        clear = _clear_forms(scan.texts.values())
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
        column = Number.learned(*given).with_tails(sample, self.tails)
        if scan.sentinels:
            column = replace(column, words=[f"{word:g}" for word in scan.sentinels])
        return column.noted("seconds", ": ") if duration else column

    def _of_text(self, field: pa.Field, scan: ColumnScan, sample: pa.ChunkedArray, clear: set[str]) -> Column:
        """A column of text, by what its cells say."""
        name, text = field.name, scan.texts[field.name]
        asked = self.columns.get(name)
        if pt.is_dictionary(field.type) and asked is None:
            reading = _as_levels(text, text.values)
        else:
            reading = read_column(name, text, sample, asked, clear)
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
            return Category.learned(field, text, least, self.max_levels)
        numbers = ColumnSample.of(read_form(_cells(sample), reading.form, text.words, text.unit))
        given = (name, text.moments, FORMS.index(reading.form), numbers, scan.n_rows)
        if reading.kind is Date:
            column: Date | Number = Date.of_seconds(*given, form=reading.form)
        else:
            warn_of_nines(name, numbers.values)
            column = Number.learned(*given).with_tails(numbers, self.tails)
        return replace(
            column.noted(reading.note),
            form=reading.form,
            from_text=True,
            tolerant=reading.tolerant,
            words=words,
            unit=text.unit if reading.form in UNIT_FORMS else None,
        )


def _clear_forms(scans: Collection[TextScan]) -> set[str]:
    """The forms that some column has and could not have in another."""
    clear = set()
    for scan in scans:
        form = scan.best_form()
        if form and scan.share(form) >= MOSTLY and scan.count(form) > scan.count(_RIVALS.get(form, "")):
            clear.add(form)
    return clear


def read_column(
    name: str, scan: TextScan, cells: pa.ChunkedArray, asked: str | None, clear: Collection[str]
) -> TextReading:
    """Decide for one column.

    `asked` is one of KINDS, if somebody has decided already; `clear` the forms of other columns.
    """
    if asked in ("category", "text"):
        return TextReading(Category if asked == "category" else Text)
    if asked == "boolean":
        return TextReading(YesNo, pair=_two_levels(name, scan))
    values = scan.values
    if not asked and (pair := yes_and_no(values)):
        return TextReading(YesNo, pair=pair)
    form = scan.best_form(KINDS[asked] if asked else FORMS, clear)
    sample = _cells(cells)[:1000] if form or asked else []
    if asked and not form:
        raise ValueError(f"columns={{{name!r}: {asked!r}}}: no cell of the column is one{_such(sample)}.")
    code = _is_code(scan, form, values)
    if form and (asked or (scan.share(form) >= MOSTLY and not code)):
        return _in_form(name, scan, form, sample, clear, bool(asked))
    reading = _as_levels(scan, values)
    if reading.kind is LeftOut and (several := _several_units(name, scan, reading)):
        return replace(reading, warning=several)
    if reading.kind is LeftOut and code and scan.n_coded:
        return replace(reading, note=reading.note.replace("near-unique text", "codes that begin with zeros"))
    if scan.share(form) >= 0.5 and not (reading.kind is Category and len(values) <= FEW_VALUES):
        return replace(reading, warning=_unused(name, scan, form, sample, reading))
    return reading


def _as_levels(scan: TextScan, values: Mapping[str, int]) -> TextReading:
    """A category, running text, or nothing."""
    n_values = len(values)
    n_present = scan.n_cells if scan.levels is None else sum(values.values())
    if n_present == 0:
        return TextReading(LeftOut, note="no value present")
    if scan.levels is not None and n_values <= max(DISTINCT, n_present / 2):
        return TextReading(Category)
    if scan.n_spelled >= RUNNING_WORDS * n_present:
        return TextReading(Text)
    if scan.levels is None:
        return TextReading(LeftOut, note=f"near-unique text: more than {MAX_DISTINCT:,} different values")
    return TextReading(LeftOut, note=f"near-unique text: {n_values:,} different values in {n_present:,} rows")


def _in_form(
    name: str, scan: TextScan, form: str, sample: Sequence[str], clear: Collection[str], asked: bool
) -> TextReading:
    """Numbers or dates in one form; cells in other forms are missing."""
    date = form in DATE_FORMS
    note, warning = _words(form, scan), ""
    if not date and any(re.match(r"\s*[<>≤≥]", cell) for cell in scan.levels or sample):
        note += ", < and > as the number behind"
    rival = _RIVALS.get(form, "")
    if not asked and rival and scan.alike(form, rival):
        if form in clear:
            note += ", as in other columns"
        elif not _usual(form, sample):
            note += f" (or {rival})"
            warning = (
                f"Column {name!r} is read with {form if date else 'a ' + form}, but every cell could also be "
                f"{rival if date else 'one with a ' + rival}{_such(sample)}. Say which: "
                f"columns={{{name!r}: {form!r}}} or {{{name!r}: {rival!r}}}."
            )
    n_unread = scan.n_said - scan.count(form)
    if n_unread:
        note += f", {n_unread:,} unreadable cell{'s' * (n_unread > 1)} as missing"
        warning = (
            f"Column {name!r} is mostly {_plural(form)} ({form}), but {n_unread:,} of {scan.n_said:,} cells are not"
            f"{_such(scan.unread(form, sample))}. They are taken as missing. Correct them, name words for missing "
            f"values with missing=, or use the column in another way: columns={{{name!r}: 'category'}}."
        )
    return TextReading(Date if date else Number, form, note, warning, tolerant=n_unread > 0)


def _words(form: str, scan: TextScan) -> str:
    """A form in the words of the table of roles: `decimal point, in kg`."""
    if form not in UNIT_FORMS:
        return form
    unit = "K, M, ... multiplied out" if scan.unit == "" else f"in {scan.unit}"
    return f"{form.removesuffix(' with a unit')}, {unit}"


def _usual(form: str, sample: Sequence[str]) -> bool:
    """Whether cells that fit two forms leave no doubt: 3.4.2022 has the day first, 1.234 is no thousand."""
    if form.startswith("decimal point"):
        return not any("," in cell for cell in sample)
    return all(re.match(r"\s*\d+\.\d+\.", cell) for cell in sample)


def _is_code(scan: TextScan, form: str, values: Collection[str]) -> bool:
    """Whether what could be numbers are names of something, or levels."""
    if not form or form in DATE_FORMS:
        return False
    few = scan.levels is not None and len(values) <= FEW_VALUES and scan.n_said > scan.count(form)
    digits = scan.n_whole == (scan.count(form) if scan.n_coded else scan.n_cells)
    return few or (digits and form in NUMBER_FORMS)


def _unused(name: str, scan: TextScan, form: str, sample: Sequence[str], reading: TextReading) -> str:
    """The warning for a column with many numbers or dates that is not used as such."""
    used = f"used as {reading.kind.__name__.lower()}"
    used = f"left out ({reading.note})" if reading.kind is LeftOut else used
    unread = scan.unread(form, sample)
    others = f"; the others are not{_such(unread)}" if unread else _such(sample)
    return (
        f"Column {name!r} is {used}, although {scan.count(form):,} of {scan.n_said:,} cells are {_plural(form)} "
        f"({form}){others}. Correct the cells, or use it in another way: columns={{{name!r}: {_plural(form)[:-1]!r}}}."
    )


def _several_units(name: str, scan: TextScan, reading: TextReading) -> str:
    """The warning for numbers whose units differ; "" where they are few, or their words too many for units."""
    counts = max(scan.count(form) for form in UNIT_FORMS)
    if scan.unit is not None or counts < MOSTLY * max(1, scan.n_said) or not 1 < len(scan.units) <= FEW_UNITS:
        return ""
    units = ", ".join(sorted(scan.units))
    return (
        f"Column {name!r} is left out ({reading.note}), although its cells are numbers, because their units differ: "
        f"{units}. Write them all in one unit."
    )


def _two_levels(name: str, scan: TextScan) -> tuple[str, str]:
    found = sorted({folded(value) for value in scan.values})
    if pair := yes_and_no(found):
        return pair
    if len(found) != 2:
        got = f"{len(found):,}{_such(found)}"
        raise ValueError(f"columns={{{name!r}: 'boolean'}}: expected two values; got {got}.")
    return found[1], found[0]


def _plural(form: str) -> str:
    return "dates" if form in DATE_FORMS else "numbers"


def _such(cells: Sequence[str]) -> str:
    return f", such as {', '.join(f'{cell!r:.40}' for cell in dict.fromkeys(cells[:3]))}" if cells else ""


def readable_columns(schema: pa.Schema) -> list[str]:
    """The columns whose values decide their role; all columns if there are no such columns."""
    readable = [field.name for field in schema if family(field.type) not in ("binary", "nested")]
    return readable or schema.names


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


def _cells(column: pa.ChunkedArray) -> list[str]:
    """The cells of a column of text that are there."""
    return [values[code] for codes, values in text_chunks(column) for code in codes.tolist() if code >= 0]


def _least_count(min_frequency: str | int | float, n_rows: int) -> float:
    if isinstance(min_frequency, str):
        return min(10, n_rows / 100)
    return min_frequency * n_rows if isinstance(min_frequency, float) else min_frequency
