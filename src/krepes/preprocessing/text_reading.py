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
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from krepes.preprocessing.cells.dates import DATE_FORMS
from krepes.preprocessing.cells.numbers import NUMBER_FORMS, UNIT_FORMS
from krepes.preprocessing.cells.words import words_of, yes_and_no
from krepes.preprocessing.column_scan import FORMS, MAX_DISTINCT, TextScan, is_missing_number, read_form

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
    """What a column is ("number", "date", "boolean", "category", "text", "left out"), and what to say of it."""

    kind: str
    form: str = ""
    note: str = ""  # the reason where it is left out
    warning: str = ""
    tolerant: bool = False  # some cells could not be read
    pair: tuple[str, str] = ("", "")


def clear_forms(scans: Iterable[TextScan]) -> set[str]:
    """The forms that some column has and could not have in another."""
    return {form for scan in scans if (form := _best(scan, FORMS, ())) and _share(scan, form) >= MOSTLY
            and _count(scan, form) > _count(scan, _RIVALS.get(form, ""))}  # fmt: skip


def read_column(
    name: str, scan: TextScan, sample: Collection[str], asked: str | None, clear: Collection[str]
) -> TextReading:
    """Decide for one column.

    `asked` is one of KINDS, if somebody has decided already; `sample` are some cells; `clear` the forms of other
    columns.
    """
    if asked in ("category", "text"):
        return TextReading(asked)
    if asked == "boolean":
        return TextReading("boolean", pair=_two_levels(name, scan))
    words = words_in(scan)
    values = [value for value in scan.levels or () if value.strip() not in words]
    if not asked and (pair := yes_and_no(values)):
        return TextReading("boolean", pair=pair)
    form = _best(scan, KINDS[asked] if asked else FORMS, clear)
    if asked and not form:
        raise ValueError(
            f"columns={{{name!r}: {asked!r}}}: no cell of the column is one{_such(list(sample))}."
        )
    if form and (asked or (_share(scan, form) >= MOSTLY and not _is_code(scan, values, form))):
        return _in_form(name, scan, form, sample, clear, bool(asked))
    reading = as_levels(scan)
    if len(scan.units) > 1 and scan.unit is None and not asked and reading.kind == "left out":
        several = _several_units(name, scan, reading)
        if several:
            return TextReading(reading.kind, note=reading.note, warning=several)
    if form and scan.n_coded and reading.kind == "left out" and _is_code(scan, values, form):
        return TextReading(
            "left out", note=reading.note.replace("near-unique text", "codes that begin with zeros")
        )
    if form and _share(scan, form) >= 0.5 and not (reading.kind == "category" and len(values) <= FEW_VALUES):
        return TextReading(
            reading.kind, note=reading.note, warning=_unused(name, scan, form, sample, reading)
        )
    return reading


def words_in(scan: TextScan) -> list[str]:
    """The words for missing values in a column."""
    return words_of(scan.levels) if scan.words is None else ["", *scan.words]


def _in_form(
    name: str, scan: TextScan, form: str, sample: Collection[str], clear: Collection[str], asked: bool
) -> TextReading:
    kind, note, warning = ("date" if form in DATE_FORMS else "number"), _words(form, scan), ""
    if kind == "number" and any(re.match(r"\s*[<>≤≥]", cell) for cell in scan.levels or sample):
        note += ", < and > as the number behind"
    rival = _RIVALS.get(form, "")
    j, k = FORMS.index(form), FORMS.index(rival) if rival else -1
    alike = (
        rival and _count(scan, rival) == _count(scan, form) and scan.moments.mean[j] != scan.moments.mean[k]
    )
    if alike and not asked:
        if form in clear:
            note += ", as in other columns"
        elif not _usual(form, sample):
            note += f" (or {rival})"
            warning = (
                f"Column {name!r} is read with {form if kind == 'date' else 'a ' + form}, but every cell could also be "
                f"{rival if kind == 'date' else 'one with a ' + rival}{_such(list(sample))}. Say which: "
                f"columns={{{name!r}: {form!r}}} or {{{name!r}: {rival!r}}}."
            )
    n_unread = _should(scan) - _count(scan, form)
    if n_unread:
        note += f", {n_unread:,} unreadable cell{'s' * (n_unread > 1)} as missing"
        warning = (
            f"Column {name!r} is mostly {kind}s ({form}), but {n_unread:,} of {_should(scan):,} cells are not"
            f"{_such(_unread(scan, form, sample))}. They are taken as missing. Correct them, name words for missing "
            f"values with missing=, or use the column in another way: columns={{{name!r}: 'category'}}."
        )
    return TextReading(kind, form, note, warning, tolerant=n_unread > 0)


