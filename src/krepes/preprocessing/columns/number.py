"""Columns of numbers, and of two words that are 1 and 0: standardised, with an indicator of missing values.

    heavy tail        kurtosis = mean of ((x - mean) / deviation)^4 > 5, without wild cells; Gaussian 3, exponential 9
    ranks             u(x) = share of values below x + half of those equal to x, by straight lines between 256 values
    squashed          u(x) = z / sqrt(1 + (z / 3)^2),    z = (x - median) / (quartile range / 1.349)

In a standardised column with a heavy tail most rows are nearly one number; ranks tell them apart. A curve u is
standardised in its turn. Values beyond both ends of the curve are moved to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from krepes.base.column_scale import ColumnSample
from krepes.base.rows import EncodedColumn
from krepes.base.storage.codec import Bounds, Shape
from krepes.preprocessing.column_values import (
    ColumnMoments,
    column_numbers,
    family,
    holds_numbers,
    text_chunks,
)
from krepes.preprocessing.columns.column import Column
from krepes.preprocessing.text_scan import FORMS, TextScan, folded, is_missing_number, number_words, read_form

GROSS = 5.0  # times the deviation of the usual values: the plain one says nothing of the column any more
FEW = 0.002  # of the values may be errors; more are a heavy tail
HEAVY = 5.0  # kurtosis
KNOTS = 256  # of a curve, at most
TAILS = ("ranks", "squash", "plain")


@dataclass(frozen=True, eq=False)
class Standardised(Column):
    """A column whose cells are numbers x, encoded as (x - mean) / scale.

    Attributes
    ----------
    mean, scale, median : float
        Of x. A missing value is encoded as the median.
    indicator : bool
        Whether values were missing, so that an output says it.
    form : str
        How cells of text are read: one of `column_scan.FORMS`.
    from_text : bool
        Whether the cells were text when the encoder was fitted.
    tolerant : bool
        Whether cells that cannot be read are missing; else they are errors.
    words : list of str, optional
        Words for missing values; None for the usual ones.
    unit : str, optional
        The unit that cells may have.
    curve : ndarray of shape (2, k)
        Numbers x and what they become, u, both increasing; mean and scale are then of u. Empty where u = x.
    """

    held = "numbers"

    mean: float
    scale: Annotated[float, Bounds(above=0)]
    median: float
    indicator: bool
    form: str = "decimal point"
    from_text: bool = False
    tolerant: bool = False
    words: list[str] | None = None
    unit: str | None = None
    curve: Annotated[np.ndarray, Shape(2, None)] = field(default_factory=lambda: np.empty((2, 0)))

    @property
    def pair(self) -> tuple[str, str]:
        """Words that may stand for 1 and 0, in small letters."""
        return "true", "false"

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"form={self.form!r} of a column: expected one of {', '.join(FORMS)}.")
        if not (np.isfinite(self.curve).all() and (np.diff(self.curve) > 0).all()):
            raise ValueError("The curve of a column does not increase.")

    @classmethod
    def learned(cls, name: str, moments: ColumnMoments, j: int, sample: ColumnSample, n_rows: int) -> Self:
        """Mean and population deviation of a column, 1 where it is constant.

        Where a few wild cells make up nearly all of the deviation, mean and scale come from the sample's usual
        values (`krepes.base.column_scale`): the other rows would become one number otherwise.
        """
        low, high = float(moments.low[j]), float(moments.high[j])
        mean, scale = float(moments.mean[j]), float(np.sqrt(moments.squares[j] / max(moments.count[j], 1)))
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
        return cls(name, detail, mean, scale, median, missing > 0)

    def noted(self, note: str, mark: str = "; ") -> Self:
        """The same column with a note before its detail."""
        return replace(self, detail=f"{note}{mark}{self.detail}")

    def output_names(self) -> list[str]:
        return [self.name] * self.linear + [f"{self.name} (missing)"] * self.indicator

    def read(self, cells: pa.ChunkedArray) -> np.ndarray:
        """Cells as finite numbers, typed or written as text; NaN where one is missing."""
        if family(cells.type) == "text" and not holds_numbers(cells.type):
            return self._read_text(cells)
        return column_numbers(cells, number_words(self.words) if self.words else ())

    def _read_text(self, cells: pa.ChunkedArray) -> np.ndarray:
        parts = [np.append(self._values(values), np.nan)[codes] for codes, values in text_chunks(cells)]
        return np.concatenate([np.empty(0), *parts])

    def _values(self, cells: list[str]) -> np.ndarray:
        """Cells of text as numbers, NaN where one is missing."""
        numbers = read_form(cells, self.form, self.words, self.unit)
        for i in np.flatnonzero(np.isnan(numbers)):
            if (cell := folded(cells[i])) in self.pair and self.form == "decimal point":
                numbers[i] = float(cell == self.pair[0])
            elif not (self.tolerant or is_missing_number(cells[i], self.words)):
                raise ValueError(
                    f"Column {self.name!r} held {self.held} when the encoder was fitted; now it holds a cell such as "
                    f"{cells[i]!r:.60}. Correct the cell or leave it empty, or fit again with the word in missing=."
                )
        return numbers

    def encode(self, cells: pa.ChunkedArray, out: np.ndarray) -> None:
        values = self.read(cells)
        if np.isinf(values).any():
            raise infinite([self.name])
        self._encode(values, np.isnan(values), out)

    def _encode(self, values: np.ndarray, absent: np.ndarray, out: np.ndarray) -> None:
        if absent.any():
            values[absent] = self.median
            if self.indicator:
                out[absent, -1] = 1.0
        if self.linear:
            out[:, 0] = (self.bent(values) - self.mean) / self.scale

    def bent(self, values: np.ndarray) -> np.ndarray:
        """Numbers x as u, which are standardised."""
        return np.interp(values, *self.curve) if self.curve.size else values

    def numbers(self, outputs: np.ndarray) -> np.ndarray:
        """Numbers x from standardised ones."""
        u = outputs * self.scale + self.mean
        return np.interp(u, *self.curve[::-1]) if self.curve.size else u

    @property
    def unit_of_digits(self) -> float:
        """A size in the unit of x, of whose digits a few are shown."""
        return float(np.ptp(self.curve[0])) / 10 if self.curve.size else self.scale

    def decode(self, part: np.ndarray) -> np.ndarray:
        return self._decoded(self.numbers(part[:, 0]), self._absent(part))

    def _absent(self, part: np.ndarray) -> np.ndarray:
        return part[:, -1] > 0.5 if self.indicator else np.zeros(len(part), dtype=bool)

    def _decoded(self, values: np.ndarray, absent: np.ndarray) -> np.ndarray:
        """Numbers as what they stand for."""
        return np.where(absent, np.nan, values)

    def placed(self, part: slice) -> EncodedColumn:
        places = tuple(range(part.start, part.stop))
        missing = places[-1] if self.indicator else None
        if self.linear:  # of a date, how late it is
            return EncodedColumn(self.name, "number", places, places[:1], missing)
        return EncodedColumn(self.name, "point", places, places[:-1] if self.indicator else places, missing)

    def decoded_numbers(self, decoded: pa.ChunkedArray) -> np.ndarray:
        """Cells that `decode` gave as the numbers that mean and scale are of; NaN where missing."""
        return decoded.to_numpy()


@dataclass(frozen=True, eq=False)
class Number(Standardised):
    """Numbers and durations."""

    role = "numeric"
    linear = True

    def with_tails(self, sample: ColumnSample, tails: str) -> Number:
        """The column on a curve where `tails`, one of TAILS, asks for it."""
        values = sample.values
        if tails == "plain" or (tails == "ranks" and not _heavy(sample)) or len(np.unique(values)) < 3:
            return self
        curve = _curve(values, tails)
        u = np.interp(values, *curve)
        words = "heavy tail, as ranks" if tails == "ranks" else "squashed"
        others = [part for part in self.detail.split("; ") if not part.startswith("mean ")]
        detail = "; ".join([words, *others])
        return replace(self, detail=detail, curve=curve, mean=float(u.mean()), scale=float(u.std()))

    def accepts(self, kind: pa.DataType) -> bool:
        return holds_numbers(kind) or family(kind) == "text" or pa.types.is_duration(kind)

    @property
    def decoded_type(self) -> pa.DataType:
        return pa.float64()


@dataclass(frozen=True, eq=False)
class YesNo(Number):
    """Two words as 1 and 0, which may also be written as numbers."""

    pair: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.pair) != 2:
            raise ValueError("A column has a pair of words that are not two.")

    @classmethod
    def of_words(cls, name: str, scan: TextScan, pair: Sequence[str], n_rows: int) -> YesNo:
        levels = (scan.levels or {}).items()
        yes, no = (sum(n for value, n in levels if folded(value) == word) for word in pair)
        count, share = yes + no, yes / (yes + no)
        found = (count, share, count * (share * (1 - share)), float(no == 0), float(yes > 0), False)
        values = np.array([1.0] * (yes >= no) + [0.0] * (no >= yes))  # whose median is that of all
        moments = ColumnMoments(*(np.array([value]) for value in found))
        column = cls.learned(name, moments, 0, ColumnSample.of(values), n_rows)
        column = column.noted(f"{pair[0]} is 1, {pair[1]} is 0")
        return replace(column, pair=(pair[0], pair[1]), from_text=True)

    def _values(self, cells: list[str]) -> np.ndarray:
        known = [self.pair.index(cell) if (cell := folded(each)) in self.pair else None for each in cells]
        if None in known:
            return super()._values(cells)
        return 1.0 - np.array(known, dtype=np.float64)

    def _decoded(self, values: np.ndarray, absent: np.ndarray) -> np.ndarray:
        yes, no = self.pair
        words = np.array([no, yes, None], dtype=object)
        return words[np.where(absent, 2, (values > 0.5).astype(int)).astype(int)]

    @property
    def decoded_type(self) -> pa.DataType:
        return pa.large_string()

    def decoded_numbers(self, decoded: pa.ChunkedArray) -> np.ndarray:
        return pc.equal(decoded, self.pair[0]).cast(pa.float64()).to_numpy()


def infinite(names: Sequence[str]) -> ValueError:
    """The error for infinite values in these columns."""
    return ValueError(
        f"Input X contains infinity in the columns {', '.join(map(repr, names))}. Replace infinite values by NaN, "
        "which is read as missing, or exclude the columns."
    )


def _few_unusual(sample: ColumnSample, low: float, high: float) -> tuple[float, float] | None:
    """Mean and deviation of the usual values of a column with this range; None where all are usual, or many not.

    Many far-out values are a heavy tail, which is part of the column: divided by a small deviation it would scatter.
    """
    values = sample.values
    if not len(values) or (sample.low <= low and high <= sample.high):
        return None
    usual = values[(values >= sample.low) & (values <= sample.high)]
    if len(values) - len(usual) > 1 + FEW * len(values):
        return None
    return float(usual.mean()), float(usual.std())


def _heavy(sample: ColumnSample) -> bool:
    """Whether the values have a heavy tail; a few wild cells are none."""
    values = sample.values
    usual = values[(values >= sample.low) & (values <= sample.high)]
    values = usual if len(values) - len(usual) <= 1 + FEW * len(values) else values
    deviation = values.std() if len(values) else 0.0
    return deviation > 0 and float((((values - values.mean()) / deviation) ** 4).mean()) > HEAVY


def _curve(values: np.ndarray, tails: str) -> np.ndarray:  # shape: (2, k)
    """Some of the values, evenly by rank, and what they become.

    >>> _curve(np.array([0.0, 0.0, 5.0, 90.0]), "ranks")
    array([[ 0.   ,  5.   , 90.   ],
           [ 0.25 ,  0.625,  0.875]])
    """
    x, counts = np.unique(values, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / len(values)
    knots = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS)).clip(max=len(x) - 1))
    if tails == "ranks":
        return np.stack([x[knots], ranks[knots]])
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    z = (x[knots] - median) / ((high - low) / 1.349 if high > low else (x[-1] - x[0]) / 2)
    squashed, kept = np.unique(z / np.sqrt(1 + np.square(z / 3)), return_index=True)
    return np.stack([x[knots][kept], squashed])
