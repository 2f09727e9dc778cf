"""Cells that people write as numbers.

    15,048.70    1'234.5    1 234.5    -12    $ 5.00    64 %    (1,200)    1.5e3      decimal point
    15.048,70    1 234,5    -0,5       5,00 EUR    < 0,5                              decimal comma
    8.7 kg       197cm      5 stars    9.3K                                           with a unit

The mark before the decimals is a point or a comma; then the other one, spaces and apostrophes may stand between
thousands. Signs of currencies and percent are dropped ("64 %" is 64). Brackets and a minus behind the digits make a
number negative; a bound (< 0.5) is read as the number. A unit is a word of up to twelve letters that follows; all cells
with one must have the same, except for magnitudes (5K, 2M), which are multiplied out. Whether 1,234 is a thousand or a
fraction only the whole column can say (`column_choice`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NUMBER_FORMS = ("decimal point", "decimal comma")
UNIT_FORMS = ("decimal point with a unit", "decimal comma with a unit")
MAGNITUDES = {
    **dict.fromkeys(("k", "K", "Tsd"), 1e3),
    **dict.fromkeys(("M", "Mio", "mn"), 1e6),
    **dict.fromkeys(("B", "bn", "Bn", "Mrd"), 1e9),
}
_ORDINALS = ("st", "nd", "rd", "th")
_UNIT = r"[\s\p{Zs}]*(?P<unit>[\p{L}°µ][\p{L}²³/]{0,11})\.?[\s\p{Zs}]*$"
_BEHIND = _UNIT.replace("?P<unit>", "")
HAS_UNIT = rf"\d{_BEHIND}"
_NO_UNITS = r"(?i)^(?:a|p|am|pm|e|x|nan|inf|infinity)$"
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|RUB|TRY|ZAR|MXN|KRW|SGD|HKD"
_MONEY = rf"(?:[A-Z]{{0,2}}\p{{Sc}}|{_CODES}|Fr\.?|SFr\.?|kr\.?|zł|Kč|Rs\.?)"
_GAP = r"[\s\p{Zs}]*"


def _pattern(thousands: str, decimal: str) -> str:
    whole = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{2,3}})*{thousands}\d{{3}}|\d+"
    return (
        rf"^{_GAP}(?P<open>\(?){_GAP}(?:[<>]=?|[≤≥~≈])?{_GAP}(?P<sign>[-+−]?){_GAP}(?:{_MONEY})?{_GAP}(?P<inner>[-+−]?)"
        rf"(?P<digits>(?:{whole})(?:{decimal}\d*)?|{decimal}\d+)(?P<power>(?:[eE][-+]?\d+)?)"
        rf"{_GAP}(?:%|‰|{_MONEY})?(?:,-)?(?P<after>[-−]?){_GAP}(?P<close>\)?){_GAP}$"
    )


_BETWEEN = {"decimal point": r"[,'’_\p{Zs}]", "decimal comma": r"[.'’_\p{Zs}]"}
_PATTERNS = {
    "decimal point": _pattern(_BETWEEN["decimal point"], r"\."),
    "decimal comma": _pattern(_BETWEEN["decimal comma"], ","),
}


def read_numbers(cells: pa.Array, form: str) -> np.ndarray:
    """Text as float64, NaN where a cell is not a number of this form.

    >>> read_numbers(pa.array(["1.234,5", "7 %", "(3)", "1,234.5", None]), "decimal comma")
    array([1234.5,    7. ,   -3. ,    nan,    nan])
    """
    found = pc.extract_regex(cells, _PATTERNS[form])
    part = {field.name: pc.struct_field(found, field.name) for field in found.type}
    digits = pc.replace_substring_regex(part["digits"], _BETWEEN[form], "")
    if form == "decimal comma":
        digits = pc.replace_substring(digits, ",", ".")
    values = pc.cast(pc.binary_join_element_wise(digits, part["power"], ""), pa.float64())
    numbers = values.to_numpy(zero_copy_only=False).copy()
    bracketed = _is(part["open"], "(")
    negative = bracketed | _minus(part["sign"]) | _minus(part["inner"]) | _minus(part["after"])
    numbers[negative] *= -1
    numbers[bracketed != _is(part["close"], ")")] = np.nan
    return numbers


def units_of(cells: pa.Array) -> list[str | None]:
    """The word behind the last digit of every cell, None where there is none.

    >>> units_of(pa.array(["8.7 kg", "12cm", "3rd", "12", "5 pm"]))
    ['kg', 'cm', 'th', None, None]
    """
    found = pc.struct_field(pc.extract_regex(cells, rf"\d{_UNIT}"), "unit").to_pylist()
    return [
        None if unit is None or re.match(_NO_UNITS, unit) else "th" if unit.lower() in _ORDINALS else unit
        for unit in found
    ]


def common_unit(units: Collection[str]) -> str | None:
    """The unit of a column with these: the only one, or "" where all are magnitudes; None where they differ.

    >>> common_unit({"kg"}), common_unit({"K", "M"}), common_unit({"kg", "g"})
    ('kg', '', None)
    """
    if all(unit in MAGNITUDES for unit in units):
        return ""
    return next(iter(units)) if len(units) == 1 else None


def read_with_unit(cells: pa.Array, form: str, unit: str | None = None) -> np.ndarray:
    """Text as float64, of numbers with a unit and without; NaN where a cell is neither, or has another unit.

    Without a unit, all are read.

    >>> read_with_unit(pa.array(["5 kg", "2", "3 g", "1.5 kg"]), "decimal point with a unit", "kg")
    array([5. , 2. , nan, 1.5])
    """
    units = units_of(cells)
    plain = pc.replace_substring_regex(cells, rf"(\d){_BEHIND}", r"\1")
    plain = pc.if_else(pa.array([known is not None for known in units], pa.bool_()), plain, cells)
    numbers = read_numbers(plain, form.removesuffix(" with a unit"))
    numbers *= np.array([MAGNITUDES.get(known or "", 1.0) for known in units])
    if unit is not None:
        fits = [known is None or known == unit or (unit == "" and known in MAGNITUDES) for known in units]
        numbers[~np.array(fits, dtype=bool)] = np.nan
    return numbers


def _is(cells: pa.Array, sign: str) -> np.ndarray:
    return pc.fill_null(pc.equal(cells, sign), False).to_numpy(zero_copy_only=False)


def _minus(cells: pa.Array) -> np.ndarray:
    return _is(cells, "-") | _is(cells, "−")
