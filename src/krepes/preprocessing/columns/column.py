"""A column of a table: what every kind of column can do, and the two kinds that learn nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from krepes.base.rows import EncodedColumn
from krepes.preprocessing.cells.grams import BUCKETS, hashed_groups
from krepes.preprocessing.column_values import example, family


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
        return 0

    @abstractmethod
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether cells of this type can be encoded."""
        return family(kind) == "text"

    def check_type(self, cells: pa.ChunkedArray) -> None:
        """Refuse text in place of numbers, and the reverse."""
        if not self.accepts(cells.type) and family(cells.type) != "empty":
            raise ValueError(
                f"Column {self.name!r} held {self.held} when the encoder was fitted; now it holds {cells.type} such "
                f"as {example(cells)}. Convert the column, or fit again."
            )

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

    @property
    def width(self) -> int:
        return BUCKETS

    def output_names(self) -> list[str]:
        return [f"{self.name}~{j}" for j in range(BUCKETS)]

    def encode(self, cells: pa.ChunkedArray, out: np.ndarray) -> None:
        out[:] = hashed_groups(cells.cast(pa.large_string()).combine_chunks())
