"""Cells that people write as numbers.

    15,048.70    1'234.5    1 234.5    -12    $ 5.00    64 %    (1,200)    1.5e3      decimal point
    15.048,70    1 234,5    -0,5       5,00 EUR                                       decimal comma

The mark before the decimals is a point or a comma; then the other one, spaces and apostrophes may stand between
thousands. Signs of currencies and percent are dropped ("64 %" is 64). Brackets and a minus behind the digits make a
number negative. Whether 1,234 is a thousand or a fraction only the whole column can say (`column_roles`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NUMBER_FORMS = ("decimal point", "decimal comma")
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|RUB|TRY|ZAR|MXN|KRW|SGD|HKD"
_MONEY = rf"(?:[A-Z]{{0,2}}\p{{Sc}}|{_CODES}|Fr\.?|SFr\.?|kr\.?|zł|Kč|Rs\.?)"
_GAP = r"[\s\p{Zs}]*"


def _pattern(thousands: str, decimal: str) -> str:
    whole = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{2,3}})*{thousands}\d{{3}}|\d+"
    return (
        rf"^{_GAP}(?P<open>\(?){_GAP}(?P<sign>[-+−]?){_GAP}(?:{_MONEY})?{_GAP}(?P<inner>[-+−]?)"
        rf"(?P<digits>(?:{whole})(?:{decimal}\d*)?|{decimal}\d+)(?P<power>(?:[eE][-+]?\d+)?)"
        rf"{_GAP}(?:%|‰|{_MONEY})?(?:,-)?(?P<after>[-−]?){_GAP}(?P<close>\)?){_GAP}$"
    )


_PATTERNS = {
    "decimal point": _pattern(r"[,'’_\p{Zs}]", r"\."),
    "decimal comma": _pattern(r"[.'’_\p{Zs}]", ","),
}
_BETWEEN = {"decimal point": r"[,'’_\p{Zs}]", "decimal comma": r"[.'’_\p{Zs}]"}


def read_numbers(cells: pa.Array, form: str) -> np.ndarray:
    """Text as float64, NaN where a cell is not a number of this form.

    >>> read_numbers(pa.array(["1.234,5", "7 %", "(3)", "1,234.5", None]), "decimal comma")
    array([1234.5,    7. ,   -3. ,    nan,    nan])
    """
    found = pc.extract_regex(cells, _PATTERNS[form])
    part = {
        name: pc.struct_field(found, name) for name in ("open", "sign", "inner", "after", "close", "power")
    }
    digits = pc.replace_substring_regex(pc.struct_field(found, "digits"), _BETWEEN[form], "")
    if form == "decimal comma":
        digits = pc.replace_substring(digits, ",", ".")
    values = pc.cast(pc.binary_join_element_wise(digits, part["power"], ""), pa.float64())
    numbers = values.to_numpy(zero_copy_only=False).copy()
    bracketed = _is(part["open"], "(")
    negative = bracketed | _minus(part["sign"]) | _minus(part["inner"]) | _minus(part["after"])
    numbers[negative] *= -1
    numbers[bracketed != _is(part["close"], ")")] = np.nan
    return numbers


def _is(cells: pa.Array, sign: str) -> np.ndarray:
    return pc.fill_null(pc.equal(cells, sign), False).to_numpy(zero_copy_only=False)


def _minus(cells: pa.Array) -> np.ndarray:
    return _is(cells, "-") | _is(cells, "−")
