"""What the parameters of a machine ask of cells: how they are built, and when they come into question."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from krepes.base.blocks import Reader
from krepes.features import FeatureSpace, Run
from krepes.machines.cells.choosing import ENOUGH, Cells, LocalChoice, as_cells
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.kernel_search import KernelSearch
from krepes.machines.targets import Targets

FEW_LANDMARKS = 100  # in a space that cells replace


@dataclass(frozen=True)
class AskedCells:
    """The parameter `local` of a machine that may be in cells, and what goes with it.

    Attributes
    ----------
    local : True, "auto" or Cells
        As it was given.
    options : Cells
    compares : bool
        Whether landmarks compete; otherwise the machine must be in cells.
    penalty : float or "auto"
        Of a cell.
    intercept : bool
        Whether every cell has one.
    against : str or None
        Why other parameters do not go with cells, if they do not.
    """

    local: object
    options: Cells
    compares: bool
    penalty: float | str
    intercept: bool
    against: str | None

    @classmethod
    def of(
        cls, local: object, penalty: float | str, intercept: bool, against: str | None
    ) -> AskedCells | None:
        """None where `local` asks for landmarks."""
        asked = as_cells(local)
        return None if asked is None else cls(local, *asked, penalty, intercept, against)

    def may_serve(self, n_rows: int) -> bool:
        """Whether a fit of this many rows compares cells, or is in cells."""
        return not self.compares or n_rows >= ENOUGH * self.options.size

    def enough_landmarks(self, m: int | None) -> int | None:
        """Of m landmarks, those that a space needs: few, where cells take their place."""
        return m if m is None or self.compares or self.options.landmarks else min(m, FEW_LANDMARKS)

    def check_space(self, space: FeatureSpace | None) -> None:
        """Refuse a given space of landmarks where there must be cells."""
        if space is not None and not self.compares:
            raise ValueError(
                f"local={self.local!r}: space= is one of landmarks. Leave it out, or give local=False."
            )

    def plan(
        self,
        n_rows: int,
        space: FeatureSpace,
        reader: Reader,
        targets: Targets,
        run: Run,
        search: KernelSearch,
    ) -> LocalPlan | None:
        """How a machine for these rows is built, of which n count; None where only landmarks are possible."""
        reason = self.against
        if not isinstance(space.landmarks, Tensor) or space.landmarks.ndim != 2:
            reason = "cells are for rows of numbers and categories, not for images, objects or sparse rows"
        if self.compares and (reason is not None or not self.may_serve(n_rows)):
            return None
        self.check_possible(reason)
        return LocalChoice(
            self.options, self.compares, space, reader, targets, run, search, self.penalty, self.intercept
        ).choose()

    def check_possible(self, reason: str | None) -> None:
        """Refuse cells that are asked for and impossible, for this reason."""
        if reason is not None and not self.compares:
            raise ValueError(f"local={self.local!r}: {reason}. Give local=False.")

    def bytes_of(self, n_rows: int, width: int, itemsize: int, n_outputs: int) -> int:
        """About how much a model of this many encoded rows takes in cells, in memory and with its sums in a file."""
        of_row = itemsize * width + 24  # with its index, target and weight
        of_cells = self.options.n_partitions * (itemsize * n_outputs + 8)
        return n_rows * (of_row + of_cells)
