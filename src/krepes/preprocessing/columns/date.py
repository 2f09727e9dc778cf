"""Columns of dates and times: how late it is, and where in the day, the week and the year.

    (t - mean) / scale, t in years;    sin and cos of 2 pi (time in a day, week, year);    an indicator

A point on a circle is at squared distance 2 from another on average, as two rows of a standardised column are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from krepes.base.column_scale import ColumnSample
from krepes.preprocessing.cells.dates import DAY
from krepes.preprocessing.column_values import ColumnMoments, column_numbers, family, holds_numbers
from krepes.preprocessing.columns.number import Standardised

YEAR = 365.2425 * DAY
# The cycles of dates: their names, their lengths, and the span that a column must have for them to say more than the
# date itself. Weeks begin on Mondays; 1970 began on a Thursday.
CYCLES = {"day": (DAY, DAY), "week": (7 * DAY, 14 * DAY), "year": (YEAR, 366 * DAY)}
CYCLE_WORDS = {"day": "time of day", "week": "day of week", "year": "day of year"}


@dataclass(frozen=True, eq=False)
class Date(Standardised):
    """Years, standardised, and the cycles that the column goes through more than once.

    A time of day, whose form is "time", is a cycle alone.
    """

    role = "date"
    held = "dates"

    cycles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not set(self.cycles) <= set(CYCLES):
            raise ValueError(f"cycles={self.cycles!r} of a column: expected some of {', '.join(CYCLES)}.")

    @classmethod
    def of_seconds(
        cls, name: str, moments: ColumnMoments, j: int, sample: ColumnSample, n_rows: int, form: str
    ) -> Date:
        """A column of dates in seconds, with the moments and a sample of these."""
        mean, low, high = (to_years(found) for found in (moments.mean, moments.low, moments.high))
        years = replace(moments, mean=mean, squares=moments.squares / YEAR**2, low=low, high=high)
        column = cls.learned(name, years, j, ColumnSample.of(to_years(sample.values)), n_rows)
        if form == "time":
            cycles, detail = ["day"], "time of day"
        else:
            span = float(moments.high[j] - moments.low[j])
            same_time = len(np.unique(np.mod(sample.values, DAY))) < 2
            cycles = [name for name, (_, least) in CYCLES.items() if span >= least]
            cycles = [name for name in cycles if name != "day"] if same_time else cycles
            first, last = (_moment(float(end[j]), same_time) for end in (moments.low, moments.high))
            detail = f"{first} to {last}" + "".join(f", {CYCLE_WORDS[name]}" for name in cycles)
        if column.indicator:
            detail += f"; {int(n_rows - moments.count[j]):,} missing: an indicator"
        return replace(column, detail=detail, form=form, cycles=cycles)

    @property
    def linear(self) -> bool:
        return self.form != "time"

    def output_names(self) -> list[str]:
        circles = [f"{self.name} ({CYCLE_WORDS[c]}, {part})" for c in self.cycles for part in ("sin", "cos")]
        names = super().output_names()
        return [*names[: self.linear], *circles, *names[self.linear :]]

    def accepts(self, kind: pa.DataType) -> bool:
        return (family(kind) == "text" and not holds_numbers(kind)) or family(kind) == "date or time"

    def _encode(self, values: np.ndarray, absent: np.ndarray, out: np.ndarray) -> None:
        """Write the cycles, where a missing date is the centre of every circle, then the years."""
        first = int(self.linear)
        for k, cycle in enumerate(self.cycles):
            angle = 2 * np.pi * cycle_position(values, cycle)
            out[:, first + 2 * k] = np.where(absent, 0.0, np.sin(angle))
            out[:, first + 2 * k + 1] = np.where(absent, 0.0, np.cos(angle))
        super()._encode(to_years(values), absent, out)

    def decode(self, part: np.ndarray) -> np.ndarray:
        if self.linear:
            return super().decode(part)
        # the angle says the time of day
        seconds = np.mod(np.arctan2(part[:, 0], part[:, 1]) / (2 * np.pi), 1.0) * DAY
        return self._decoded(seconds, self._absent(part))

    def _decoded(self, values: np.ndarray, absent: np.ndarray) -> np.ndarray:
        seconds = (values - 1970.0) * YEAR if self.linear else values
        whole = np.round(np.where(absent, 0.0, seconds) * 1e6).astype(np.int64)
        moments: np.ndarray = whole.astype("M8[us]")
        moments[absent] = np.datetime64("NaT")
        return moments

    @property
    def decoded_type(self) -> pa.DataType:
        return pa.timestamp("us") if self.linear else pa.time64("us")

    def decoded_cells(self, part: np.ndarray) -> pa.Array:
        return pa.array(self.decode(part)).cast(self.decoded_type)

    def decoded_numbers(self, decoded: pa.ChunkedArray) -> np.ndarray:
        return to_years(column_numbers(decoded))


def cycle_position(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """How much of a day, week or year is over, from 0 to 1."""
    if cycle == "year":
        whole = np.where(np.isnan(seconds), 0, seconds).astype(np.int64).astype("M8[s]").astype("M8[Y]")
        first, last = (edge.astype("M8[s]").astype(np.int64) for edge in (whole, whole + 1))
        return (seconds - first) / (last - first)
    start = -3 * DAY if cycle == "week" else 0.0  # the Monday before 1970
    length = CYCLES[cycle][0]
    return np.mod(seconds - start, length) / length


def to_years(seconds: np.ndarray) -> np.ndarray:
    """Seconds since 1970 as years: 2022.5 is the middle of 2022."""
    return 1970.0 + seconds / YEAR


def _moment(seconds: float, date_only: bool) -> str:
    moment = np.datetime64(round(seconds), "s")
    return str(moment.astype("M8[D]") if date_only else moment).replace("T", " ")
