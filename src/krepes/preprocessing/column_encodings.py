"""How a column of each role is encoded: the numbers that standardise it, its levels, the cycles of its dates.

    numeric     (x - mean) / scale,  an indicator of missing values
    date        (t - mean) / scale,  t in years;  sin and cos of 2 pi (time in a day, week, year);  an indicator
    category    one column per level
    text        groups of characters, hashed (`cells.grams`)

A point on a circle is at squared distance 2 from another on average, as two rows of a standardised column are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from krepes.base.column_scale import ColumnSample
from krepes.base.row_layout import EncodedColumn
from krepes.preprocessing.cells.dates import DAY
from krepes.preprocessing.cells.grams import BUCKETS
from krepes.preprocessing.column_moments import ColumnMoments
from krepes.preprocessing.column_scan import FORMS, TextScan
from krepes.preprocessing.column_values import holds_numbers

GROSS = 5.0  # times the deviation of the usual values: the plain one says nothing of the column any more
FEW = 0.002  # of the values may be errors; more are a heavy tail
YEAR = 365.2425 * DAY
# The cycles of dates: their names, their lengths, and the span that a column must have for them to say more than the
# date itself. Weeks begin on Mondays; 1970 began on a Thursday.
CYCLES = {"day": (DAY, DAY), "week": (7 * DAY, 14 * DAY), "year": (YEAR, 366 * DAY)}
CYCLE_WORDS = {"day": "time of day", "week": "day of week", "year": "day of year"}

Column = dict[str, Any]
_NUMBERS = {"mean": float, "scale": float, "median": float, "indicator": bool}
# What a column of each role is described by, and what it may be described by besides.
ENTRIES: dict[str, dict[str, Any]] = {
    "numeric": _NUMBERS,
    "date": _NUMBERS | {"form": str, "cycles": list[str], "linear": bool},
    "category": {"levels": list[str], "rare": np.ndarray, "missing": bool, "of_numbers": bool},
    "text": {},
}
OPTIONAL: dict[str, Any] = {
    "form": str,
    "tolerant": bool,
    "words": list[str],
    "pair": list[str],
    "unit": str,
}


def encoded_column(column: Column, group: list[int]) -> EncodedColumn:
    """Where the values of a column are among its encoded numbers, and what says that one is missing."""
    name, places = column["column"], tuple(group)
    if column["role"] == "category":
        return EncodedColumn(name, "category", places, places, places[-2] if column["missing"] else None)
    indicator = bool(column.get("indicator", False))
    missing = places[-1] if indicator else None
    if column["role"] == "numeric" or column.get("linear", False):  # of a date, how late it is
        return EncodedColumn(name, "number", places, places[:1], missing)
    return EncodedColumn(name, "point", places, places[:-1] if indicator else places, missing)


def numeric_column(name: str, moments: ColumnMoments, j: int, sample: ColumnSample, n_rows: int) -> Column:
    """The standardisation of a column: (x - mean) / scale, population deviation, scale 1 if it is constant.

    Where a few wild cells make up nearly all of the deviation, mean and scale are those of the sample's usual values
    (`krepes.base.column_scale`): the other rows would become one number otherwise.
    """
    low, high = float(moments.low[j]), float(moments.high[j])
    mean, scale = float(moments.mean[j]), float(np.sqrt(moments.variance_of(j)))
    farthest = high if high > -low else low
    if not np.isfinite(scale):
        raise ValueError(
            f"The values of column {name!r}, up to {abs(farthest):.3g}, are too large for a standard "
            "deviation in float64. Rescale or exclude the column."
        )
    median = sample.median if len(sample.values) else mean
    detail = f"mean {mean:.4g}, deviation {scale:.4g}"
    if low == high or scale == 0.0:
        mean, scale = low, 1.0  # exactly, so that the column becomes exactly 0
        detail = f"constant {mean:.4g}"
    elif (usual := _few_unusual(sample, low, high)) and scale > GROSS * usual[1]:
        mean, scale = usual
        detail = f"mean {mean:.4g}, deviation {scale:.4g} without extreme values, up to {farthest:.4g}"
    missing = int(n_rows - moments.count[j])
    if missing:
        detail += f"; {missing:,} missing: median {median:.4g} and an indicator"
    return {
        "column": name,
        "role": "numeric",
        "mean": mean,
        "scale": scale,
        "median": median,
        "indicator": missing > 0,
        "n_outputs": 1 + (missing > 0),
        "detail": detail,
    }


def boolean_column(name: str, scan: TextScan, pair: Sequence[str], n_rows: int) -> Column:
    """Two words as 1 and 0, standardised."""
    folded = [(value.strip().casefold(), n) for value, n in (scan.levels or {}).items()]
    yes, no = (sum(n for value, n in folded if value == word) for word in pair)
    moments = ColumnMoments(1)
    moments.add(np.array([[1.0] * (yes > 0) + [0.0] * (no > 0)]))  # the range
    share = yes / (yes + no)
    moments.count, moments.mean = np.array([yes + no]), np.array([share])
    moments.squares = (yes + no) * np.array([share * (1 - share)])
    values = np.array([1.0] * (yes >= no) + [0.0] * (no >= yes))  # whose median is that of all
    column = numeric_column(name, moments, 0, ColumnSample.of(values), n_rows)
    words = f"{pair[0]} is 1, {pair[1]} is 0; "
    return column | {"form": "boolean", "pair": list(pair), "detail": words + column["detail"]}


def date_column(
    name: str, moments: ColumnMoments, j: int, sample: ColumnSample, n_rows: int, form: str
) -> Column:
    """Years, standardised, and the cycles that a column of dates, in seconds, goes through more than once."""
    years = ColumnMoments(1)
    years.count = moments.count[j : j + 1]
    years.mean, years.squares = to_years(moments.mean[j : j + 1]), moments.squares[j : j + 1] / YEAR**2
    years.low, years.high = to_years(moments.low[j : j + 1]), to_years(moments.high[j : j + 1])
    column = numeric_column(name, years, 0, ColumnSample.of(to_years(sample.values)), n_rows)
    if form == "time":
        cycles = ["day"]
        detail = "time of day"
    else:
        span = float(moments.high[j] - moments.low[j])
        same_time = len(np.unique(np.mod(sample.values, DAY))) < 2
        cycles = [
            name for name, (_, least) in CYCLES.items() if span >= least and not (name == "day" and same_time)
        ]
        first, last = (_moment(float(end[j]), same_time) for end in (moments.low, moments.high))
        detail = f"{first} to {last}" + "".join(f", {CYCLE_WORDS[name]}" for name in cycles)
    if column["indicator"]:
        detail += f"; {int(n_rows - moments.count[j]):,} missing: an indicator"
    n_outputs = (form != "time") + 2 * len(cycles) + column["indicator"]
    return column | {
        "role": "date",
        "form": form,
        "cycles": cycles,
        "linear": form != "time",
        "n_outputs": n_outputs,
        "detail": detail,
    }


def category_column(
    field: pa.Field, scan: TextScan, words: list[str], min_count: float, max_levels: int
) -> Column:
    """The levels of a column: the frequent ones by frequency, then rare and missing if there are any, then unseen."""
    found = scan.levels or {}
    counts = {value: n for value, n in found.items() if value.strip() not in words}
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    levels = [value for value in ordered[:max_levels] if counts[value] >= min_count]
    rare, missing = ordered[len(levels) :], scan.n_missing + sum(found.values()) - sum(counts.values())
    detail = f"{len(levels):,} level{'s' * (len(levels) != 1)}"
    if rare:
        detail += f", {len(rare):,} rare as one" + (", which says nothing" if not levels else "")
    if missing:
        detail += f", {missing:,} missing as one"
    return {
        "column": field.name,
        "role": "category",
        "levels": levels,
        "rare": np.sort(text_hashes(rare)),
        "missing": missing > 0,
        "of_numbers": holds_numbers(field.type),
        "words": words,
        "n_outputs": len(levels) + bool(rare) + (missing > 0) + 1,
        "detail": detail,
    }


def text_column(name: str) -> Column:
    detail = f"running text: groups of 3 characters in {BUCKETS} columns"
    return {"column": name, "role": "text", "n_outputs": BUCKETS, "detail": detail}


def check_column(column: Column) -> None:
    """Refuse a restored column whose parts do not fit together."""
    role, n_outputs = column["role"], column["n_outputs"]
    if role not in ENTRIES:
        raise ValueError(f"A column has the role {role!r:.60}; expected one of {', '.join(ENTRIES)}.")
    if not set(column.get("cycles", [])) <= set(CYCLES):
        raise ValueError(
            f"A column has cycles = {column['cycles']!r:.60}; expected some of {', '.join(CYCLES)}."
        )
    if n_outputs != len(output_names(column)):
        raise ValueError(f"A column has n_outputs = {n_outputs}, which does not fit its role.")
    if column.get("form", "time") not in (*FORMS, "boolean"):
        raise ValueError(f"A column has form = {column['form']!r:.60}; expected one of {', '.join(FORMS)}.")
    if "pair" in column and len(column["pair"]) != 2:
        raise ValueError("A column has a pair of words that are not two.")


def output_names(column: Column) -> list[str]:
    """The names of what a column becomes, in order."""
    name = column["column"]
    if column["role"] == "text":
        return [f"{name}~{j}" for j in range(BUCKETS)]
    if column["role"] == "category":
        special = [("(rare)", len(column["rare"]) > 0), ("(missing)", column["missing"]), ("(unseen)", True)]
        return [f"{name}={level}" for level in [*column["levels"], *(s for s, there in special if there)]]
    names = [name] if column.get("linear", True) else []
    for cycle in column.get("cycles", []):
        names += [f"{name} ({CYCLE_WORDS[cycle]}, {part})" for part in ("sin", "cos")]
    return names + [f"{name} (missing)"] * column["indicator"]


def text_hashes(values: list[str]) -> np.ndarray:
    """64-bit hashes: enough to know a rare value again without storing what may be personal."""
    digests = [hashlib.blake2b(value.encode(), digest_size=8).digest() for value in values]
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def to_years(seconds: np.ndarray) -> np.ndarray:
    """Seconds since 1970 as years: 2022.5 is the middle of 2022."""
    return 1970.0 + seconds / YEAR


def _moment(seconds: float, date_only: bool) -> str:
    moment = np.datetime64(round(seconds), "s")
    return str(moment.astype("M8[D]") if date_only else moment).replace("T", " ")


def _few_unusual(sample: ColumnSample, low: float, high: float) -> tuple[float, float] | None:
    """Mean and deviation of the usual values of a column whose range this is; None where all are usual, or many not.

    Many far-out values are a heavy tail, which is part of the column: divided by a small deviation it would scatter.
    """
    values = sample.values
    if not len(values) or (sample.low <= low and high <= sample.high):
        return None
    usual = values[(values >= sample.low) & (values <= sample.high)]
    if len(values) - len(usual) > 1 + FEW * len(values):
        return None
    return float(usual.mean()), float(usual.std())
