"""What each column of a table becomes, decided from what a scan has seen.

    number              numeric, standardised; a missing value is the median, with an indicator beside it
    text, categorical   category, one-hot: frequent levels, then rare, missing and unseen as separate levels
    date, time          left out; so are ids, row numbers, near-unique text, binary, nested and empty columns

The rules look at names and values of the whole table, never at a part of it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from krepes.preprocessing.column_scale import usual_range
from krepes.preprocessing.column_scan import MAX_DISTINCT, ColumnScan
from krepes.preprocessing.column_values import family, holds_numbers, number_matrix

TARGET_NAMES = ("label", "target", "class", "y", "split")
_ID_NAME = re.compile(r"(row_?)?(id|index|idx)|uuid|guid|unnamed: \d+|__index_level_\d+__|", re.IGNORECASE)
_ORDERED_ROWS = 20  # below this many rows increasing integers may be chance
GROSS = 5.0  # times the deviation of the usual values: the plain one says nothing of the column any more
FEW = 0.002  # of the values may be errors; more are a heavy tail
_DISTINCT = 10  # at most this many values are levels, even if every row has its own

Column = dict[str, Any]
# What a column of each role is described by.
ENTRIES: dict[str, dict[str, Any]] = {
    "numeric": {"mean": float, "scale": float, "median": float, "indicator": bool},
    "category": {"levels": list[str], "rare": np.ndarray, "missing": bool, "of_numbers": bool},
}
Role = dict[str, Any]


class RoleChoice:
    """Chooses a role for every column of a table.

    Parameters
    ----------
    min_frequency, max_levels : as in `TableEncoder`.
    ids : whether columns may be ids; those of an array are not.
    """

    def __init__(self, min_frequency: str | int | float, max_levels: int, ids: bool):
        self.min_frequency, self.max_levels, self.ids = min_frequency, max_levels, ids

    def __call__(
        self, schema: pa.Schema, scan: ColumnScan, sample: pa.Table
    ) -> tuple[list[Column], list[Role]]:
        """The columns to use, with what encoding them needs, and the role of every column.

        `sample` is the rows that medians and the range of usual values are taken from.
        """
        samples = _samples(sample, scan)
        min_count = _min_count(self.min_frequency, scan.n_rows)
        columns: list[Column] = []
        roles: list[Role] = []
        for field in schema:
            reason = left_out(field, scan, self.ids)
            if reason is not None:
                roles.append({"column": field.name, "role": "left out", "detail": reason, "n_outputs": 0})
                continue
            if field.name in samples:
                column = numeric_column(field.name, scan, samples[field.name])
            else:
                column = category_column(field, scan, min_count, self.max_levels)
            roles.append({key: column[key] for key in ("column", "role", "detail", "n_outputs")})
            columns.append({key: value for key, value in column.items() if key != "detail"})
        return columns, roles


def readable_columns(schema: pa.Schema) -> list[str]:
    """The columns whose values decide their role; all columns if there are no such columns."""
    readable = [field.name for field in schema if family(field.type) in ("number", "text", "empty")]
    return readable or schema.names


def left_out(field: pa.Field, scan: ColumnScan, ids: bool) -> str | None:
    """Why a column cannot be a feature, or None. `ids`: whether it may be an id."""
    name, kind = field.name, family(field.type)
    if kind in ("date or time", "binary", "nested"):
        return {"date or time": "date or time", "binary": "binary data", "nested": "nested values"}[kind]
    if kind == "empty" or _present(name, kind, scan) == 0:
        return "no value present"
    if ids and _ID_NAME.fullmatch(name) and (name in scan.last or kind == "text"):
        return "an id or row number, by its name"
    if ids and scan.n_rows >= _ORDERED_ROWS and scan.strictly_increasing(name):
        return "an id or row number: integers that increase with every row (as float it would be used)"
    if kind == "text":
        levels = scan.levels[name]
        if levels is None:
            return f"near-unique text: more than {MAX_DISTINCT:,} different values"
        if len(levels) > max(_DISTINCT, _present(name, kind, scan) / 2):
            return (
                f"near-unique text: {len(levels):,} different values in {_present(name, kind, scan):,} rows"
            )
    return None


def numeric_column(name: str, scan: ColumnScan, sample: np.ndarray) -> Column:
    """The standardisation of a column: (x - mean) / scale, population deviation, scale 1 if it is constant.

    Where a few wild cells make up nearly all of the deviation, mean and scale are those of the sample's usual values
    (`krepes.preprocessing.column_scale`): the other rows would become one number otherwise.
    """
    j = scan.position[name]
    mean, scale = float(scan.mean[j]), float(np.sqrt(scan.variance[j]))
    farthest = float(scan.high[j] if scan.high[j] > -scan.low[j] else scan.low[j])
    if not np.isfinite(scale):
        raise ValueError(
            f"The values of column {name!r}, up to {abs(farthest):.3g}, are too large for a standard "
            "deviation in float64. Rescale or exclude the column."
        )
    median = float(np.median(sample)) if len(sample) else mean
    detail = f"mean {mean:.4g}, deviation {scale:.4g}"
    if scan.low[j] == scan.high[j] or scale == 0.0:
        mean, scale = float(scan.low[j]), 1.0  # exactly, so that the column becomes exactly 0
        detail = f"constant {mean:.4g}"
    elif (usual := _few_unusual(sample, scan.low[j], scan.high[j])) and scale > GROSS * usual[1]:
        mean, scale = usual
        detail = f"mean {mean:.4g}, deviation {scale:.4g} without extreme values, up to {farthest:.4g}"
    missing = int(scan.n_rows - scan.count[j])
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


def category_column(field: pa.Field, scan: ColumnScan, min_count: float, max_levels: int) -> Column:
    """The levels of a column: the frequent ones by frequency, then rare and missing if there are any, then unseen."""
    counts = scan.levels[field.name] or {}
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    levels = [value for value in ordered[:max_levels] if counts[value] >= min_count]
    rare, missing = ordered[len(levels) :], scan.missing[field.name]
    detail = f"{len(levels):,} level{'s' * (len(levels) != 1)}"
    if rare:
        detail += f", {len(rare):,} rare as one"
    if missing:
        detail += f", {missing:,} missing as one"
    return {
        "column": field.name,
        "role": "category",
        "levels": levels,
        "rare": text_hashes(rare),
        "missing": missing > 0,
        "of_numbers": holds_numbers(field.type),
        "n_outputs": len(levels) + bool(rare) + (missing > 0) + 1,
        "detail": detail,
    }


def output_names(column: Column) -> list[str]:
    """The names of what a column becomes, in order."""
    name = column["column"]
    if column["role"] == "numeric":
        return [name, f"{name} (missing)"][: column["n_outputs"]]
    special = [("(rare)", len(column["rare"]) > 0), ("(missing)", column["missing"]), ("(unseen)", True)]
    return [f"{name}={level}" for level in [*column["levels"], *(s for s, there in special if there)]]


def text_hashes(values: list[str]) -> np.ndarray:
    """Sorted 64-bit hashes: enough to know a rare value again without storing what may be personal."""
    digests = [hashlib.blake2b(value.encode(), digest_size=8).digest() for value in values]
    return np.sort(np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64))


def _present(name: str, kind: str, scan: ColumnScan) -> int:
    if kind == "number":
        return int(scan.count[scan.position[name]])
    return scan.n_rows - scan.missing[name]


def _samples(sample: pa.Table, scan: ColumnScan) -> dict[str, np.ndarray]:
    """The values of number columns that are there in a sample."""
    return {
        name: row[~np.isnan(row)]
        for name, row in zip(scan.numbers, number_matrix(sample, scan.numbers), strict=True)
    }


def _few_unusual(sample: np.ndarray, low: float, high: float) -> tuple[float, float] | None:
    """Mean and deviation of the usual values of a column whose range this is; None where all are usual, or many not.

    Many far-out values are a heavy tail, which is part of the column: divided by a small deviation it would scatter.
    """
    if not len(sample):
        return None
    first, last = (end.item() for end in usual_range(torch.from_numpy(sample)[:, None]))
    usual = sample[(sample >= first) & (sample <= last)]
    if (first <= low and high <= last) or len(sample) - len(usual) > 1 + FEW * len(sample):
        return None
    return float(usual.mean()), float(usual.std())


def _min_count(min_frequency: str | int | float, n_rows: int) -> float:
    if isinstance(min_frequency, str):
        return min(10, n_rows / 100)
    return min_frequency * n_rows if isinstance(min_frequency, float) else min_frequency
