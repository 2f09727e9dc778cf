"""Solves all cells of a machine, or those whose rows have changed.

Cost: O(n s^2) for cells of s rows. Memory: O(s^2) and the rows. Cells are independent: an engine of several workers
solves them as tasks. Cells whose rows did not change are not solved again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks
from krepes.base.reporting import Progress
from krepes.base.storage import file_backed
from krepes.base.storage.checkpoint import Checkpoint
from krepes.base.storage.codec import decode, encode
from krepes.engines import Engine
from krepes.kernels import Kernel
from krepes.machines.cells.all_rows import AllRows
from krepes.machines.cells.cell_model import CellModel, Solved, SolvedPartition
from krepes.machines.cells.exact_cell import CellFit, fitted, on_centres
from krepes.machines.cells.local_plan import LocalPlan, metric_root
from krepes.machines.cells.partition import DIRECTIONS, Partition, grown
from krepes.machines.targets import Targets

BLOCK = 2**15  # rows at once
TOO_LARGE = 1.5  # times the size that was asked for, above which a cell is split again


@dataclass(frozen=True, eq=False)
class CellProblem:
    """One cell as a task: its rows, what they miss of the targets, and which rows to leave out."""

    X: Tensor
    R: Tensor
    weight: Tensor | None
    left_out: Tensor


def solved_cell(
    kernel: Kernel, penalty: float, intercept: bool, centres: int | None, problem: CellProblem
) -> CellFit:
    """The fit of a cell; an engine may send it elsewhere."""
    given = kernel, problem.X, problem.R, problem.weight, penalty, intercept, problem.left_out
    return fitted(*given) if centres is None or centres >= len(problem.X) else on_centres(*given, centres)


@dataclass(frozen=True, eq=False)
class CellSolver:
    """Solves all cells of a plan.

    Attributes
    ----------
    plan : LocalPlan
    rows : AllRows
    weight : Tensor of shape (n,), float64
        Of the rows, with those of classes.
    residuals : function of places (k,) -> (k, c)
        What f_0, by a fit that has not seen them, and the mean leave over of the targets of rows.
    mean : Tensor of shape (c,)
        What cells shrink to; zero above landmarks.
    left_out : Tensor of shape (n,), bool
        Rows whose errors are wanted.
    intercept : bool
        Of every cell.
    """

    plan: LocalPlan
    rows: AllRows
    weight: Tensor
    residuals: Callable[[Tensor], Tensor]
    mean: Tensor
    left_out: Tensor
    intercept: bool

    @classmethod
    def of_targets(
        cls,
        plan: LocalPlan,
        rows: AllRows,
        weight: Tensor,
        targets: Targets,
        left_out: Tensor,
        *,
        centred: bool,
        intercept: bool,
    ) -> CellSolver:
        """Cells that learn the targets themselves, about their mean where they are `centred`."""
        mean = torch.zeros(targets.n_outputs, dtype=torch.float64)
        for part in row_blocks(len(rows) if centred else 0, BLOCK):
            mean += weight[part] @ targets.matrix(rows.y[part]) / weight.sum()

        def residuals(places: Tensor) -> Tensor:
            return targets.matrix(rows.y[places.numpy()]) - mean

        return cls(plan, rows, weight, residuals, mean, left_out, intercept)

    def solve(
        self,
        n_outputs: int,
        engine: Engine,
        progress: Progress,
        before: CellModel | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> tuple[CellModel, Tensor]:
        """The solved cells, and the errors of the rows left out, mean of the partitions, (k, c).

        Cells that were solved `before`, or are in the checkpoint of a fit that was interrupted, are taken from there.
        """
        restored = None if checkpoint is None else checkpoint.restored()
        if restored is not None:
            before = decode(CellModel, restored)
        trees = [self._refined(tree, number) for number, tree in enumerate(self.plan.partitions)]
        found: list[SolvedPartition] = []
        with progress.stage("Cells", sum(tree.n_cells for tree, _ in trees), "cells") as stage:

            def done(part: Callable[[], SolvedPartition]) -> None:
                """After every cell; `part` is the partition as far as it is solved."""
                stage.advance(1)
                file_backed.release()
                if checkpoint is not None:
                    checkpoint.offer(
                        lambda: encode(CellModel([*found, part()])), f"partition {len(found) + 1}"
                    )

            for number, (tree, cells) in enumerate(trees):
                known = before.partitions[number] if before and number < len(before.partitions) else None
                found.append(self._partition(tree, cells, n_outputs, engine, known, done))
        return CellModel(found), torch.stack([part.left_errors for part in found]).mean(0)

    def _refined(self, tree: Partition, number: int) -> tuple[Partition, Tensor]:
        """The tree with cells that are too large split again, and the cell of every row."""
        inputs, size = self.rows.inputs, self.plan.size
        cells = tree.cells_of(inputs)
        counts = cells.bincount(minlength=tree.n_cells)
        for cell in (counts > TOO_LARGE * size).nonzero()[:, 0].tolist():
            inside = (cells == cell).nonzero()[:, 0]
            inside = inside[self.rows.rows[inside].argsort()]
            generator = torch.Generator().manual_seed(1000 * number + cell)
            scale = metric_root(self.plan.kernel)
            more = grown(inputs[inside], size, DIRECTIONS[self.plan.directions], generator, scale)
            below = more.cells_of(inputs[inside])
            cells[inside] = torch.where(below == 0, cell, below - 1 + tree.n_cells)
            tree = tree.split_again(cell, more)
        return tree, cells

    def _partition(
        self,
        tree: Partition,
        cells: Tensor,
        n_outputs: int,
        engine: Engine,
        before: SolvedPartition | None,
        done: Callable[[Callable[[], SolvedPartition]], None],
    ) -> SolvedPartition:
        order = torch.from_numpy(np.lexsort((self.rows.rows.numpy(), cells.numpy())))
        counts = cells.bincount(minlength=tree.n_cells)
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        places, dtype = order.split(counts.tolist()), self.rows.inputs.dtype
        keys = [self._key(each) for each in places]
        A = file_backed.empty((len(order), n_outputs), dtype).zero_()
        b = self.mean.to(dtype).repeat(tree.n_cells, 1)
        likelihood = torch.zeros(tree.n_cells, 2, dtype=torch.float64)
        left_rows = self.rows.rows[self.left_out].sort().values
        errors = torch.full((len(left_rows), n_outputs), torch.nan, dtype=torch.float64)

        def at(cell: int) -> Tensor:
            """Where the errors of a cell's rows that are left out belong."""
            inside = places[cell]
            return torch.searchsorted(left_rows, self.rows.rows[inside[self.left_out[inside]]])

        known: Solved = {}
        if before is not None:
            known = before.solved_before()
            common = torch.isin(left_rows, before.left_rows)
            there = torch.searchsorted(before.left_rows, left_rows[common])
            errors[common] = before.left_errors[there]
        waiting = []
        for cell, key in enumerate(keys):
            single = len(places[cell]) == 1  # without its row, it is the mean of all others
            if key in known and not single and bool(torch.isfinite(errors[at(cell)]).all()):
                A[starts[cell] : starts[cell + 1]], b[cell], likelihood[cell] = known[key]
            elif len(places[cell]):
                waiting.append(cell)
        solved = torch.tensor(keys)
        solved[waiting] = 0

        def part() -> SolvedPartition:
            left = left_rows, torch.nan_to_num(errors)
            return SolvedPartition(tree, order, starts, A, b, solved, likelihood, *left)

        plan = self.plan
        task = partial(solved_cell, plan.kernel, plan.penalty, self.intercept, plan.centres)
        for cell, fit in zip(waiting, engine.each(task, (self.problem(places[cell]) for cell in waiting))):
            A[starts[cell] : starts[cell + 1]], b[cell] = fit.A.to(dtype), (self.mean + fit.b).to(dtype)
            errors[at(cell)], likelihood[cell] = fit.errors.double(), fit.likelihood
            solved[cell] = keys[cell]
            done(part)
        return part()

    def problem(self, places: Tensor) -> CellProblem:
        """The cell of these rows."""
        weight = self.weight[places]
        return CellProblem(
            self.rows.inputs[places],
            self.residuals(places),
            None if bool((weight == 1).all()) else weight,
            self.left_out[places].nonzero()[:, 0],
        )

    def _key(self, places: Tensor) -> int:
        """A hash of the rows of a cell, their targets and weights."""
        digest, rows = hashlib.blake2b(digest_size=8), self.rows
        inputs, numbers, weight = rows.inputs[places], rows.rows[places], self.weight[places]
        for part in (inputs.numpy(), numbers.numpy(), weight.numpy(), rows.y[places.numpy()]):
            digest.update(np.ascontiguousarray(part).tobytes())
        return int.from_bytes(digest.digest(), "little", signed=True)
