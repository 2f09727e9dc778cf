"""A machine in cells: exact ridge functions of neighbourhoods, averaged over several partitions.

    f(x) = f_0(x) + mean over partitions p of  g_p,c(x),       c the cell of x in p,    g = A_c^T k(X_c, x) + b_c

f_0 is zero, or a function of landmarks, whose errors on rows that it has not seen the cells then learn. Cells without
rows predict the mean of the targets. A row that is left out changes its own cells alone: its error is the mean of
theirs.

Cost: O(n s^2) for cells of s rows. Memory: O(s^2) and the rows, which are in a file where they are many. Cells are
independent: an engine of several workers solves them as tasks. Cells whose rows did not change are not solved again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from krepes.base import file_backed
from krepes.base.checkpoint import Checkpoint
from krepes.base.codec import FLOATS, Bounds, Shape, decode, encode
from krepes.base.reporting import Progress
from krepes.engines import Engine
from krepes.kernels import Kernel, Reweighted
from krepes.machines.cells.all_rows import AllRows
from krepes.machines.cells.exact_cell import CellFit, fitted
from krepes.machines.cells.partition import DIRECTIONS, Partition, grown

KINDS = ("landmarks", "cells", "landmarks and cells")
Solved = dict[int, tuple[Tensor, Tensor]]  # key of a cell -> A, b
TOO_LARGE = 1.5  # times the size that was asked for, above which a cell is split again


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """What is fixed before the pass over all rows.

    Attributes
    ----------
    kind : "landmarks", "cells" or "landmarks and cells"
    kernel : Kernel
        Of the cells, with its metric; where landmarks were chosen, of the cells that they were compared with.
    metric : str
    penalty : float
    size : int
        Rows of a cell, at most about.
    directions : str
    partitions : list of Partition
    errors : dict of str -> float
        Mean squared errors of rows left out, of every kind of machine that was compared.
    n_compared : int
        Rows that these errors are of.
    """

    kind: str
    kernel: Kernel
    metric: str
    penalty: Annotated[float, Bounds(above=0)]
    size: Annotated[int, Bounds(least=2)]
    directions: str
    partitions: list[Partition]
    errors: dict[str, float] = field(default_factory=dict)
    n_compared: int = 0

    def check_restored(self) -> None:
        known = self.kind in KINDS and self.directions in DIRECTIONS
        if not known or self.in_cells != bool(self.partitions):
            raise ValueError("The file is damaged: its cells are not of a kind that this version knows.")

    @property
    def in_cells(self) -> bool:
        return self.kind != "landmarks"

    @property
    def uses_landmarks(self) -> bool:
        return self.kind != "cells"

    def __str__(self) -> str:
        if not self.errors:
            return f"{self.kind}, as asked for"
        lines = [f"Squared errors of {self.n_compared:,} rows left out:"]
        for kind, error in self.errors.items():
            lines.append(f"  {kind:<20} {error:.4f}{'  <- chosen' if kind == self.kind else ''}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class SolvedPartition:
    """The cells of one partition.

    Attributes
    ----------
    tree : Partition
        With cells that were too large split again.
    order : Tensor of shape (n,), int64
        Places of the rows, cell by cell.
    starts : Tensor of shape (cells + 1,), int64
        Where each cell begins in that order.
    A : Tensor of shape (n, c)
        Coefficients, in that order.
    b : Tensor of shape (cells, c)
    keys : Tensor of shape (cells,), int64
        Hashes of what each cell was solved from; zero if it is not solved yet.
    left_rows : Tensor of shape (k,), int64
        Global indices of rows that were left out, in order.
    left_errors : Tensor of shape (k, c)
    """

    stays_on_cpu: ClassVar[bool] = True

    tree: Partition
    order: Annotated[Tensor, Shape("n", dtype="int64"), Bounds(least=0)]
    starts: Annotated[Tensor, Shape("k", dtype="int64"), Bounds(least=0)]
    A: Annotated[Tensor, Shape("n", "c", dtype=FLOATS)]
    b: Annotated[Tensor, Shape("l", "c", dtype=FLOATS)]
    keys: Annotated[Tensor, Shape("l", dtype="int64")]
    left_rows: Annotated[Tensor, Shape("j", dtype="int64")]
    left_errors: Annotated[Tensor, Shape("j", "c")]

    def check_restored(self) -> None:
        n, cells = len(self.order), self.tree.n_cells
        edges = self.starts.tolist()
        right = len(edges) == cells + 1 == len(self.b) + 1 and edges == sorted(edges) and edges[-1] == n
        if not right or edges[0] != 0 or not torch.equal(self.order.sort().values, torch.arange(n)):
            raise ValueError("The file is damaged: its cells do not divide its rows.")

    def places(self, cell: int) -> Tensor:
        """Of the rows of a cell."""
        return self.order[self.starts[cell] : self.starts[cell + 1]]

    def scores(self, kernel: Kernel, inputs: Tensor, X: Tensor) -> Tensor:
        """g(x) of rows X (b, d), of which those of a cell are compared with its rows together: (b, c)."""
        found = torch.zeros(len(X), self.b.shape[1], dtype=X.dtype)
        for cell, queries in by_cell(self.tree.cells_of(X)):
            rows = self.places(cell)
            found[queries] = self.b[cell].to(X)
            if len(rows):
                A = self.A[self.starts[cell] : self.starts[cell + 1]].to(X)
                found[queries] += kernel(X[queries], inputs[rows]) @ A
        file_backed.release()
        return found

    def solved_before(self) -> Solved:
        """Coefficients and intercepts by what they were solved from."""
        parts = self.A.split(self.starts.diff().tolist())
        return {key: (A, b) for key, A, b in zip(self.keys.tolist(), parts, self.b)}


def by_cell(cells: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Every cell that occurs, and the places where it does."""
    order = cells.argsort(stable=True)
    found, counts = cells[order].unique_consecutive(return_counts=True)
    yield from zip(found.tolist(), order.split(counts.tolist()))


