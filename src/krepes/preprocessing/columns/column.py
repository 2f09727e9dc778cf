"""A column of a table: what every kind of column can do; categories, running text, and columns left out."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from krepes.base.rows import EncodedColumn
from krepes.base.storage.codec import Shape
from krepes.preprocessing.cells.grams import BUCKETS, hashed_groups
from krepes.preprocessing.column_values import family, holds_numbers, text_chunks
from krepes.preprocessing.text_scan import TextScan


@dataclass(frozen=True, eq=False)
class Column(ABC):
    """A column and its encoding.

    Attributes
    ----------
    name : str
    detail : str
        What a person wants to know of the encoding, or why the column is left out.
    """

    name: str
    detail: str

    @property
    @abstractmethod
    def role(self) -> str:
        """The kind of column in a word, for people."""

    @property
    def held(self) -> str:
        """What the cells are, in errors."""
        return "text"

    @property
    def linear(self) -> bool:
        """Whether the first output is a standardised number."""
        return False

    @property
    def from_text(self) -> bool:
        """Whether its cells are needed as they are written in a file."""
        return False

    @property
    def width(self) -> int:
        """The number of outputs."""
        return len(self.output_names())

    @abstractmethod
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether cells of this type can be encoded."""
        return family(kind) == "text"

    @abstractmethod
    def encode(self, cells: pa.ChunkedArray, out: np.ndarray) -> None:  # shape of out: (n, width), zeros
        """Write the numbers of some cells."""

    def decode(self, part: np.ndarray) -> np.ndarray:  # shape: (n, width)
        """Cells from numbers that need not be exact encodings; None where they cannot be read back."""
        return np.full(len(part), None, dtype=object)

    @property
    def decoded_type(self) -> pa.DataType:
        """The type of decoded cells in a table."""
        return pa.large_string()

    def decoded_cells(self, part: np.ndarray) -> pa.Array:
        """Decoded cells as Arrow keeps them; NaN and NaT are missing."""
        return pa.array(self.decode(part), self.decoded_type, from_pandas=True)

    def placed(self, part: slice) -> EncodedColumn:
        """Where the numbers are in a row, and which of them to compare."""
        places = tuple(range(part.start, part.stop))
        return EncodedColumn(self.name, "point", places, places)

    def facts(self) -> dict[str, Any]:
        """Role and encoding as plain values, for people and for JSON."""
        learned = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "name"}
        return {"column": self.name, "role": self.role, "n_outputs": self.width, **learned}


@dataclass(frozen=True, eq=False)
class LeftOut(Column):
    """A column that is not a feature: an id, the label, an excluded column, or one that says nothing."""

    role: str = "left out"  # or "label", or "excluded"

    def output_names(self) -> list[str]:
        return []

    def encode(self, cells: pa.ChunkedArray, out: np.ndarray) -> None:
        """Nothing is written."""


@dataclass(frozen=True, eq=False)
class Text(Column):
    """Running text: groups of characters, hashed (`cells.grams`). It cannot be read back."""

    role = "text"

    @classmethod
    def learned(cls, name: str) -> Text:
        return cls(name, f"running text: groups of 3 characters in {BUCKETS} columns")

    def output_names(self) -> list[str]:
        return [f"{self.name}~{j}" for j in range(BUCKETS)]

    def encode(self, cells: pa.ChunkedArray, out: np.ndarray) -> None:
        out[:] = hashed_groups(cells.cast(pa.large_string()).combine_chunks())


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
    def learned(cls, field: pa.Field, scan: TextScan, min_count: float, max_levels: int) -> Category:
        counts = scan.values
        ordered = sorted(counts, key=lambda value: (-counts[value], value))
        levels = [value for value in ordered[:max_levels] if counts[value] >= min_count]
        rare, missing = ordered[len(levels) :], scan.n_missing + scan.n_cells - sum(counts.values())
        detail = f"{len(levels):,} level{'s' * (len(levels) != 1)}"
        if rare:
            detail += f", {len(rare):,} rare as one" + (", which says nothing" if not levels else "")
        if missing:
            detail += f", {missing:,} missing as one"
        hashes, of_numbers = np.sort(_hashes(rare)), holds_numbers(field.type)
        return cls(field.name, detail, levels, hashes, missing > 0, of_numbers, scan.missing_words)

    @property
    def held(self) -> str:
        return "categories" if self.of_numbers else "text"

    @property
    def outcomes(self) -> list[str]:
        """The levels, in the order of the outputs."""
        rare, missing = ["(rare)"] * (len(self.rare) > 0), ["(missing)"] * self.missing
        return [*self.levels, *rare, *missing, "(unseen)"]

    def output_names(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.outcomes]

    def accepts(self, kind: pa.DataType) -> bool:
        return super().accepts(kind) or (self.of_numbers and holds_numbers(kind))

    def encode(self, cells: pa.ChunkedArray, out: np.ndarray) -> None:
        out[np.arange(len(cells)), self._codes(cells)] = 1.0

    def decode(self, part: np.ndarray) -> np.ndarray:
        """The largest of the levels, the first of equals; never the level of unseen values."""
        missing = [None] * self.missing
        names = np.array([*self.outcomes[: -1 - len(missing)], *missing], dtype=object)
        return names[part[:, : len(names)].argmax(axis=1)]

    def placed(self, part: slice) -> EncodedColumn:
        places = tuple(range(part.start, part.stop))
        return EncodedColumn(self.name, "category", places, places, places[-2] if self.missing else None)

    def _codes(self, cells: pa.ChunkedArray) -> np.ndarray:
        """Which output is 1, for every row."""
        code = {level: i for i, level in enumerate(self.levels)}
        unseen = len(self.outcomes) - 1
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
