"""A machine in cells: exact ridge functions of neighbourhoods, averaged over several partitions.

    f(x) = f_0(x) + mean over partitions p of  g_p,c(x),       c the cell of x in p,    g = A_c^T k(X_c, x) + b_c

f_0 is zero, or a function of landmarks, whose errors on rows that it has not seen the cells then learn. Cells without
rows predict the mean of the targets. A row that is left out changes its own cells alone: its error is the mean of
theirs. In the mean of both, cells and landmarks learn the targets, and f is a weighted mean of the two.

Memory: the rows, which are in a file where they are many. With centres, a model can do without its other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from krepes.base.storage import file_backed
from krepes.base.storage.codec import FLOATS, Bounds, Shape
from krepes.kernels import Kernel
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.cells.partition import Partition

Solved = dict[int, list[Tensor]]  # key of a cell -> A, b, likelihood


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
    likelihood : Tensor of shape (cells, 2)
        log |C| and sum Y * A of each cell, which its likelihood as a Gaussian process follows from.
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
    likelihood: Annotated[Tensor, Shape("l", 2)]
    left_rows: Annotated[Tensor, Shape("j", dtype="int64")]
    left_errors: Annotated[Tensor, Shape("j", "c")]

    def check_restored(self) -> None:
        n, cells = len(self.order), self.tree.n_cells
        edges = self.starts.tolist()
        right = len(edges) == cells + 1 == len(self.b) + 1 and edges == sorted(edges) and edges[-1] == n
        if not right or edges[0] != 0 or not torch.equal(self.order.sort().values, torch.arange(n)):
            raise ValueError("The file is damaged: its cells do not divide its rows.")
        if (self.left_rows.diff() < 0).any():
            raise ValueError("The file is damaged: the rows that its cells left out are not in order.")

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
        """Coefficients, intercepts and likelihoods by what they were solved from."""
        parts = self.A.split(self.starts.diff().tolist())
        return {key: found for key, *found in zip(self.keys.tolist(), parts, self.b, self.likelihood)}

    def only(self, used: Tensor, places: Tensor) -> SolvedPartition:
        """With the rows that are used, (n,), bool, alone; `places` (n,) are their new ones."""
        inside = used[self.order]
        before = torch.cat([torch.zeros(1, dtype=torch.int64), inside.cumsum(0)])
        return replace(
            self, order=places[self.order[inside]], starts=before[self.starts], A=self.A[inside].clone()
        )

    def left_coefficients(self, rows: Tensor) -> Tensor:
        """A of the rows that were left out, in the order of `left_rows`, (k, c); `rows` are global indices, (n,)."""
        numbers = rows[self.order]
        inside = torch.isin(numbers, self.left_rows)
        return self.A[inside][numbers[inside].argsort()].double()


def by_cell(cells: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Every cell that occurs, and the places where it does."""
    order = cells.argsort(stable=True)
    found, counts = cells[order].unique_consecutive(return_counts=True)
    yield from zip(found.tolist(), order.split(counts.tolist()))


@dataclass(frozen=True, eq=False)
class CellModel:
    """All partitions of a machine, solved.

    Attributes
    ----------
    partitions : list of SolvedPartition
    inputs : Tensor of shape (k, d) or None
        The centres of all cells, in a model without its other rows.
    """

    stays_on_cpu: ClassVar[bool] = True

    partitions: list[SolvedPartition]
    inputs: Annotated[Tensor | None, Shape("k", "d", dtype=FLOATS)] = None

    def centres_alone(self, inputs: Tensor) -> CellModel:
        """The same function, without the rows that no cell has as a centre."""
        used = torch.zeros(len(inputs), dtype=torch.bool)
        for part in self.partitions:
            used[part.order[(part.A != 0).any(1)]] = True
        places = used.cumsum(0) - 1
        return CellModel([part.only(used, places) for part in self.partitions], inputs[used])

    def check_belongs(self, plan: LocalPlan, inputs: Tensor, n_outputs: int) -> None:
        """Refuse cells of other rows, columns or outputs, or of another number of partitions."""
        n, d = inputs.shape
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
