"""What one scan learns about a column of text: how often each value occurs, and what its cells say.

Values are counted exactly, up to `MAX_DISTINCT` of them (a column with more is not a category). For each form of
numbers and dates that people write (`cells`) the scan knows how many cells have it, and the moments of what they say.
So the form is decided by the whole column, after one pass. Cells are read once per chunk for each distinct value. Cost
O(n d), memory O(chunk + levels).

MISSING are words for missing values in every column. In a column of numbers or dates, so are MORE_MISSING, which may be
levels of a category ("unknown", "none"). Capitals and spaces around make no difference for the latter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from krepes.preprocessing.cells.dates import DATE_FORMS, read_dates
from krepes.preprocessing.cells.numbers import (
    HAS_UNIT,
    NUMBER_FORMS,
    UNIT_FORMS,
    common_unit,
    read_numbers,
    read_with_unit,
    units_of,
)
from krepes.preprocessing.column_values import ColumnMoments, MomentTree, text_chunks

# what Arrow, pandas and R write or read as missing
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "n/a", "nan", "null",
)  # fmt: skip
MORE_MISSING = frozenset(
    (
        *(word.lower() for word in MISSING), "-", "--", "---", "–", "—", ".", "..", "...", "?", "??", "none",
        "nil", "unknown", "unk", "missing", "not available", "not applicable", "not known", "n.a.", "n.a", "na.", "tbd",
        "tba", "nat", "no data", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "(null)", "(blank)",
        "undefined", "unbekannt", "k.a.", "k. a.", "keine angabe", "keine", "fehlt", "entfällt", "inconnu", "nd",
        "n.d.", "nc", "n.c.", "desconocido", "s/d", "onbekend", "nvt", "n.v.t.", "sconosciuto", "brak",
    )
)  # fmt: skip
YES_NO = (
    ("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("on", "off"), ("ja", "nein"), ("j", "n"), ("ja", "nee"),
    ("wahr", "falsch"), ("oui", "non"), ("o", "n"), ("vrai", "faux"), ("sí", "no"), ("si", "no"), ("sì", "no"),
    ("s", "n"), ("sim", "não"), ("sim", "nao"), ("ja", "nej"), ("ja", "nei"), ("kyllä", "ei"), ("tak", "nie"),
    ("ano", "ne"), ("igen", "nem"), ("да", "нет"), ("evet", "hayır"), ("是", "否"), ("はい", "いいえ"),
)  # fmt: skip
MAX_DISTINCT = 100_000
FORMS = (*NUMBER_FORMS, *DATE_FORMS, *UNIT_FORMS)
MANY_UNITS = 20
_LIKE_A_VALUE = r"^.{0,60}$"  # and a digit: what may be a number or a date
_CODE = re.compile(r"[A-Z]{2}")
_FEWEST_CODES, _MOST_OTHERS = 3, 0.1
_COUNTS = ("n_missing", "n_words", "n_whole", "n_coded", "n_spelled", "n_cells")


class TextScan:
    """What the cells of a text column say.

    Parameters
    ----------
    words : words for missing values, None for the usual ones.

    >>> scan = TextScan()
    >>> scan.add(pa.chunked_array([["1,5", "2,5", "-", None]]))
    >>> scan.moments.count.tolist(), scan.moments.mean.tolist()[1], scan.n_missing, scan.unread("decimal comma")
    ([0, 2, 0, 0, 0, 0, 0, 2], 2.0, 1, [])
    """

    def __init__(self, words: Collection[str] | None = None):
        self.words = words
        self.levels: dict[str, int] | None = {}  # None: too many
        self.n_missing = 0  # cells without a value
        self.n_words = 0  # cells with a word for a missing value
        self.n_whole, self.n_coded = 0, 0  # digits only; digits that begin with a zero, as codes do
        self.n_spelled = 0  # words of two letters or more
        self.n_cells = 0  # of text
        self.units: set[str] = set()  # words behind numbers; no more are kept than say that they differ
        self.tree = MomentTree(len(FORMS))

    @property
    def moments(self) -> ColumnMoments:
        """Of what the cells say in every form."""
        return self.tree.total

    def add(self, column: pa.ChunkedArray, place: int = 0) -> None:
        """Add the cells of the chunk at this place."""
        said = np.full((len(FORMS), len(column)), np.nan)
        first = 0
        for codes, values in text_chunks(column):
            self._count(codes, values)
            forms = read_forms(values, self.words)
            if forms is not None:
                self._add_units(values, forms)
                said[:, first : first + len(codes)] = forms[:, codes]
            first += len(codes)
        if not np.isnan(said).all():
            self.tree = self.tree.with_chunk(place, ColumnMoments.of(said))

    def joined(self, other: TextScan) -> TextScan:
        """What the cells of both scans say, in this order."""
        both = TextScan(self.words)
        for name in _COUNTS:
            setattr(both, name, getattr(self, name) + getattr(other, name))
        both.units = self.units | other.units
        both.tree = self.tree.joined(other.tree)
        both.levels = None if self.levels is None or other.levels is None else dict(self.levels)
        both._count_levels((other.levels or {}).items())
        return both

    def _count(self, codes: np.ndarray, values: list[str]) -> None:
        counts = np.bincount(codes[codes >= 0], minlength=len(values))
        self._count_levels(zip(values, counts.tolist()))
        text = pa.array(values, pa.string())
        n_cells = int(counts.sum())
        self.n_cells += n_cells
        self.n_missing += len(codes) - n_cells
        self.n_words += int(counts[[is_missing_number(value, self.words) for value in values]].sum())
        self.n_whole += int(counts @ _matches(text, r"^\d+$"))
        self.n_coded += int(counts @ _matches(text, r"^0\d+$"))
        self.n_spelled += int(counts @ np.asarray(pc.count_substring_regex(text, r"\p{L}{2,}")))

    def _count_levels(self, counted: Iterable[tuple[str, int]]) -> None:
        if self.levels is None:
            return
        for value, n in counted:
            if n:
                value = value.strip()  # spaces around a level are nothing that anybody means
                self.levels[value] = self.levels.get(value, 0) + n
        if len(self.levels) > MAX_DISTINCT:
            self.levels = None

    def _add_units(self, values: list[str], forms: np.ndarray) -> None:
        if len(self.units) <= MANY_UNITS:
            places = np.flatnonzero(~np.isnan(forms[-len(UNIT_FORMS) :, :-1]).all(axis=0))
            found = units_of(pa.array([values[i] for i in places], pa.string()))
            self.units |= {unit for unit in found if unit is not None}

    @property
    def unit(self) -> str | None:
        """The unit of the numbers; None if there is none, or if there are several."""
        return common_unit(self.units) if self.units else None

    @property
    def n_said(self) -> int:
        """Cells that say something."""
        return self.n_cells - self.n_words

    def count(self, form: str) -> int:
        """Cells of this form; none have the form ""."""
        return int(self.moments.count[FORMS.index(form)]) if form else 0

    def share(self, form: str) -> float:
        """The share of a form among the cells that say something."""
        return self.count(form) / max(1, self.n_said)

    def best_form(self, forms: Iterable[str] = FORMS, clear: Collection[str] = ()) -> str:
        """The form that most cells have; "" for none. Of equals the first, but one in `clear` before the others."""
        known = [form for form in forms if form not in UNIT_FORMS or self.unit is not None]
        best = max(known, key=lambda form: (self.count(form), form == "year first", form in clear))
        return best if self.count(best) else ""

    def alike(self, form: str, other: str) -> bool:
        """Whether every cell of one form has the other too, with another meaning."""
        mean, other_mean = (self.moments.mean[FORMS.index(each)] for each in (form, other))
        return self.count(form) == self.count(other) and mean != other_mean

    @property
    def missing_words(self) -> list[str]:
        """The words for missing values in this column: not "NA" among codes of two capitals.

        >>> scan = TextScan()
        >>> scan.add(pa.chunked_array([["DE", "FR", "IT", "NA"]]))
        >>> "NA" in scan.missing_words, "NA" in TextScan().missing_words
        (False, True)
        """
        if self.words is not None:
            return ["", *self.words]
        others = [level for level in self.levels or () if not is_missing_number(level, None)]
        codes = sum(_CODE.fullmatch(level) is not None for level in others)
        kept = codes >= _FEWEST_CODES and codes >= (1 - _MOST_OTHERS) * len(others)
        return [word for word in MISSING if not (kept and word == "NA")]

    @property
    def values(self) -> dict[str, int]:
        """The levels that are values, with their numbers of cells; none where there are too many to keep."""
        words = set(self.missing_words)
        return {level: n for level, n in (self.levels or {}).items() if level not in words}

    def unread(self, form: str, sample: Sequence[str] = ()) -> list[str]:
        """Values that are not of a form, most frequent first; of a sample where there are too many levels to keep."""
        levels = self.levels
        cells = [cell for cell in levels or sample if not is_missing_number(cell, self.words)]
        numbers = read_form(cells, form, self.words, self.unit)
        found = [cell for cell, number in zip(cells, numbers) if np.isnan(number)]
        return found if levels is None else sorted(found, key=lambda cell: -levels[cell])


def folded(cell: str) -> str:
    return cell.strip().casefold()


def yes_and_no(levels: Iterable[str]) -> tuple[str, str] | None:
    """The pair of words for yes and no that a column consists of, in small letters; None if it does not.

    >>> yes_and_no(["No", "yes", "NO "]), yes_and_no(["yes", "no", "perhaps"])
    (('yes', 'no'), None)
    """
    found = {folded(level) for level in levels}
    return next((pair for pair in YES_NO if found == set(pair)), None)


def is_missing_number(cell: str, words: Collection[str] | None) -> bool:
    """Whether a cell in a column of numbers or dates says that a value is missing."""
    if words is None:
        return folded(cell) in MORE_MISSING
    return not cell.strip() or cell.strip() in words


def number_words(words: Collection[str] | None) -> list[float]:
    """Words for missing values that are numbers, such as -999."""
    if not words:
        return []
    found = read_numbers(pa.array(list(words), pa.string()), "decimal point")
    return found[~np.isnan(found)].tolist()


def read_form(
    cells: list[str], form: str, words: Collection[str] | None, unit: str | None = None
) -> np.ndarray:
    """Cells as numbers, or as seconds; NaN where they are not of this form, or a word for a missing value."""
    text = pa.array(cells, pa.string())
    if form in UNIT_FORMS:
        numbers = read_with_unit(text, form, unit)
    else:
        numbers = read_dates(text, form) if form in DATE_FORMS else read_numbers(text, form)
    if words:
        numbers[[is_missing_number(cell, words) for cell in cells]] = np.nan
    return numbers


def read_forms(cells: list[str], words: Collection[str] | None) -> np.ndarray | None:  # shape: (forms, n + 1)
    """Cells in every form, and NaN behind them for a missing cell; None if no cell has any form."""
    text = pa.array(cells, pa.string())
    if not (_matches(text, _LIKE_A_VALUE) & _matches(text, r"\d")).any():
        return None
    found = [read_form(cells, form, words) for form in FORMS[: -len(UNIT_FORMS)]]
    if _matches(text, HAS_UNIT).any():
        found += [read_form(cells, form, words) for form in UNIT_FORMS]
    else:
        found += found[: len(NUMBER_FORMS)]
    return np.pad(np.array(found), ((0, 0), (0, 1)), constant_values=np.nan)


def _matches(text: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(text, pattern).to_numpy(zero_copy_only=False)
