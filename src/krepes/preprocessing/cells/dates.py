"""Cells that people write as dates and times, as seconds since 1970 (times of day: since midnight).

    2022-01-11    2022/1/11    2022-01-11T17:30:00Z    2022-01                     year first
    11.01.2022    11/1/22      11-Jan-2022             11. Januar 2022, 17:30      day first
    1/11/2022     01-11-22     Jan 11, 2022            1/11/2022 5:30 PM           month first
    17:30         5:30:15 pm                                                       time

Two digits of a year are 1969 to 2068. An offset is taken off, and what is left is universal time; without one a time
is taken as it stands. Months may be named in English, German, French, Spanish, Italian or Dutch. Which of day and
month comes first only the whole column can say (`column_choice`). Cells with the year first are read in every form,
because several forms in one column are common, and this one cannot be mistaken.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DATE_FORMS = ("year first", "day first", "month first", "time")
DAY = 86_400.0
_MONTHS = (
    "jan|gen|ene",
    "feb|fév|fev",
    "mar|mär|mrz|maa|mrt",
    "apr|avr|abr",
    "may|mai|mag|mei",
    "jun|juin|giu",
    "jul|juil|lug",
    "aug|aoû|aou|ago",
    "sep|set",
    "oct|okt|ott",
    "nov",
    "dec|dez|déc|dic",
)
_CLOCK = (
    r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2}(?:[.,]\d{1,9})?))?\s*(?P<half>(?:[ap]\.?m\.?)?)"
    r"\s*(?:z|utc|gmt|uhr|h)?(?P<zone>(?:[-+]\d{2}:?\d{2})?)"
)
_AFTER = rf"(?:(?:\s*,?\s+|t){_CLOCK})?\s*$"
_WEEKDAY = r"^\s*(?:\p{L}{2,10}\.?,?\s+)?"
_PATTERNS = {
    "year first": rf"{_WEEKDAY}(?P<y>\d{{4}})[-/.](?P<m>\d{{1,2}})(?:[-/.](?P<d>\d{{1,2}}))?{_AFTER}",
    "day first": rf"{_WEEKDAY}(?P<d>\d{{1,2}})[-/.\s]+(?P<m>#?\d{{1,2}})\.?[-/.,\s]+(?P<y>\d{{4}}|\d{{2}}){_AFTER}",
    "month first": rf"{_WEEKDAY}(?P<m>#?\d{{1,2}})\.?[-/.\s]+(?P<d>\d{{1,2}})[-/.,\s]+(?P<y>\d{{4}}|\d{{2}}){_AFTER}",
    "time": rf"^\s*{_CLOCK}\s*$",
}


def read_dates(cells: pa.Array, form: str) -> np.ndarray:
    """Text as seconds, float64; NaN where a cell is not a date of this form.

    >>> read_dates(pa.array(["11.01.1970", "2/1/1970 00:01", "1/31/1970"]), "day first") / DAY
    array([10.        ,  1.00069444,         nan])
    """
    cells = _with_numbers_for_months(cells)
    seconds = _matching(cells, form)
    others = np.isnan(seconds)
    if form in ("day first", "month first") and others.any():  # a year that is first leaves no doubt
        seconds[others] = _matching(cells.filter(pa.array(others)), "year first")
    return seconds


def _matching(cells: pa.Array, form: str) -> np.ndarray:
    """Seconds of the cells that have one pattern."""
    found = pc.extract_regex(cells, _PATTERNS[form])
    matched = found.is_valid().to_numpy(zero_copy_only=False)
    part = {field.name: found.field(i) for i, field in enumerate(found.type)}
    seconds, fits = _clock(part)
    if form == "time":
        return np.where(matched & fits, seconds, np.nan)
    year, month, day = (_numbers(pc.replace_substring(part[name], "#", "")) for name in "ymd")
    day = np.where(np.isnan(day), 1, day)
    year = np.where(year < 69, year + 2000, np.where(year < 100, year + 1900, year))
    fits &= matched & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    whole = [np.where(fits, value, 1).astype(np.int64) for value in (year, month, day)]
    first = (whole[0] - 1970).astype("M8[Y]").astype("M8[M]") + (whole[1] - 1)
    date = first.astype("M8[D]") + (whole[2] - 1)
    fits &= date.astype("M8[M]") == first  # 31.02. runs into March
    return np.where(fits, date.astype(np.int64) * DAY + seconds, np.nan)


def _clock(part: dict[str, pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since midnight, minus the offset; and whether there is such a time. No time is midnight."""
    hours, minutes, seconds = (
        np.nan_to_num(_numbers(pc.replace_substring(part[name], ",", "."))) for name in "HMS"
    )
    half = pc.utf8_slice_codeunits(part["half"], 0, 1)
    morning, evening = (np.asarray(pc.fill_null(pc.equal(half, letter), False)) for letter in "ap")
    halves = morning | evening
    fits = (hours < 24) & (minutes < 60) & (seconds < 61) & ~(halves & ((hours < 1) | (hours > 12)))
    hours = np.where(halves, hours % 12, hours) + 12 * evening
    zone = pc.replace_substring(part["zone"], ":", "")
    offset = np.nan_to_num(_numbers(zone))  # hours times 100 plus minutes
    offset = np.sign(offset) * (np.abs(offset) // 100 * 3600 + np.abs(offset) % 100 * 60)
    return hours * 3600 + minutes * 60 + seconds - offset, fits


def _numbers(cells: pa.Array) -> np.ndarray:
    """Digits as float64, NaN where there are none."""
    filled = pc.if_else(pc.equal(cells, ""), pa.scalar(None, cells.type), cells)
    return pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)


def _with_numbers_for_months(cells: pa.Array) -> pa.Array:
    """Small letters, and #1 for January and its short forms."""
    cells = pc.utf8_lower(cells)
    if not pc.any(pc.match_substring_regex(cells, r"\d\W*\p{L}{3}|\p{L}{3}\W*\d"), min_count=0).as_py():
        return cells
    # June and July first, because "juin" and "juil" begin alike; then nothing is replaced twice
    for number, names in enumerate(_MONTHS, 1):
        cells = pc.replace_substring_regex(cells, rf"\b(?:{names})\p{{L}}*", f"#{number}")
    return cells
