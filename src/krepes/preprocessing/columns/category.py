"""Columns of categories: one output per level, most frequent first, then rare, missing and unseen values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa

from krepes.base.codec import Shape
from krepes.base.rows import EncodedColumn
from krepes.preprocessing.column_scan import TextScan
from krepes.preprocessing.column_values import holds_numbers, text_chunks
from krepes.preprocessing.columns.column import Column


@dataclass(frozen=True, eq=False)
class Category(Column):
    """A category, one-hot.

    Attributes
    ----------
    levels : list of str
    rare : array of int64, sorted
        Hashes of rare values, which share a level.
    missing : bool
        Whether missing values have a level.
    of_numbers : bool
        Whether the cells were numbers.
    words : list of str
        Words for missing values.
    """

    role = "category"
    from_text = True

    levels: list[str]
    rare: Annotated[np.ndarray, Shape(None, dtype="int64")]
    missing: bool
    of_numbers: bool
    words: list[str]

    @classmethod
    def learned(
        cls, field: pa.Field, scan: TextScan, words: list[str], min_count: float, max_levels: int
    ) -> Category:
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
        of_numbers = holds_numbers(field.type)
        return cls(field.name, detail, levels, np.sort(_hashes(rare)), missing > 0, of_numbers, words)

    @property
    def held(self) -> str:
        return "categories" if self.of_numbers else "text"

    @property
    def outcomes(self) -> list[str]:
        """The levels, in the order of the outputs."""
        rare, missing = ["(rare)"] * (len(self.rare) > 0), ["(missing)"] * self.missing
        return [*self.levels, *rare, *missing, "(unseen)"]

    @property
    def width(self) -> int:
        return len(self.levels) + (len(self.rare) > 0) + self.missing + 1

    def output_names(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.outcomes]

    def accepts(self, kind: pa.DataType) -> bool:
        return super().accepts(kind) or (self.of_numbers and holds_numbers(kind))

    def encode(self, cells: pa.ChunkedArray, out: np.ndarray) -> None:
        out[np.arange(len(cells)), self._codes(cells)] = 1.0

    def decode(self, part: np.ndarray) -> np.ndarray:
        """The largest of the levels, the first of equals; never the level of unseen values."""
        missing = [None] * self.missing
        names = np.array([*self.outcomes[: self.width - 1 - len(missing)], *missing], dtype=object)
        return names[part[:, : len(names)].argmax(axis=1)]

    def placed(self, part: slice) -> EncodedColumn:
        places = tuple(range(part.start, part.stop))
        return EncodedColumn(self.name, "category", places, places, places[-2] if self.missing else None)

    def _codes(self, cells: pa.ChunkedArray) -> np.ndarray:
        """Which output is 1, for every row."""
        code = {level: i for i, level in enumerate(self.levels)}
        unseen = self.width - 1
        rare = len(code) if len(self.rare) else unseen
        missing = unseen - 1 if self.missing else unseen
        words = set(self.words)
        codes = []
        for chunk, distinct in text_chunks(cells):
            found = [code.get(value, code.get(value.strip(), -1)) for value in distinct]
            known = np.array([*found, missing])  # the last is for missing, -1
            others = np.flatnonzero(known == -1)
            both = (_hashes([write(distinct[i]) for i in others]) for write in (str, str.strip))
            known[others] = np.where(np.any([np.isin(h, self.rare) for h in both], axis=0), rare, unseen)
            known[[i for i in others if distinct[i].strip() in words]] = missing
            codes.append(known[chunk])
        return np.concatenate(codes)


def _hashes(values: list[str]) -> np.ndarray:
    """64-bit hashes: enough to know a rare value again without storing what may be personal."""
    digests = [hashlib.blake2b(value.encode(), digest_size=8).digest() for value in values]
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
