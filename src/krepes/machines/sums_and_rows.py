"""The pass of a machine that sums normal equations and keeps some of the rows.

    Total = equations + kept rows

Kept rows serve what needs single predictions: leave-one-out errors, calibration, conformal intervals.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import torch

from krepes.base.accumulator import Accumulator, Value
from krepes.base.blocks import Block
from krepes.base.codec import State, decode
from krepes.base.packing import digest
from krepes.base.rows import Rows
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeepRows, KeptRows

E = TypeVar("E", bound=Value)


@dataclass(frozen=True, eq=False)
class SumsAndRows(Generic[E]):
    """Sums over rows, and kept rows; None where there are none yet."""

    equations: E
    kept: KeptRows | None

    @property
    def n(self) -> float:
        return self.equations.n

    def __add__(self, other: Self) -> Self:
        mine, theirs = self.kept, other.kept
        kept = mine + theirs if mine is not None and theirs is not None else mine or theirs
        return type(self)(self.equations + other.equations, kept)

    def __sub__(self, other: Self) -> Self:
        kept = self.kept if self.kept is None or other.kept is None else self.kept - other.kept
        left = kept if kept is not None and len(kept.rows) else None
        return type(self)(self.equations - other.equations, left)

    def __mul__(self, factor: float) -> Self:
        return type(self)(self.equations * factor, None if self.kept is None else self.kept * factor)


V = TypeVar("V", bound=SumsAndRows)
Running = tuple[Any, KeptRows | None]


class SumsAndRowsPass(Accumulator[Running, V]):
    """Sums rows, and keeps a sample of them.

    Parameters
    ----------
    space : FeatureSpace
    equations : Accumulator
    n_outputs : int
        Columns of the targets.
    keeping : KeepRows
    settings : list
        Further numbers that the sums depend on.
    """

    total: type[V]

    def __init__(
        self, space: FeatureSpace, equations: Accumulator, n_outputs: int, keeping: KeepRows, settings: list
    ):
        self.space, self.equations, self.keeping = space, equations, keeping
        self.n_outputs = n_outputs
        self.settings = digest(settings)
        super().__init__()

    def divided(self, block: Block) -> tuple[Block, Block]:
        """The rows to sum, and the rows to keep."""
        return block, block

    @abstractmethod
    def check_total(self, total: V) -> None:
        """Refuse a total, from a file, that is not of this model."""

    def zero(self) -> Running:
        return self.equations.zero(), self.keeping.zero()

    def plus(self, sums: Running, block: Block) -> Running:
        summed, kept = sums
        to_sum, to_keep = self.divided(block)
        return (
            self.equations.plus(summed, to_sum) if len(to_sum) else summed,
            self.keeping.plus(kept, to_keep) if len(to_keep) else kept,
        )

    def joined(self, first: Running, second: Running) -> Running:
        return self.equations.joined(first[0], second[0]), self.keeping.joined(first[1], second[1])

    def settled(self, sums: Running) -> Running:
        return self.equations.settled(sums[0]), sums[1]

    def value(self, sums: Running) -> V:
        return self.total(self.equations.value(sums[0]), sums[1])

    def sums_state(self, sums: Running) -> State:
        return {"equations": self.equations.sums_state(sums[0]), "kept": self.keeping.sums_state(sums[1])}

    def sums_from(self, state: State) -> Running:
        return self.equations.sums_from(state["equations"]), self.keeping.sums_from(state["kept"])

    def value_from(self, state: State) -> V:
        total = decode(self.total, state, self.space.device, **self.sizes)
        if total.kept is not None and not alike(total.kept.inputs, self.space.landmarks):
            raise ValueError("The file is damaged: its kept rows are not rows of this model.")
        self.check_total(total)
        return total

    @property
    def sizes(self) -> dict[str, int]:
        return {"r": self.space.rank, "c": self.n_outputs}

    @property
    def device(self) -> torch.device:
        return self.space.device

    @property
    def bytes_per_row(self) -> int:
        return self.equations.bytes_per_row

    @property
    def bytes_of_sums(self) -> int:
        return self.equations.bytes_of_sums

    @property
    def n_parts(self) -> int:
        return self.equations.n_parts

    def fingerprint(self) -> dict[str, str]:
        return self.equations.fingerprint() | {"settings": self.settings}


def alike(inputs: Rows, landmarks: Rows) -> bool:
    """Whether rows are in the input space of the landmarks."""
    if type(inputs) is not type(landmarks):
        return False
    return isinstance(inputs, list) or inputs.shape[1:] == landmarks.shape[1:]  # type: ignore[union-attr]
