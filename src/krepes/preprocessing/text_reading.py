"""What a text column is: numbers, dates, yes and no, a category, or running text; decided by all of its cells.

    two words for yes and no                          a number, 1 and 0
    90 % of the cells are numbers or dates            these, in the form that most cells have; the others are missing
    at most half as many values as rows               a category
    four words or more in a cell                      running text
    anything else                                     left out

Codes are not numbers: digits that begin with a zero, and text that is digits throughout, which somebody has made text,
because a file would have been read as numbers. A few cells that are no numbers make a category of a column with few
values ("1", "2", "3 or more").
Cells that fit two forms equally (1,234; 03/04/2022) are read as other columns of the table are, then with a decimal
point and with the day first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from krepes.preprocessing.cells.dates import DATE_FORMS
from krepes.preprocessing.cells.numbers import NUMBER_FORMS, UNIT_FORMS
from krepes.preprocessing.cells.words import yes_and_no
from krepes.preprocessing.column_scan import FORMS, MAX_DISTINCT, TextScan
from krepes.preprocessing.columns import Category, Column, Date, LeftOut, Number, Text, YesNo

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


def clear_forms(scans: Iterable[TextScan]) -> set[str]:
    """The forms that some column has and could not have in another."""
    best = {scan: _best(scan, FORMS, ()) for scan in scans}
    return {
        form
        for scan, form in best.items()
        if scan.share(form) >= MOSTLY and scan.count(form) > scan.count(_RIVALS.get(form, ""))
    }


def read_column(
    name: str, scan: TextScan, sample: Sequence[str], asked: str | None, clear: Collection[str]
) -> TextReading:
    """Decide for one column.

    `asked` is one of KINDS, if somebody has decided already; `sample` are some cells; `clear` the forms of other
    columns.
    """
    if asked in ("category", "text"):
        return TextReading(Category if asked == "category" else Text)
    if asked == "boolean":
        return TextReading(YesNo, pair=_two_levels(name, scan))
    if not asked and (pair := yes_and_no(scan.values)):
        return TextReading(YesNo, pair=pair)
    form = _best(scan, KINDS[asked] if asked else FORMS, clear)
    if asked and not form:
        raise ValueError(f"columns={{{name!r}: {asked!r}}}: no cell of the column is one{_such(sample)}.")
    code = _is_code(scan, form)
    if form and (asked or (scan.share(form) >= MOSTLY and not code)):
        return _in_form(name, scan, form, sample, clear, bool(asked))
    reading = as_levels(scan)
    if reading.kind is LeftOut and (several := _several_units(name, scan, reading)):
        return replace(reading, warning=several)
    if reading.kind is LeftOut and code and scan.n_coded:
        return replace(reading, note=reading.note.replace("near-unique text", "codes that begin with zeros"))
    if scan.share(form) >= 0.5 and not (reading.kind is Category and len(scan.values) <= FEW_VALUES):
        return replace(reading, warning=_unused(name, scan, form, sample, reading))
    return reading


def as_levels(scan: TextScan) -> TextReading:
    """A category, running text, or nothing."""
    n_values = len(scan.values)
    n_present = scan.n_cells - scan.n_missing_levels
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


def _is_code(scan: TextScan, form: str) -> bool:
    """Whether what could be numbers are names of something, or levels."""
    if not form or form in DATE_FORMS:
        return False
    few = scan.levels is not None and len(scan.values) <= FEW_VALUES and scan.n_said > scan.count(form)
    digits = scan.n_whole == (scan.count(form) if scan.n_coded else scan.n_cells)
    return few or (digits and form in NUMBER_FORMS)


def _unused(name: str, scan: TextScan, form: str, sample: Sequence[str], reading: TextReading) -> str:
    """The warning for a column with many numbers or dates that is not used as such."""
    used = f"used as {reading.kind.__name__.lower()}"
    used = f"left out ({reading.note})" if reading.kind is LeftOut else used
    unread = scan.unread(form, sample)
    others = f"; the others are not{_such(unread)}" if unread else f"{_such(sample)}"
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
    found = sorted({value.strip().casefold() for value in scan.values})
    if pair := yes_and_no(found):
        return pair
    if len(found) != 2:
        got = f"{len(found):,}{_such(found)}"
        raise ValueError(f"columns={{{name!r}: 'boolean'}}: expected two values; got {got}.")
    return found[1], found[0]


def _best(scan: TextScan, forms: Iterable[str], clear: Collection[str]) -> str:
    """The form that most cells have; the first of equals, but one that other columns have before; "" for none."""
    known = [form for form in forms if form not in UNIT_FORMS or scan.unit is not None]
    best = max(known, key=lambda form: (scan.count(form), form == "year first", form in clear))
    return best if scan.count(best) else ""


def _plural(form: str) -> str:
    return "dates" if form in DATE_FORMS else "numbers"


def _such(cells: Sequence[str]) -> str:
    return f", such as {', '.join(f'{cell!r:.40}' for cell in dict.fromkeys(cells[:3]))}" if cells else ""
