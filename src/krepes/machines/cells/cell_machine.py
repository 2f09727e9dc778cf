"""CellMachine: a machine that may be in cells, whatever it learns in them.

    rows -> kernel and landmarks -> plan: landmarks, cells or both -> sums, and in cells all rows -> cells

The base of ridge machines and of Gaussian processes of quantities. A subclass builds the `CellSolver` and says what the
solved cells are to it; the plan, the rows, predictions and files are here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import Tags
from torch import Tensor

from krepes.base.reporting import display
from krepes.base.rows import Rows
from krepes.base.storage.checkpoint import Checkpoint, remove_checkpoint
from krepes.base.storage.codec import State, decode_entry, encode
from krepes.base.storage.packing import digest
from krepes.engines import Local
from krepes.features import FeatureSpace, FitData, Spec
from krepes.kernels.automatic import is_precomputed
from krepes.kernels.vectors import as_rows
from krepes.machines.cells.cell_model import CellModel
from krepes.machines.cells.cell_solver import CellSolver
from krepes.machines.cells.choosing import ENOUGH, Cells, LocalChoice, as_cells, without_landmarks
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.kept_rows import SumsAndRows, placed_blocks
from krepes.machines.labelled_machine import KernelExpansion, LabelledMachine
from krepes.one_pass import check_no_gradients
from krepes.sources import Source
from krepes.tally import Fit

FEW_LANDMARKS = 100  # in a space that cells replace
QUERY_ROWS = 2**15  # predicted at once in cells, so that every cell has many


class CellExpansion(KernelExpansion, Protocol):
    """A solution that may have cells."""

    @property
    def cells(self) -> CellModel | None: ...


T = TypeVar("T", bound=SumsAndRows)
S = TypeVar("S", bound=CellExpansion)


@dataclass(kw_only=True, eq=False, repr=False)
class CellMachine(LabelledMachine[T, S]):
    """The base of machines with a parameter `local`."""

    fit_intercept: bool = True
    local: str | bool | Cells = "auto"

    _plan: LocalPlan | None = field(default=None, init=False)
    _checkpoint: str | os.PathLike | None = field(default=None, init=False)  # of the fit that is under way
    _cells_before: CellModel | None = field(default=None, init=False)  # solved earlier, for cells that stay

    # What a subclass may write

    @property
    def _penalty(self) -> float | str:
        """Of a cell, or "auto"."""
        raise NotImplementedError

    @property
    def _cells_have_intercepts(self) -> bool:
        return self.fit_intercept

    def _balanced(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights of rows, times class weights that follow from all rows; y is encoded."""
        return weight

    def _against_cells(self) -> str | None:
        """Why the parameters do not go with cells, if they do not."""
        return "kernel='precomputed' knows no rows" if is_precomputed(self.kernel) else None

    # The plan

    def prepare(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> FeatureSpace:
        """Preprocessing, kernel, metric and landmarks from X and y, before the long pass: for `fit(space=...)`."""
        with_landmarks = clone(self).set_params(local=False)
        return super(CellMachine, with_landmarks).prepare(X, y, sample_weight=sample_weight)

    def _opened(
        self,
        X: Any,
        groups: ArrayLike | None = None,
        space: FeatureSpace | None = None,
        *args: Any,
        **given: Any,
    ) -> FitData:
        if space is not None and self._must_be_in_cells:
            raise ValueError(
                f"local={self.local!r}: space= is one of landmarks. Leave it out, or give local=False."
            )
        data = super()._opened(X, groups, space, *args, **given)
        self._plan = self._cells_before = self._solution = None  # of a fit before
        return data

    def _spec(self, data: FitData) -> Spec:
        spec, asked = super()._spec(data), as_cells(self.local)
        if asked is None or asked[1] or asked[0].landmarks or spec.n_landmarks is None:
            return spec
        return replace(spec, n_landmarks=min(spec.n_landmarks, FEW_LANDMARKS))  # they are not used

    def _prepared(self, data: FitData, unlabelled: Source | None = None) -> FeatureSpace:
        reason, asked = self._against_cells(), as_cells(self.local)
        if reason is not None and self._must_be_in_cells:
            raise ValueError(f"local={self.local!r}: {reason}. Give local=False.")
        space = super()._prepared(data, unlabelled)
        self._plan = None if asked is None else self._planned(data, space, *asked)
        if self._plan is None or self._plan.uses_landmarks:
            return space
        return without_landmarks(space, self._plan)

    def may_be_in_cells(self, n_rows: int) -> bool:
        """Whether a fit of this many rows compares cells, or is in cells."""
        asked = as_cells(self.local)
        return asked is not None and (not asked[1] or n_rows >= ENOUGH * asked[0].size)

    def cell_bytes(self, n_rows: int, width: int, itemsize: int, n_outputs: int) -> int:
        """About how much a model of this many encoded rows takes in cells, in memory and with its sums in a file."""
        asked = as_cells(self.local)
        assert asked is not None
        of_row = itemsize * width + 24  # with its index, target and weight
        of_cells = asked[0].n_partitions * (itemsize * n_outputs + 8)
        return n_rows * (of_row + of_cells)

    @property
    def _must_be_in_cells(self) -> bool:
        asked = as_cells(self.local)
        return asked is not None and not asked[1]

    @property
    def _cell_plan(self) -> LocalPlan | None:
        """The plan, if the machine is in cells."""
        return self._plan if self._plan is not None and self._plan.in_cells else None

    def _planned(
        self, data: FitData, space: FeatureSpace, options: Cells, compares: bool
    ) -> LocalPlan | None:
        """How the machine is built in cells, if it is."""
        counting = data.counting_rows
        n = data.n_rows if counting is None else len(counting)
        reason = self._against_cells()
        if not isinstance(space.landmarks, Tensor) or space.landmarks.ndim != 2:
            reason = "cells are for rows of numbers and categories, not for images, objects or sparse rows"
        if compares and (reason is not None or n < ENOUGH * options.size):
            return None
        if reason is not None:
            raise ValueError(f"local={self.local!r}: {reason}. Give local=False.")
        assert data.y is not None
        weighed = replace(data, weight=self._balanced(data.y, data.weight))
        return LocalChoice(
            options,
            compares,
            space,
            weighed.reader(space.inputs, space.placement, data.first_row),
            self.targets_,
            self._run_in(space),
            self._search,
            self._penalty,
            self._cells_have_intercepts,
        ).choose()

    @property
    def local_(self) -> LocalPlan | None:
        """How the machine is built, and what was compared; None where nothing but landmarks came into question."""
        self._fit()
        return self._plan

    # Solving

    def _learn(
        self, X: Any, data: FitData, space: FeatureSpace | None, checkpoint: str | os.PathLike | None
    ) -> Self:
        self._checkpoint = checkpoint
        try:
            return super()._learn(X, data, space, checkpoint)
        finally:
            self._checkpoint = None

    def _solved_cells(self, solver: CellSolver, given: Tensor) -> tuple[CellModel, Tensor]:
        """Solved cells, and the errors of rows left out, (k, c); `given` is what they depend on beside the plan."""
        plan, run, saved = solver.plan, self._run_in(self.space_), None
        before = None if plan.on_residuals else self._cells_before
        if self._checkpoint is not None:
            saved = Checkpoint(f"{self._checkpoint}.cells", {"cells": digest([encode(plan), given])})
        found = solver.solve(self.targets_.n_outputs, run.engine, run.progress, before, saved)
        if saved is not None:
            remove_checkpoint(saved.path)
        return found

    # Using

    def _cells(self) -> tuple[CellModel, LocalPlan, Tensor]:
        """Solved cells, their plan, and all rows or centres, of a machine in cells."""
        found, total = self._solved().cells, self.total_
        assert found is not None
        assert self._plan is not None
        if found.inputs is not None:
            return found, self._plan, found.inputs
        assert total is not None
        assert total.rows is not None
        return found, self._plan, total.rows.inputs

    def _score_blocks(self, X: Any, batch_rows: int | None = None) -> Iterator[np.ndarray]:
        solution = self._solved()
        if solution.cells is None:
            yield from super()._score_blocks(X, batch_rows)
            return
        cells, plan, inputs = self._cells()
        space, A, b = self.space_, solution.A, solution.b

        def score(rows: Rows) -> Tensor:
            assert isinstance(rows, Tensor)
            found = plan.share * cells.scores(plan.kernel, inputs, as_rows(rows).cpu()).double() + b.cpu()
            if plan.uses_landmarks:
                parts = placed_blocks(rows, space.device)
                found += torch.cat(
                    [(space.features.kernel_block(part).double() @ A).cpu() for _, part in parts]
                )
            return found

        check_no_gradients(X)
        engine = Local(QUERY_ROWS)
        for Z in space.map(score, X, engine, display(self.verbose), batch_rows or QUERY_ROWS):
            yield Z.numpy()

    @property
    def dual_coef_(self) -> np.ndarray:
        if self._cell_plan is not None:
            raise AttributeError(
                "A machine in cells has coefficients for every row of its cells: see row_weights(X)."
            )
        return super().dual_coef_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse &= not (self.local is True or isinstance(self.local, Cells))
        return tags

    # Files, copies and forgetting

    def empty_copy(self) -> Self:
        copy = super().empty_copy()
        copy._plan = self._plan
        return copy

    @contextmanager
    def _unchanged_by_failure(self) -> Iterator[None]:
        before = self._plan, self._cells_before
        with super()._unchanged_by_failure():
            try:
                yield
            except BaseException:
                self._plan, self._cells_before = before
                raise

    def _own(self, fit: Fit[T], solution: S | None = None) -> Self:
        if self._solution is not None and self._solution.cells is not None:
            self._cells_before = self._solution.cells
        super()._own(fit, solution)
        if solution is not None:
            self._check_cells(solution.cells)
        return self

    def _check_cells(self, cells: CellModel | None) -> None:
        """Refuse cells of a file that are not of its plan and its rows."""
        plan, total = self._cell_plan, self.total_
        if (plan is None) != (cells is None):
            raise ValueError("The file is damaged: cells are there without a plan of them, or missing.")
        if plan is not None and cells is not None:
            inputs = cells.inputs if total is None or total.rows is None else total.rows.inputs
            if inputs is None:
                raise ValueError("The file is damaged: its cells have no rows.")
            cells.check_belongs(plan, inputs, self.targets_.n_outputs)

    def _state(self, total: bool = True) -> State:
        plan, solution = self._cell_plan, self._solution
        if plan is None or (plan.centres is not None and self.total_ is None):
            return super()._state(total) | {"local_plan": encode(self._plan)}
        if not total and plan.centres is not None:  # its centres are enough
            cells, _, inputs = self._cells()
            alone: Any = replace(self._solved(), cells=cells.centres_alone(inputs))  # type: ignore[type-var]
            try:
                self._solution = alone
                return super()._state(False) | {"local_plan": encode(plan)}
            finally:
                self._solution = solution
        return super()._state(True) | {"local_plan": encode(plan)}  # it is its rows

    def _restore(self, state: State) -> None:
        self._plan = decode_entry(state, "local_plan", LocalPlan | None)
        super()._restore(state)

    def _still_dependent(self) -> list[str]:
        cells = [] if self._cell_plan is None else ["how cells are split, and the penalty"]
        return [*super()._still_dependent(), *cells]

    def _check_holds(self, total: T, gone: T) -> None:
        total.check_holds(gone)
        super()._check_holds(total, gone)
