"""What a machine holds of cells: their plan, and while it is solved what was solved before."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.base.rows import Rows
from krepes.base.storage.checkpoint import Checkpoint, remove_checkpoint
from krepes.base.storage.codec import encode
from krepes.base.storage.packing import digest
from krepes.features import FeatureSpace, Run
from krepes.kernels.vectors import as_rows
from krepes.machines.cells.all_rows import AllRows
from krepes.machines.cells.cell_model import CellModel
from krepes.machines.cells.cell_solver import CellSolver
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.kept_rows import placed_blocks

QUERY_ROWS = 2**15  # predicted at once in cells, so that every cell has many


@dataclass(frozen=True, eq=False)
class HeldCells:
    """A value that a machine replaces; a machine on landmarks holds an empty one.

    Attributes
    ----------
    plan : LocalPlan or None
        How the machine is built, and what was compared.
    before : CellModel or None
        Cells that were solved earlier, of which those stay whose rows have not changed.
    checkpoint : path or None
        Of the fit that is under way.
    """

    plan: LocalPlan | None = None
    before: CellModel | None = None
    checkpoint: str | os.PathLike | None = None

    @property
    def cell_plan(self) -> LocalPlan | None:
        """The plan, if the machine is in cells."""
        return self.plan if self.plan is not None and self.plan.in_cells else None

    def solved(self, solver: CellSolver, n_outputs: int, run: Run, given: Tensor) -> tuple[CellModel, Tensor]:
        """Solved cells, and the errors of rows left out, (k, c); `given` is what they depend on beside the plan."""
        before, saved = None if solver.plan.on_residuals else self.before, None
        if self.checkpoint is not None:
            saved = Checkpoint(f"{self.checkpoint}.cells", {"cells": digest([encode(solver.plan), given])})
        found = solver.solve(n_outputs, run.engine, run.progress, before, saved)
        if saved is not None:
            remove_checkpoint(saved.path)
        return found

    def check(self, cells: CellModel | None, rows: AllRows | None, n_outputs: int) -> None:
        """Refuse cells of a file that are not of the plan and of all rows."""
        plan = self.cell_plan
        if (plan is None) != (cells is None):
            raise ValueError("The file is damaged: cells are there without a plan of them, or missing.")
        if plan is not None and cells is not None:
            inputs = cells.inputs if rows is None else rows.inputs
            if inputs is None:
                raise ValueError("The file is damaged: its cells have no rows.")
            cells.check_belongs(plan, inputs, n_outputs)


def score_in_cells(
    plan: LocalPlan, cells: CellModel, inputs: Tensor, space: FeatureSpace, A: Tensor, b: Tensor
) -> Callable[[Rows], Tensor]:
    """The function of rows that cells and landmarks are together, (b, c)."""

    def score(rows: Rows) -> Tensor:
        assert isinstance(rows, Tensor)
        found = plan.share * cells.scores(plan.kernel, inputs, as_rows(rows).cpu()).double() + b.cpu()
        if plan.uses_landmarks:
            parts = placed_blocks(rows, space.device)
            found += torch.cat([(space.features.kernel_block(part).double() @ A).cpu() for _, part in parts])
        return found

    return score
