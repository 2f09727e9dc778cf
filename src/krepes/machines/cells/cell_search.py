"""Lengthscale, penalty and metric for cells, by exact leave-one-out errors in some of them.

    (l, penalty)    downhill on a lattice: l in factors of 2, penalties in factors of sqrt 10; then a look beyond
    metric          M = (mean over cells and rows of grad f grad f^T)^(1/2), then (l, penalty) again, while errors fall

Pockets are neighbourhoods of about two cells, all of whose rows are at hand; in every metric they are split into cells
as the whole table would be. Gradients come from all of them, errors from the first few.

Cost: about ten fits of each of `n_cells` cells for the first metric, five for each later one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from krepes.kernels import Kernel
from krepes.machines.cells.all_rows import AllRows
from krepes.machines.cells.exact_cell import CellFit, fitted
from krepes.machines.cells.partition import Directions, grown
from krepes.machines.compared_errors import TriedByLeaveOneOut
from krepes.machines.input_metric import METRICS, gradient_outer_product, metric_of
from krepes.machines.kernel_search import InMetric, has_rule

MOST_CELLS = 20  # that gradients and the last comparison are taken from
LEFT_OUT = 400  # rows of every cell whose errors are compared
GRADIENT_ROWS = 200  # of every cell
STEP_LENGTH, STEP_PENALTY = 2.0, math.sqrt(10.0)
SLOPE = 2e-3  # relative gain for which a step is taken
WORTH = 0.01  # relative gain for which another metric is learned
MEDIAN_ROWS = 50  # of every cell, for the median distance
FIRST_LENGTH, FIRST_PENALTY = 0.25, 0.1  # in medians; of k(x, x) = 1
SHORTER = (4.0, 4.0)  # steps beyond the first valley, one after the other
SHORTEST, LONGEST, LEAST_PENALTY, MOST_PENALTY = 2.0**-7, 2.0**5, 1e-4, 1e3


@dataclass(frozen=True, eq=False)
class CellData:
    """Rows of one neighbourhood: X (n, d), Y (n, c), weight (n,) or None."""

    X: Tensor
    Y: Tensor
    weight: Tensor | None
    rows: AllRows | None = None

    @property
    def weights(self) -> Tensor:
        return torch.ones(len(self.X), dtype=torch.float64) if self.weight is None else self.weight

    def take(self, places: Tensor) -> CellData:
        weight, rows = self.weight, self.rows
        return CellData(
            self.X[places],
            self.Y[places],
            None if weight is None else weight[places],
            None if rows is None else rows.take(places),
        )


@dataclass
class CellSearch:
    """The search in some pockets.

    Attributes
    ----------
    pockets : list of CellData
    size : float
        Most rows of a cell.
    direction : Directions
    intercept : bool
    seed : int
    penalty : float or None
        None where it is searched.
    walks : bool
        Whether lengthscales are searched.
    n_cells : int
        Cells whose errors are compared.
    groups : lists of encoded columns that share a weight, or None
    """

    pockets: Sequence[CellData]
    size: float
    direction: Directions
    intercept: bool
    seed: int
    penalty: float | None = None
    walks: bool = True
    n_cells: int = 6
    groups: list[list[int]] | None = None
    tried: list[TriedByLeaveOneOut] = field(default_factory=list)

    def learned(
        self,
        kernel: Kernel,
        best: TriedByLeaveOneOut,
        kind: str | None,
        units: np.ndarray | None,
        steps: int,
    ) -> TriedByLeaveOneOut:
        """The best of the metrics learned one after the other; `units` are 1 / scale^2 of standardised columns."""
        for each in METRICS[kind]:
            last = best
            for step in range(1, steps + 1):
                M = self.metric_from(last, each == "full", units)
                if M is None:
                    break
                found = self.walk(kernel, M, f"{each} {step}", last)[0]
                gain = 1 - found.error / last.error if last.error else 0.0
                last = found
                best = found if found.error < best.error else best
                if gain < WORTH:
                    break
        return best

    def cells(self, M: np.ndarray | None) -> list[CellData]:
        """A cell of every pocket, in a metric; a second one of each, and more, where there are few pockets."""
        generator = torch.Generator().manual_seed(self.seed)
        scale = None if M is None else root_of(M)
        rounds: list[list[CellData]] = [[] for _ in range(max(1, MOST_CELLS // len(self.pockets)))]
        for pocket in self.pockets:
            tree = grown(pocket.X, self.size, self.direction, generator, scale)
            cells = tree.cells_of(pocket.X)
            drawn = cells[torch.randperm(len(cells), generator=generator)].tolist()  # large cells sooner
            for chosen, cell in zip(rounds, dict.fromkeys(drawn)):
                chosen.append(pocket.take((cells == cell).nonzero()[:, 0]))
        return [cell for chosen in rounds for cell in chosen]

    def walk(
        self, kernel: Kernel, M: np.ndarray | None, metric: str, start: TriedByLeaveOneOut | None = None
    ) -> tuple[TriedByLeaveOneOut, list[CellData]]:
        """Downhill in lengthscale and penalty, whichever are searched, from where another walk ended."""
        cells = self.cells(M)
        where = InMetric(kernel, M, torch.cat([cell.X[:MEDIAN_ROWS] for cell in cells]).double())
        walks, given = self.walks and has_rule(kernel), self.penalty
        known: dict[tuple[float, float], TriedByLeaveOneOut] = {}

        def at(length: float, penalty: float) -> TriedByLeaveOneOut:
            if (length, penalty) not in known:
                inner = where.at(length)
                some = cells[: self.n_cells]
                squares = [self.errors(inner, cell, penalty).square().sum(1) for cell in some]
                parts = [cell.weights[: len(each)] * each for cell, each in zip(some, squares)]
                errors = torch.cat(parts).numpy()
                known[length, penalty] = TriedByLeaveOneOut(
                    inner, metric, float(errors.mean()), length, penalty, errors
                )
                self.tried.append(known[length, penalty])
            return known[length, penalty]

        first = (FIRST_LENGTH, FIRST_PENALTY) if start is None else (start.medians, start.penalty)
        best = at(first[0] if walks else where.given_medians, given or first[1])
        moves = [(1 / STEP_LENGTH, 1.0), (STEP_LENGTH, 1.0)] if walks else []
        if given is None:
            moves += [(1.0, 1 / STEP_PENALTY), (1.0, STEP_PENALTY)]

        def lower(best: TriedByLeaveOneOut, ahead: tuple[float, float]) -> bool:
            return within(*ahead) and at(*ahead).error < (1 - SLOPE) * best.error

        def downhill(best: TriedByLeaveOneOut) -> TriedByLeaveOneOut:
            moved = True
            while moved:
                moved = False
                for longer, larger in moves:
                    ahead = rounded(best.medians * longer), rounded(best.penalty * larger)
                    while lower(best, ahead):
                        best, moved = at(*ahead), True
                        ahead = rounded(best.medians * longer), rounded(best.penalty * larger)
            return best

        best = downhill(best)
        for shorter in SHORTER if walks and start is None else ():  # errors may have a second valley
            over = rounded(best.medians / shorter), given or FIRST_PENALTY
            if lower(best, over):
                best = downhill(at(*over))
        return best, cells

    def left_over(self, tried: TriedByLeaveOneOut, M: np.ndarray | None) -> Tensor:
        """Errors of some rows left out of a cell of every pocket, (k, c)."""
        return torch.cat([self.errors(tried.kernel, cell, tried.penalty) for cell in self.cells(M)])

    def errors(self, kernel: Kernel, cell: CellData, penalty: float) -> Tensor:
        """Of some rows left out of a cell, (k, c)."""
        some = torch.arange(min(LEFT_OUT, len(cell.X)))
        return self.fit(kernel, cell, penalty, some).errors.double()

    def fit(self, kernel: Kernel, cell: CellData, penalty: float, some: Tensor | None) -> CellFit:
        return fitted(kernel, cell.X, cell.Y, cell.weight, penalty, self.intercept, some)

    def metric_from(
        self, tried: TriedByLeaveOneOut, full: bool, units: np.ndarray | None
    ) -> np.ndarray | None:
        """The metric that gradients of the cells' functions give; None where kernels have none, or they are zero."""
        M = tried.metric_matrix
        G: Tensor | float = 0.0
        for cell in self.cells(M):
            A = self.fit(tried.kernel, cell, tried.penalty, torch.arange(0)).A.to(cell.X)
            try:
                of_cell = gradient_outer_product(tried.kernel, cell.X[:GRADIENT_ROWS], cell.X, A, full=full)
            except TypeError:
                return None
            G = G + of_cell.double()
        assert isinstance(G, Tensor)
        return metric_of(G, self.groups, units, squared=True)


def within(length: float, penalty: float) -> bool:
    """Whether a place of the lattice may be tried; kernels without a lengthscale have NaN."""
    return (math.isnan(length) or SHORTEST <= length <= LONGEST) and LEAST_PENALTY <= penalty <= MOST_PENALTY


def rounded(value: float) -> float:
    """The same number for the same place of the lattice, however it was reached."""
    return value if math.isnan(value) else float(f"{value:.9g}")


def root_of(M: np.ndarray) -> Tensor:
    """M^(1/2), (d,) or (d, d)."""
    weights = torch.from_numpy(np.asarray(M, dtype=np.float64))
    if weights.ndim == 1:
        return weights.clamp(min=0).sqrt()
    values, vectors = torch.linalg.eigh(weights)
    return (vectors * values.clamp(min=0).sqrt()) @ vectors.mT