@dataclass(frozen=True, eq=False)
class CellModel:
    """All partitions of a machine, solved."""

    partitions: list[SolvedPartition]

    def check_belongs(self, plan: LocalPlan, rows: AllRows, n_outputs: int) -> None:
        """Refuse cells of other rows, columns or outputs, or of another number of partitions."""
        n, d = rows.inputs.shape
        right = len(self.partitions) == len(plan.partitions) > 0
        for part in self.partitions:
            right &= (
                len(part.order) == n and part.tree.directions.shape[1] == d and part.A.shape[1] == n_outputs
            )
        right &= all(tree.directions.shape[1] == d for tree in plan.partitions)
        if not right:
            raise ValueError("The file is damaged: its cells are of other rows.")

    def scores(self, kernel: Kernel, inputs: Tensor, X: Tensor) -> Tensor:
        """The mean of the partitions, (b, c)."""
        total = self.partitions[0].scores(kernel, inputs, X)
        for part in self.partitions[1:]:
            total += part.scores(kernel, inputs, X)
        return total / len(self.partitions)


@dataclass(frozen=True, eq=False)
class CellProblem:
    """One cell as a task: its rows, what they miss of the targets, and which rows to leave out."""

    X: Tensor
    R: Tensor
    weight: Tensor | None
    left_out: Tensor


def solved_cell(kernel: Kernel, penalty: float, intercept: bool, problem: CellProblem) -> CellFit:
    """The fit of a cell; an engine may send it elsewhere."""
    return fitted(kernel, problem.X, problem.R, problem.weight, penalty, intercept, problem.left_out)


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
    """

    plan: LocalPlan
    rows: AllRows
    weight: Tensor
    residuals: Callable[[Tensor], Tensor]
    mean: Tensor
    left_out: Tensor
    intercept: bool

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
                A[starts[cell] : starts[cell + 1]], b[cell] = known[key]
            elif len(places[cell]):
                waiting.append(cell)
        solved = torch.tensor(keys)
        solved[waiting] = 0

        def part() -> SolvedPartition:
            return SolvedPartition(tree, order, starts, A, b, solved, left_rows, torch.nan_to_num(errors))

        task = partial(solved_cell, self.plan.kernel, self.plan.penalty, self.intercept)
        for cell, fit in zip(waiting, engine.each(task, (self.problem(places[cell]) for cell in waiting))):
            A[starts[cell] : starts[cell + 1]], b[cell] = fit.A.to(dtype), (self.mean + fit.b).to(dtype)
            errors[at(cell)] = fit.errors.double()
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


def metric_root(kernel: Kernel) -> Tensor | None:
    """M^(1/2) of a kernel with a metric, (d,) or (d, d)."""
    return kernel._root() if isinstance(kernel, Reweighted) else None
