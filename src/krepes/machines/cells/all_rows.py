"""All rows of a fit, kept: in cells every training row is a centre.

Rows of two parts of the data together are the rows of both, and a row is taken away by its global index, so that
`partial_fit`, `merge` and `forget` are exact. Memory: 24 bytes for each, and the rows in the precision of the model;
more than 512 MB of them are in a temporary file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.storage import file_backed
from krepes.base.storage.codec import FLOATS, Bounds, Shape, State, decode, encode
from krepes.kernels.vectors import as_rows


@dataclass(frozen=True, eq=False)
class AllRows:
    """Rows in the order in which they were added.

    Attributes
    ----------
    rows : Tensor of shape (n,), int64
        Global indices.
    inputs : Tensor of shape (n, d)
    y : ndarray of shape (n, ...)
        Encoded targets.
    weight : Tensor of shape (n,), float64
    """

    stays_on_cpu: ClassVar[bool] = True

    rows: Annotated[Tensor, Shape("k", dtype="int64"), Bounds(least=0)]
    inputs: Annotated[Tensor, Shape("k", "d", dtype=FLOATS)]
    y: Annotated[np.ndarray, Shape("k", ..., dtype=("float64", "int64"))]
    weight: Annotated[Tensor, Shape("k"), Bounds(above=0)]

    def check_restored(self) -> None:
        if len(self.rows.unique()) < len(self.rows):
            raise ValueError("The file is damaged: a row of its cells is there twice.")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n(self) -> float:
        return self.weight.sum().item()

    def take(self, places: Tensor) -> AllRows:
        return AllRows(self.rows[places], self.inputs[places], self.y[places.numpy()], self.weight[places])

    def __add__(self, other: AllRows) -> AllRows:
        return together((self, other))

    def __sub__(self, other: AllRows) -> AllRows:
        return self.take((~torch.isin(self.rows, other.rows)).nonzero()[:, 0])

    def __mul__(self, factor: float) -> AllRows:
        scaled = replace(self, weight=self.weight * factor)
        counting = scaled.weight > 0
        return scaled if bool(counting.all()) else scaled.take(counting.nonzero()[:, 0])


def together(parts: tuple[AllRows, ...]) -> AllRows:
    """The rows of several parts."""
    if len(parts) == 1:
        return parts[0]
    return AllRows(
        torch.cat([part.rows for part in parts]),
        file_backed.concatenated([part.inputs for part in parts]),
        np.concatenate([part.y for part in parts]),
        torch.cat([part.weight for part in parts]),
    )


Pieces = tuple[AllRows, ...]


class KeepAllRows(Accumulator[Pieces, AllRows | None]):
    """Keeps every row whose weight is not zero."""

    def zero(self) -> Pieces:
        return ()

    def of(self, block: Block) -> AllRows:
        """The rows of a block that are kept."""
        inputs = block.inputs[0]
        assert isinstance(inputs, Tensor)
        assert block.y is not None
        weight = np.ones(len(block)) if block.weight is None else block.weight.copy()
        found = AllRows(
            block.rows.clone(), as_rows(inputs).cpu().clone(), np.array(block.y), torch.from_numpy(weight)
        )
        return found if weight.all() else found.take(torch.from_numpy(np.flatnonzero(weight)))

    def plus(self, sums: Pieces, block: Block) -> Pieces:
        return (*sums, self.of(block))

    def joined(self, first: Pieces, second: Pieces) -> Pieces:
        return first + second

    def settled(self, sums: Pieces) -> Pieces:
        """Pieces of similar length are joined, so that there are never many."""
        pieces = list(sums)
        while len(pieces) > 1 and len(pieces[-2]) < 2 * len(pieces[-1]):
            last = pieces.pop()
            pieces[-1] = together((pieces[-1], last))
        return tuple(pieces)

    def value(self, sums: Pieces) -> AllRows | None:
        return together(sums) if sums else None

    def sums_state(self, sums: Pieces) -> State:
        return {"rows": encode(self.value(sums))}

    def sums_from(self, state: State) -> Pieces:
        return () if state["rows"] is None else (decode(AllRows, state["rows"]),)
