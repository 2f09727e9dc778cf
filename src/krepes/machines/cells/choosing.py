"""Landmarks, cells, cells on what landmarks leave over, or the mean of both: compared by errors of rows left out.

    sample of rows      -> landmarks' fits without each fold -> their errors
    pockets of rows     -> kernel, metric, lengthscale and penalty of cells -> errors of rows left out of cells
    the same pockets    -> the same for what the landmarks' fits without a row's fold leave over of it
    both errors         -> the share w for which the errors (1 - w) e_landmarks + w e_cells are the smallest

Landmarks stay unless another machine is better by more than chance explains. The mean of both must also be better by a
hundredth, because it takes the time of both. Two reads of the rows, and memory for a
sample and the pockets, about 80 000 rows in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.blocks import Block, Reader
from krepes.base.components import Component
from krepes.base.split import ByFold, Parts, Split
from krepes.base.validation import check_choice, check_count
from krepes.features import FeatureSpace, Run
from krepes.features.choices import LandmarkRows
from krepes.features.kernel_choice import clearly_lower
from krepes.kernels import Kernel, Reweighted
from krepes.kernels.vectors import RadialKernel
from krepes.machines.cells.all_rows import AllRows, KeepAllRows
from krepes.machines.cells.cell_search import LEFT_OUT, WORTH, CellData, CellSearch
from krepes.machines.cells.local_plan import LocalPlan, metric_root
from krepes.machines.cells.partition import DIRECTIONS, Partition, grown
from krepes.machines.compared_errors import TriedByLeaveOneOut
from krepes.machines.kept_rows import KeepRows, KeptRows, placed_blocks
from krepes.machines.kernel_search import KernelSearch, standardising
from krepes.machines.normal_equations import NormalEquations
from krepes.machines.targets import Targets
from krepes.regression.ridge_algebra import FoldErrors, NormalSums, penalty_grid

SAMPLE, TREE_ROWS = 20_000, 50_000  # rows that landmarks are tried on, and that trees are grown from
N_POCKETS, POCKET = 20, 4  # pockets, and cells that fit into one
METRIC_STEPS = 6
FOLDS = 5  # without which landmarks are tried
ENOUGH = 2  # cells that a table must have rows for, before they are tried


class Cells(Component):
    """How a machine in cells is built: `local=Cells(...)`.

    Parameters
    ----------
    size : int, default=2000
        Rows of a cell, at most about. Time grows with it, as its square for every row.
    n_partitions : int, default=2
        Ways to divide the rows whose predictions are averaged. Each takes as long as the first.
    directions : "pairs", "columns" or "leading", default="pairs"
        Cells are split across the line through two random rows, across a column, or across the direction in which rows
        differ most; in the learned metric.
    landmarks : bool, default=False
        Whether cells learn what a machine with landmarks leaves over, instead of the targets themselves.
    centres : int, default=None
        Rows that the function of a cell is made of, chosen by pivoted Cholesky; None is all. A model that is saved
        without sums then holds these alone: it is smaller, faster and less accurate.
    """

    def __init__(
        self,
        size: int = 2000,
        n_partitions: int = 2,
        directions: str = "pairs",
        landmarks: bool = False,
        centres: int | None = None,
    ):
        self.size = size
        self.n_partitions = n_partitions
        self.directions = directions
        self.landmarks = landmarks
        self.centres = centres

    def check(self) -> None:
        check_count("size", self.size, 10)
        check_count("n_partitions", self.n_partitions)
        check_choice("directions", self.directions, DIRECTIONS)
        if not isinstance(self.landmarks, bool):
            raise ValueError(f"landmarks={self.landmarks!r}: expected True or False.")
        if self.centres is not None:
            check_count("centres", self.centres)

    def typical(self, n_rows: int) -> float:
        """Rows of a cell of this many rows, if all are equally large."""
        return n_rows / 2 ** max(0, math.ceil(math.log2(n_rows / self.size)))


class KeepCells(KeepAllRows):
    """Keeps the rows of some cells."""

    def __init__(self, tree: Partition, cells: Tensor):
        self.tree, self.cells = tree, cells
        super().__init__()

    def of(self, block: Block) -> AllRows:
        found = super().of(block)
        return found.take(torch.isin(self.tree.cells_of(found.inputs), self.cells).nonzero()[:, 0])


@dataclass(frozen=True, eq=False)
class LandmarkFits:
    """Ridge regression on features of a sample: one fit without each fold."""

    space: FeatureSpace
    folds: ByFold
    without: dict[int, tuple[Tensor, Tensor]]

    @classmethod
    def of(
        cls,
        space: FeatureSpace,
        targets: Targets,
        kept: KeptRows,
        penalty: float | str,
        intercept: bool,
    ) -> LandmarkFits:
        folds = ByFold(FOLDS, space.seed)
        sums = Split(NormalEquations(space, targets), folds, FOLDS)
        block = kept.block()
        for part, rows in placed_blocks(kept.inputs, space.device):
            sums.add(replace(block[part], inputs=(rows,)))
        parts: Parts[NormalSums] = sums.result()
        total = parts.total
        if penalty == "auto":
            penalty = FoldErrors(parts, intercept).search(penalty_grid(total, space.dtype)).best
        fits = {int(key): (total - each).solution(float(penalty), intercept) for key, each in parts.items()}
        return cls(space, folds, fits)

    def predictions(self, rows: AllRows) -> Tensor:
        """Of rows, by the fit without their folds, (n, c)."""
        keys = self.folds(Block(rows.rows, (rows.inputs,)))
        found = []
        for part, X in placed_blocks(rows.inputs, self.space.device):
            Phi, of_row = self.space.features(X).double(), keys[part]
            blocks = torch.zeros(len(Phi), len(next(iter(self.without.values()))[1]), dtype=torch.float64)
            for key, (W, b) in self.without.items():
                inside = torch.from_numpy(of_row == key)
                blocks[inside] = (Phi[inside] @ W + b).cpu()
            found.append(blocks)
        return torch.cat(found)


@dataclass(frozen=True, eq=False)
class LocalChoice:
    """Chooses how a machine is built from rows with targets.

    Attributes
    ----------
    options : Cells
    compares : bool
        Whether landmarks alone, and below cells, compete.
    space : FeatureSpace
    reader : Reader
        Of all rows.
    targets : Targets
    run : Run
    search : KernelSearch
    penalty : float or "auto"
    intercept : bool
    """

    options: Cells
    compares: bool
    space: FeatureSpace
    reader: Reader
    targets: Targets
    run: Run
    search: KernelSearch
    penalty: float | str
    intercept: bool

    def choose(self) -> LocalPlan:
        """The plan of the machine with the lowest error."""
        run, options = self.run, self.options
        with run.progress.stage("Choosing cells"):
            sample = run.engine.reduce(KeepRows(TREE_ROWS, run.seed), self.reader)
            pockets = self._pockets(sample)
            search = CellSearch(
                pockets,
                math.sqrt(2) * options.typical(sample.seen),
                DIRECTIONS[options.directions],
                self.intercept,
                run.seed,
                None if self.penalty == "auto" else float(self.penalty),
                self.search.searches_lengthscale,
                groups=self.space.inputs.groups,
            )
            best = self._kernel(search, sample)
            plan = LocalPlan(
                "cells", best.kernel, best.metric, best.penalty, options.size, options.directions, []
            )
            if self.compares or options.landmarks:
                plan = self._with_landmarks(search, best, sample, plan)
            trees = self._partitions(plan.kernel, sample) if plan.in_cells else []
        return replace(plan, partitions=trees, centres=options.centres)

    def _pockets(self, sample: KeptRows) -> list[CellData]:
        """Neighbourhoods of about four cells, all of whose rows are read."""
        generator = torch.Generator().manual_seed(self.run.seed)
        rows, n = rows_of(sample), sample.seen
        size = math.sqrt(2) * POCKET * self.options.typical(n) * len(rows) / n
        tree = grown(
            rows, size, DIRECTIONS[self.options.directions], generator, metric_root(self.space.kernel)
        )
        chosen = torch.randperm(tree.n_cells, generator=generator)[:N_POCKETS]
        found = self.run.engine.reduce(KeepCells(tree, chosen), self.reader)
        assert found is not None
        cells = tree.cells_of(found.inputs)
        return [self._data(found.take((cells == cell).nonzero()[:, 0])) for cell in chosen.tolist()]

    def _data(self, rows: AllRows) -> CellData:
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(self.run.seed))
        rows = rows.take(rows.rows.argsort()[order])
        weight = None if bool((rows.weight == 1).all()) else rows.weight
        return CellData(rows.inputs, self.targets.matrix(rows.y), weight, rows)

    def _kernel(self, search: CellSearch, sample: KeptRows) -> TriedByLeaveOneOut:
        """Kernels compared in the metric of the space; the metric learned for the best."""
        given = self.space.kernel
        M = np.asarray(given.M) if isinstance(given, Reweighted) else None
        settings = self.search
        inner = settings.rivals(self.space.inputs, search.pockets[0].X.shape[1])
        started = [search.walk(k, M, self.space.metric or "as given")[0] for k in inner]
        place = min(range(len(inner)), key=lambda i: started[i].error)
        if place and not clearly_lower(started[place].row_errors, started[0].row_errors):
            place = 0
        kind = settings.metric if search.walks else None
        units = standardising(rows_of(sample).double()) if settings.standardises(self.space.inputs) else None
        return search.learned(inner[place], started[place], kind, units, METRIC_STEPS)

    def _with_landmarks(
        self, search: CellSearch, best: TriedByLeaveOneOut, sample: KeptRows, plan: LocalPlan
    ) -> LocalPlan:
        """The plan of the machine with the lowest error, and every error."""
        some = sample.take(np.arange(min(SAMPLE, len(sample.rows))))
        fits = LandmarkFits.of(self.space, self.targets, some, self.penalty, self.intercept)
        rest = replace(search, tried=[], pockets=[self._rest(pocket, fits) for pocket in search.pockets])
        rule, M = best.inner, best.metric_matrix
        if search.walks and isinstance(rule, RadialKernel):
            rule = clone(rule).set_params(lengthscale="median")
        above = rest.walk(rule, M, best.metric, best)[0]
        unexplained = rest.cells(M)  # of the same rows as the cells of the targets
        left = {
            "landmarks": torch.cat([cell.Y[:LEFT_OUT] for cell in unexplained]),
            "cells": search.left_over(best, M),
            "landmarks and cells": rest.left_over(above, M),
        }
        weight = torch.cat([cell.weights[:LEFT_OUT] for cell in unexplained])
        share = best_share(left["landmarks"], left["cells"], weight)
        left["mean of both"] = (1 - share) * left["landmarks"] + share * left["cells"]
        errors = {kind: (weight * each.square().sum(1)).numpy() for kind, each in left.items()}
        kind = "landmarks and cells" if self.options.landmarks else "landmarks"
        for other in errors if self.compares else ():
            worth = 1 - WORTH if other == "mean of both" else 1.0
            if clearly_lower(errors[other], worth * errors[kind]):
                kind = other
        found = above if kind == "landmarks and cells" else best
        return replace(
            plan,
            kind=kind,
            kernel=found.kernel,
            penalty=found.penalty,
            errors={name: float(each.mean()) for name, each in errors.items()},
            n_compared=len(weight),
            share=share if kind == "mean of both" else 1.0,
        )

    def _rest(self, pocket: CellData, fits: LandmarkFits) -> CellData:
        assert pocket.rows is not None
        return replace(pocket, Y=pocket.Y - fits.predictions(pocket.rows))

    def _partitions(self, kernel: Kernel, sample: KeptRows) -> list[Partition]:
        rows, n, found = rows_of(sample), sample.seen, []
        size = math.sqrt(2) * self.options.typical(n) * len(rows) / n
        for number in range(self.options.n_partitions):
            generator = torch.Generator().manual_seed(self.run.seed + 1 + number)
            direction = DIRECTIONS[self.options.directions]
            found.append(grown(rows, size, direction, generator, metric_root(kernel)))
        return found


def best_share(
    landmarks: Tensor,  # (n, c)
    cells: Tensor,  # (n, c)
    weight: Tensor,  # (n,)
) -> float:
    """Of the errors of cells in the mean of both that is the smallest.

    >>> best_share(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]]), torch.ones(2))
    0.5
    """
    apart = landmarks - cells
    norm = (weight @ apart.square().sum(1)).item()
    return round(min(1.0, max(0.01, (weight @ (landmarks * apart).sum(1)).item() / norm)), 2) if norm else 1.0


def without_landmarks(space: FeatureSpace, plan: LocalPlan) -> FeatureSpace:
    """The space of a machine in cells: one landmark, the mean, which is nobody's row."""
    assert isinstance(space.landmarks, Tensor)
    mean = LandmarkRows(space.landmarks.mean(0, keepdim=True), None)
    found = FeatureSpace.of(space.inputs, plan.kernel, space.views, mean, space.placement, space.seed)
    return replace(found, metric=plan.metric, choice=space.choice)


def rows_of(sample: KeptRows) -> Tensor:
    assert isinstance(sample.inputs, Tensor)
    return sample.inputs


def as_cells(local: object) -> tuple[Cells, bool] | None:
    """What `local` asks for: options, and whether landmarks compete; None without cells."""
    if isinstance(local, Cells):
        local.check()
        return local, False
    if local is True or (isinstance(local, str) and local == "auto"):
        return Cells(), local is not True
    if local is False:
        return None
    raise ValueError(f"local={local!r}: expected 'auto', True, False or krepes.machines.Cells(...).")