def _words(form: str, scan: TextScan) -> str:
    """A form in the words of the table of roles: `decimal point, in kg`."""
    if form not in UNIT_FORMS:
        return form
    unit = "K, M, ... multiplied out" if scan.unit == "" else f"in {scan.unit}"
    return f"{form.removesuffix(' with a unit')}, {unit}"


def _usual(form: str, sample: Collection[str]) -> bool:
    """Whether cells that fit two forms leave no doubt: 3.4.2022 has the day first, 1.234 is no thousand."""
    if form.startswith("decimal point"):
        return not any("," in cell for cell in sample)
    return all(re.match(r"\s*\d+\.\d+\.", cell) for cell in sample)


def as_levels(scan: TextScan) -> TextReading:
    """A category, running text, or nothing."""
    words = words_in(scan)
    values = [value for value in scan.levels or () if value.strip() not in words]
    n_present = scan.n_cells - sum(n for value, n in (scan.levels or {}).items() if value.strip() in words)
    if n_present == 0:
        return TextReading("left out", note="no value present")
    if scan.levels is not None and len(values) <= max(DISTINCT, n_present / 2):
        return TextReading("category")
    if scan.n_spelled >= RUNNING_WORDS * n_present:
        return TextReading("text")
    if scan.levels is None:
        return TextReading("left out", note=f"near-unique text: more than {MAX_DISTINCT:,} different values")
    return TextReading(
        "left out", note=f"near-unique text: {len(values):,} different values in {n_present:,} rows"
    )


def _is_code(scan: TextScan, values: list[str], form: str) -> bool:
    """Whether what could be numbers are names of something, or levels."""
    if form in DATE_FORMS:
        return False
    few = scan.levels is not None and len(values) <= FEW_VALUES and _should(scan) > _count(scan, form)
    digits = scan.n_whole == (_count(scan, form) if scan.n_coded else scan.n_cells)
    return few or (digits and form in NUMBER_FORMS)


def _unused(name: str, scan: TextScan, form: str, sample: Collection[str], reading: TextReading) -> str:
    used = f"left out ({reading.note})" if reading.kind == "left out" else f"used as {reading.kind}"
    kind = "date" if form in DATE_FORMS else "number"
    unread = _unread(scan, form, sample)
    others = f"; the others are not{_such(unread)}" if unread else f"{_such(list(sample))}"
    return (
        f"Column {name!r} is {used}, although {_count(scan, form):,} of {_should(scan):,} cells are {kind}s "
        f"({form}){others}. Correct the cells, or use it in another way: columns={{{name!r}: {kind!r}}}."
    )


def _several_units(name: str, scan: TextScan, reading: TextReading) -> str:
    """The warning for numbers whose units differ; "" where they are few, or their words too many for units."""
    counts = max(_count(scan, form) for form in UNIT_FORMS)
    if counts < MOSTLY * max(1, _should(scan)) or len(scan.units) > FEW_UNITS:
        return ""
    units = ", ".join(sorted(scan.units))
    return (
        f"Column {name!r} is left out ({reading.note}), although its cells are numbers, because their units differ: "
        f"{units}. Write them all in one unit."
    )


def _unread(scan: TextScan, form: str, sample: Collection[str]) -> list[str]:
    if scan.levels is not None:
        found = scan.unread(form)
        return sorted(found, key=lambda value: -found[value])
    cells = [cell for cell in sample if not is_missing_number(cell, scan.words)]
    return [
        cell for cell, number in zip(cells, read_form(cells, form, scan.words, scan.unit)) if np.isnan(number)
    ]


def _two_levels(name: str, scan: TextScan) -> tuple[str, str]:
    words = words_in(scan)
    found = sorted({value.strip().casefold() for value in scan.levels or () if value.strip() not in words})
    if pair := yes_and_no(found):
        return pair
    if len(found) != 2:
        raise ValueError(
            f"columns={{{name!r}: 'boolean'}}: expected two values; got {len(found):,}{_such(found)}."
        )
    return found[1], found[0]


def _best(scan: TextScan, forms: Iterable[str], clear: Collection[str]) -> str:
    """The form that most cells have; the first of equals, but one that other columns have before; "" for none."""
    known = [form for form in forms if form not in UNIT_FORMS or scan.unit is not None]
    best = max(known, key=lambda form: (_count(scan, form), form == "year first", form in clear))
    return best if _count(scan, best) else ""


def _count(scan: TextScan, form: str) -> int:
    return int(scan.moments.count[FORMS.index(form)]) if form else 0


def _should(scan: TextScan) -> int:
    """The cells that say something."""
    return scan.n_cells - scan.n_words


def _share(scan: TextScan, form: str) -> float:
    return _count(scan, form) / max(1, _should(scan))


def _such(cells: list[str]) -> str:
    return f", such as {', '.join(f'{cell!r:.40}' for cell in dict.fromkeys(cells[:3]))}" if cells else ""
