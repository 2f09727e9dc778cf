"""Kernel ridge regression as a one-pass model: what regressor and classifier share.

    min over f of  sum_i w_i |y_i - f(x_i)|^2 + penalty |f|^2,        f(x) = A^T k_x + b         [lecture; tang, ch. 3]

rows -> kernel, lengthscale and metric from a sample -> Nyström features -> normal equations by fold -> penalty ->
A, b. One read of the data after the preparation, O(n (m d + m r + r^2 + r c)), then O(r^3) per fold and penalty.
Where there are no more rows than landmarks, every row is a landmark and f is the exact solution (K + penalty I)^-1 y.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.accumulator import Accumulator, T
from krepes.base.rows import dense
from krepes.base.storage.codec import State
from krepes.base.validation import check_choice, check_count, check_number
from krepes.features import FeatureSpace, FitData, opener_of
from krepes.features.space import LEAST_FOLDS
from krepes.kernels.automatic import is_precomputed
from krepes.kernels.vectors import as_rows
from krepes.machines.cells.asked_cells import AskedCells
from krepes.machines.cells.cell_solver import CellSolver
from krepes.machines.cells.choosing import Cells
from krepes.machines.cells.row_weights import RowWeights, weights_of_rows
from krepes.machines.input_metric import METRICS
from krepes.machines.kernel_ridge.bandwidth import Bandwidth, bandwidth_of
from krepes.machines.kernel_ridge.column_importance import ColumnImportances, importances
from krepes.machines.kernel_ridge.conjugate_solver import (
    DIRECT_LANDMARKS,
    SOLVERS,
    iterated_solution,
)
from krepes.machines.kernel_ridge.leave_one_out_score import LeaveOneOutScore
from krepes.machines.kernel_ridge.nested_folds import LEAST_NESTED, MOST_NESTED, nested_predictions
from krepes.machines.kernel_ridge.solution import (
    Fits,
    HeldOutPredictions,
    HeldOutScore,
    RidgePass,
    RidgeSolution,
    RidgeTotal,
    folds_of,
    kept_features,
    unseen_errors,
)
from krepes.machines.kernel_search import KernelSearch
from krepes.machines.labelled_machine import LabelledMachine
from krepes.regression.ridge_algebra import PenaltyErrors
from krepes.tally import Fit
from krepes.tally.fit import check_checkpoint, unsummed

MOST_FOLDS = 1000

NO_SUMS = (
    "Conjugate gradients read the rows many times and keep no sums, which partial_fit, merge and forget add to: give "
    "solver='direct', or up to 6000 landmarks."
)


@dataclass(kw_only=True, eq=False, repr=False)
class RidgeMachine(LabelledMachine[RidgeTotal, RidgeSolution]):
    """The base of `KernelRidgeRegressor` and `KernelRidgeClassifier`.

    Parameters
    ----------
    kernel : "auto", str, Kernel, callable or list of them, default="auto"
        How rows are compared. "auto" compares an L1-Laplacian (up to 128 columns), a Gaussian and a Laplacian kernel
        on a sample of the rows, as a list of your own is compared: the first is kept unless another one is better by
        more than chance explains.
    lengthscale : "auto", float, "median" or a multiple of it such as "4 median", default="auto"
        The distance at which the kernel tells rows apart. "auto" tries multiples of the median on a sample.
    input_metric : None, "diagonal", "full" or "auto", default="diagonal"
        Learn from the targets how much each column counts ("diagonal"), or also how columns are turned ("full").
        "auto" tries both. A learned metric is used only where it predicts rows that were left out better than none.
    penalty : float or "auto", default="auto"
        How smooth the function is: the variance of the noise in y, in units of its variance. "auto" takes the one with
        the lowest error on rows that were left out.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalised.
    solver : "auto", "direct" or "conjugate_gradients", default="auto"
        "direct" decomposes sums that one pass over the rows gives. "conjugate_gradients" is for very many landmarks: it
        reads the rows a few dozen times and keeps no sums, so that there is no partial_fit, merge and forget; "auto"
        takes it above 6000 landmarks. The penalty "auto" is then chosen on the kept rows with 2000 of the landmarks.
    n_folds : int, default=5
        Folds for the penalty and for conformal intervals. They take n_folds * 8 m^2 bytes.
    n_kept : int, default=20000
        How many rows, at most, are kept with the model for what needs single predictions: leave-one-out errors,
        calibration, conformal intervals. They are saved with it.
    local : "auto", True, False or Cells, default="auto"
        Whether rows are compared with their own neighbourhood instead of landmarks for the whole table: rows are
        divided into cells of up to 2000, and each is solved exactly. True is cells, False is landmarks. "auto" compares
        landmarks, cells, cells on what landmarks leave over, and the mean of both, by the errors of rows left out, for
        dense rows enough for several cells. `krepes.machines.Cells` has the settings. Such a model holds all its rows.

    Attributes
    ----------
    penalty_ : float
    penalty_errors_ : PenaltyErrors
        The error of every penalty that was tried.
    metric_ : str or None
        The metric of the kernel: "as given", "standardised", or the kind and the step of a learned one.
    held_out_score_ : HeldOutScore
        Accuracy or R^2 on rows that were left out; print it.
    n_iter_ : int or None
        Iterations of conjugate gradients.
    local_ : LocalPlan or None
        Whether it is built on landmarks, cells or both, and the errors of what was compared; print it. None where
        nothing but landmarks came into question.
    """

    solution_type = RidgeSolution

    fit_intercept: bool = True
    local: str | bool | Cells = "auto"
    penalty: float | str = "auto"
    solver: str = "auto"
    n_folds: int = 5
    n_kept: int = 20_000

    # What a subclass writes

    def _class_weight(self, total: RidgeTotal) -> np.ndarray | None:
        """The weight of every class, (c,), where sums are by class."""
        return None

    def _take_unlabelled(self, X: Any) -> None:
        """Learn from rows without targets, after the fit."""

    @property
    def _by_class(self) -> bool:
        return False

    @property
    def _asked_cells(self) -> AskedCells | None:
        return AskedCells.of(self.local, self.penalty, self.fit_intercept, self._against_cells())

    def _against_cells(self) -> str | None:
        """Why the parameters do not go with cells, if they do not."""
        if self.solver == "conjugate_gradients":
            return "solver='conjugate_gradients' is for landmarks"
        return "kernel='precomputed' knows no rows" if is_precomputed(self.kernel) else None

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        X_unlabelled: Any = None,
        checkpoint: str | os.PathLike | None = None,
        space: FeatureSpace | None = None,
    ) -> Self:
        """Learn to predict y from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        `y` has one target for every row; or it is the name of a column of X, where X is a table, or of an array beside
        X in an .npz file. Such a column is never a feature, and rows in which it is missing are left out. Rows count
        `sample_weight` times. `X_unlabelled` are further rows, in the form of X, whose targets are not known: columns
        are scaled by them too, and they may become landmarks where there are more of these than labelled rows.
        `groups`, `checkpoint` and `space` as in `KernelEmbedding.fit`.
        """
        self._check_parameters()
        if X_unlabelled is not None and is_precomputed(self.kernel):
            raise ValueError("X_unlabelled= takes rows, and kernel='precomputed' knows none: leave it out.")
        with self._unchanged_by_failure():
            data = self._opened(X, groups, space, y=y, weight=sample_weight)
            check_checkpoint(checkpoint, data, self.random_state)
            if space is None:
                unlabelled = None if X_unlabelled is None else opener_of(self.kernel)(X_unlabelled)
                space = self._prepared(data, unlabelled)
            if self._iterates(len(space.landmarks)):
                return self._fit_by_iterations(X, data, space, checkpoint)
            self._learn(X, data, space, checkpoint)
            if X_unlabelled is not None:
                self._take_unlabelled(X_unlabelled)
        return self

    # Cells

    def _cell_solver(self, value: RidgeTotal, base: RidgeSolution) -> CellSolver:
        """All cells as equations, on top of the fit of the landmarks or of the mean."""
        plan, rows, space = self._cell_plan, value.rows, self.space_
        assert plan is not None
        assert rows is not None
        class_weight = self._class_weight(value)
        weight = rows.weight if class_weight is None else rows.weight * torch.from_numpy(class_weight[rows.y])
        left_out = torch.isin(rows.rows, value.kept.rows)
        if plan.on_residuals:
            residuals = unseen_errors(space, self.targets_, rows, base, self.n_folds)
            mean = torch.zeros_like(base.b)
            return CellSolver(plan, rows, weight, residuals, mean, left_out, self.fit_intercept)
        constants = {"centred": self.fit_intercept, "intercept": self.fit_intercept}
        return CellSolver.of_targets(plan, rows, weight, self.targets_, left_out, **constants)

    def _in_cells(self, value: RidgeTotal, weight: Tensor, base: RidgeSolution) -> RidgeSolution:
        """The solution with cells, and the errors of kept rows left out of theirs; weights are of the kept rows."""
        plan, kept = self._cell_plan, value.kept
        assert plan is not None
        share = 0.0 if plan.on_residuals else plan.share  # of cells in f
        base = replace(base, A=(1 - share) * base.A, b=(1 - share) * base.b)
        solver, run = self._cell_solver(value, base), self._run_in(self.space_)
        cells, errors = self._held.solved(solver, self.targets_.n_outputs, run, base.A)
        Y, left = self.targets_.matrix(kept.y), torch.empty_like(errors)
        left[kept.rows.argsort()] = errors
        if share:
            left = (1 - share) * (Y - base.held_out.by_folds) + share * left
        mean = float((weight @ left.square().sum(1)) / weight.sum())
        held = replace(base.held_out, predictions=Y - left, by_folds=Y - left)
        compared = PenaltyErrors(np.array([plan.penalty]), np.array([mean]), "leave one out")
        # fits without folds stay, for rows that landmarks have not seen
        return replace(base, penalty=plan.penalty, errors=compared, held_out=held, cells=cells)

    def row_weights(self, X: Any, n_top: int = 10) -> RowWeights:
        """The training rows that predictions are made of, in cells: weights that sum to 1, and exact effects.

        A prediction of a machine in cells is the sum of the targets of the rows of its cells, times weights. Effects
        say how far the prediction, in the units of the targets, moves when one of them is left out. See `RowWeights`.
        Where landmarks have a part in it, this is of the part of the cells.
        """
        check_count("n_top", n_top)
        self.check_input(X)
        if self._cell_plan is None:
            raise ValueError(
                "This machine is built on landmarks, not in cells: use krepes.explain, or local=True."
            )
        cells, plan, _ = self._cells()
        total = self.total_
        if plan.centres is not None or total is None:
            raise ValueError(
                "Cells(centres=...) predicts by a few centres of each cell: row_weights needs all rows."
            )
        reader = self.space_.reader(X)
        rows = as_rows(dense(reader.take(np.arange(reader.n_rows)).inputs[0])).cpu()
        found = weights_of_rows(self._cell_solver(total, self._solved()), cells, rows, n_top)
        return replace(found, effects=plan.share * found.effects * self.targets_.unit)

    # Many landmarks

    def _iterates(self, m: int) -> bool:
        """Whether m landmarks are solved by conjugate gradients."""
        return self.solver == "conjugate_gradients" or (self.solver == "auto" and m > DIRECT_LANDMARKS)

    def _fit_by_iterations(
        self, X: Any, data: FitData, space: FeatureSpace, checkpoint: str | os.PathLike | None
    ) -> Self:
        if data.group is not None:
            raise ValueError(NO_SUMS)
        if checkpoint is not None:
            raise ValueError(
                "checkpoint= is for one pass over the data; conjugate gradients make many. Give solver='direct'."
            )
        assert data.y is not None
        data, run = replace(data, weight=self._balanced(data.y, data.weight)), self._run_in(space)
        reader = data.reader(space.inputs, space.placement)

        def reduced(accumulator: Accumulator[Any, T], name: str) -> T:
            return run.engine.reduce(accumulator, reader, progress=run.progress, name=name)

        settings = self.penalty, self.fit_intercept, self.n_folds, self.n_kept
        solution = iterated_solution(space, self.targets_, *settings, reduced)
        self._own(Fit(space, unsummed(data.n_rows)), solution)
        self._record_input(X, space.inputs)
        return self

    def _check_has_total(self) -> None:
        if self._iterates(len(self.space_.landmarks)):
            raise ValueError(NO_SUMS)
        super()._check_has_total()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_folds", self.n_folds, LEAST_FOLDS)
        if self.n_folds > MOST_FOLDS:
            raise ValueError(f"n_folds={self.n_folds:,}: expected at most {MOST_FOLDS:,}.")
        check_count("n_kept", self.n_kept)
        AskedCells.of(self.local, self.penalty, self.fit_intercept, None)
        if self.penalty != "auto":
            check_number("penalty", self.penalty, "'auto' or a number", above=0)
        check_choice("input_metric", self.input_metric, METRICS)
        check_choice("solver", self.solver, SOLVERS)

    @property
    def _search(self) -> KernelSearch:
        score = LeaveOneOutScore(self.fit_intercept)
        return KernelSearch(self.kernel, self.lengthscale, self.input_metric, self.preprocess, score)

    def _decomposes(self, m: int) -> bool:
        return not self._iterates(m)

    def _accumulator(self, space: FeatureSpace) -> RidgePass:
        if self._iterates(len(space.landmarks)):
            raise ValueError(NO_SUMS)
        return RidgePass(space, self.targets_, self.n_folds, self.n_kept, self._by_class, self._cell_plan)

    def _solve(self, value: RidgeTotal) -> RidgeSolution:
        space, kept = self.space_, value.kept
        class_weight, weight = self._class_weight(value), kept.weight
        if class_weight is not None:
            weight = weight * torch.from_numpy(class_weight[kept.y])
        Phi, of_row = kept_features(space, kept), folds_of(space, kept, self.n_folds)
        fits = self._fits_of_rows(Phi, kept.y, weight, of_row)
        if fits is None:
            folds, Y = value.by_fold(class_weight), self.targets_.matrix(kept.y)
            settings = self.penalty, space.dtype, self.fit_intercept
            fits = Fits.by_ridge(folds, Phi, Y, weight, kept.complete, *settings)
        solution = fits.solution(space, kept, Phi, weight, of_row)
        return solution if self._cell_plan is None else self._in_cells(value, weight, solution)

    def _fits_of_rows(self, Phi: Tensor, y: np.ndarray, weight: Tensor, folds: np.ndarray) -> Fits | None:
        """Fits to the kept rows, for losses that sums do not give; None for the squared loss."""
        return None

    # Using

    @property
    def penalty_(self) -> float:
        return self._solved().penalty

    @property
    def n_iter_(self) -> int | None:
        """Iterations of conjugate gradients; None where it was solved directly."""
        return self._solved().iterations

    @property
    def penalty_errors_(self) -> PenaltyErrors:
        return self._solved().errors

    @property
    def held_out_(self) -> HeldOutPredictions:
        """Predictions of the rows kept with the model by fits that have not seen them, encoded."""
        return self._solved().held_out

    @property
    def held_out_score_(self) -> HeldOutScore:
        """Accuracy or R^2 on rows that were left out; print it.

        With up to 200 rows, each of ten stratified folds is predicted with a kernel, metric and penalty chosen from the
        other rows, when this is first read: a few dozen rows cannot judge what they have chosen.
        """
        self._nest()
        return self._solved().score(self.targets_)

    def _nest(self) -> None:
        """Predict few rows by machines that knew nothing of them, if all rows are at hand."""
        found, kept = self._solved(), None if self.total_ is None else self.total_.kept
        held = found.held_out
        if kept is None or held.nested is not None or not kept.complete or self._cell_plan is not None:
            return
        if LEAST_NESTED <= len(held.y) <= MOST_NESTED and not is_precomputed(self.kernel):
            nested = nested_predictions(self, kept, held.weight)
            self._solution = replace(found, held_out=replace(held, nested=nested))

    def column_importances(self, n_folds: int = 5) -> ColumnImportances:
        """How much each column of the table counts in the learned metric, in shares that sum to 1.

        The metric is also learned without each of `n_folds` folds of a sample of the rows, which gives the
        shares an error; 0 leaves that out. It needs the rows that are kept with the sums.
        """
        self._check_has_total()
        if n_folds != 0:
            check_count("n_folds", n_folds, 2)
        # a metric of cells takes a fit to learn again
        return importances(self, n_folds if self._cell_plan is None else 0)

    def bandwidth(self, X: Any = None) -> Bandwidth:
        """Whether the lengthscale is too short, too long or fine for rows X; by default for the kept rows; print it.

        At most `n_kept` rows of X are looked at.
        """
        if self._cell_plan is not None:
            raise ValueError(
                "The lengthscale of cells was chosen in cells: print(model.local_). bandwidth is for landmarks."
            )
        return bandwidth_of(self, X)

    # Files

    def _state(self, total: bool = True) -> State:
        if not total:  # without rows, nothing can be predicted later
            self._nest()
        return super()._state(total)

    def _restore(self, state: State) -> None:
        super()._restore(state)
        if self._solution is not None and not self.targets_.are_encoded(self._solution.held_out.y):
            raise ValueError("The file is damaged: the targets of its rows are not of this model.")

    def coverage(self, X: Any) -> np.ndarray:
        """k_x^T (K + penalty)^-1 k_x / k(x, x) in a machine in cells; otherwise as `OnePassEstimator.coverage`."""
        if self._cell_plan is None:
            return super().coverage(X)
        return self.row_weights(X, 1).coverage

    # Conformal prediction

    @property
    def held_out_rows_(self) -> np.ndarray:
        """Global indices of the rows that are kept with the model, (k,); `held_out_predictions_` are theirs."""
        return self._solved().held_out.rows.numpy()

    # Forgetting

    def _check_holds(self, total: RidgeTotal, gone: RidgeTotal) -> None:
        if len(gone.kept.rows) >= len(total.kept.rows) and np.isin(total.kept.rows, gone.kept.rows).all():
            raise ValueError(
                "Nothing would be left of this model: these are all of its rows, or all kept rows."
            )
        super()._check_holds(total, gone)
