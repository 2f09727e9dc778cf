"""GaussianProcessRegressor: quantities with their uncertainty, in one pass over the data."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from torch import Tensor

from krepes.base.reporting import display
from krepes.base.rows import Rows, dense
from krepes.base.storage.codec import State
from krepes.base.validation import check_count, check_share
from krepes.engines import Local
from krepes.features import FeatureSpace
from krepes.kernels.automatic import is_precomputed
from krepes.kernels.vectors import as_rows
from krepes.machines.cells.all_rows import AllRows
from krepes.machines.cells.asked_cells import AskedCells
from krepes.machines.cells.cell_solver import CellSolver
from krepes.machines.cells.cell_variance import left_out_amplitude, log_likelihood, variances_in_cells
from krepes.machines.cells.choosing import Cells
from krepes.machines.cells.held_cells import QUERY_ROWS
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.gaussian_process.evidence_score import EvidenceScore
from krepes.machines.gaussian_process.few_rows import LEAST_NESTED, MOST_NESTED, nested_deviations, reach
from krepes.machines.gaussian_process.machine import (
    GaussianProcess,
    Posterior,
    check_variance,
    given,
    samples,
)
from krepes.machines.gaussian_process.sample_evidence import QuantityEvidence, SampleEvidence
from krepes.machines.gaussian_process.variational_bound import VariationalBound
from krepes.machines.kept_rows import KeepRows, KeptRows, SumsAndRows, SumsAndRowsPass
from krepes.machines.kernel_search import KernelSearch
from krepes.machines.labelled_machine import QuantityMachine
from krepes.machines.normal_equations import NormalEquations
from krepes.machines.targets import Quantities
from krepes.regression.ridge_algebra import NormalSums

LEFT_OUT = 5000  # rows in cells whose errors give the amplitude


@dataclass(frozen=True, eq=False)
class ProcessTotal(SumsAndRows[NormalSums]):
    """Normal equations, and the rows, if they are few."""

    equations: NormalSums
    kept: KeptRows | None
    rows: AllRows | None = None


class ProcessPass(SumsAndRowsPass[ProcessTotal]):
    """Sums normal equations, and keeps a few rows; in cells, all of them."""

    total = ProcessTotal

    def __init__(self, space: FeatureSpace, targets: Quantities, plan: LocalPlan | None = None):
        keeping = KeepRows(MOST_NESTED if plan is None else LEFT_OUT, space.seed, space.kernel)
        equations = NormalEquations(space, targets)
        super().__init__(space, equations, targets, keeping, [], plan)


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcessRegressor(QuantityMachine[ProcessTotal, Posterior], GaussianProcess[ProcessTotal]):
    """Predict numbers, and how sure they are, by a Gaussian process, in one pass over the data.

    y = mean + f(x) + e,  f ~ GP(0, a k),  e ~ N(0, s^2).  Amplitude a and noise s^2 maximise the evidence or, with
    fewer landmarks than rows, a bound on it. The mean is that of the targets, which are also divided by their spread,
    as scikit-learn's normalize_y=True does. Several targets share the kernel, and a and s^2 in units of their
    variances. A row of weight w counts as w rows.

    Parameters
    ----------
    {parameters}
    noise : float or "auto", default="auto"
        The variance of the noise in y, in units of the variance of y.
    fit_intercept : bool, default=True
        Whether the mean is that of the targets; otherwise it is zero, and units come from the mean square of y.
    local : False, True or Cells, default=False
        Whether rows are divided into cells of up to 2000, each with an exact process of its own; see
        `KernelRidgeRegressor`. Kernel, metric and the ratio of noise and amplitude are then chosen by the errors of
        rows left out, and the amplitude by their variance. Such a model holds all its rows, and every call that asks
        for variances decomposes the cells that it meets.

    Attributes
    ----------
    noise_ : float
        In units of the variance of y; `noise_std_` is in units of y.
    noise_std_ : float, or ndarray of shape (c,)
        The standard deviation of the noise.
    log_marginal_likelihood_ : float
        Of y in its own units; with fewer landmarks than rows, a lower bound of it.
    local_ : LocalPlan or None
        The cells; None for a process on landmarks.
    {attributes}

    Examples
    --------
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = GaussianProcessRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> mean, std = model.predict([[3.0], [100.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3)) < 0.01), bool(std[1] > 10 * std[0])
    (True, True)
    """

    fit_intercept: bool = True
    local: str | bool | Cells = False
    noise: float | str = "auto"

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        checkpoint: str | os.PathLike | None = None,
        space: FeatureSpace | None = None,
    ) -> Self:
        """Learn to predict y from X: an array, tensor, frame, memory map, list of objects, source, or one path.

        `y` has one target for every row, or several; or it is the name of a column of X, as for
        `KernelRidgeRegressor`. `groups`, `checkpoint` and `space` as in `KernelEmbedding.fit`.
        """
        given = {"groups": groups, "sample_weight": sample_weight, "checkpoint": checkpoint, "space": space}
        with self._unchanged_by_failure():
            return super().fit(X, y, **given)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_variance("noise", self.noise)
        asked = self._asked_cells
        if asked is not None and (
            asked.compares or asked.options.landmarks or asked.options.centres is not None
        ):
            raise ValueError(
                f"local={self.local!r}: expected True, False, or krepes.machines.Cells(...) without landmarks and "
                "centres."
            )

    @property
    def _asked_cells(self) -> AskedCells | None:
        noise, amplitude = given(self.noise), given(self.amplitude)
        penalty = "auto" if noise is None or amplitude is None else noise / amplitude
        against = "kernel='precomputed' knows no rows" if is_precomputed(self.kernel) else None
        return AskedCells.of(self.local, penalty, intercept=False, against=against)  # the mean is that of all

    @property
    def _search(self) -> KernelSearch:
        score = EvidenceScore(self._evidence_of, given(self.amplitude), given(self.noise))
        return KernelSearch(self.kernel, self.lengthscale, self.input_metric, self.preprocess, score)

    def _evidence_of(self, Y: Tensor, weight: Tensor | None) -> SampleEvidence:
        if self.fit_intercept:
            Y = Y - (Y.mean(0) if weight is None else weight / weight.sum() @ Y)
        return QuantityEvidence(Y, weight)

    def _accumulator(self, space: FeatureSpace) -> ProcessPass:
        return ProcessPass(space, self.targets_, self._cell_plan)

    def _cell_solver(self, value: ProcessTotal) -> CellSolver:
        plan, rows, kept = self._cell_plan, value.rows, value.kept
        assert plan is not None
        assert rows is not None
        assert kept is not None
        left_out = torch.isin(rows.rows, kept.rows)
        constants = {"centred": self.fit_intercept, "intercept": False}
        return CellSolver.of_targets(plan, rows, rows.weight, self.targets_, left_out, **constants)

    def _in_cells(self, value: ProcessTotal) -> Posterior:
        """A process in every cell; noise and amplitude are those given, or have the ratio of the plan."""
        solver, c = self._cell_solver(value), self.targets_.n_outputs
        cells, _ = self._held.solved(solver, c, self._run_in(self.space_), torch.zeros(0))
        amplitude, noise = given(self.amplitude), given(self.noise)
        ratio = solver.plan.penalty
        if amplitude is None:
            amplitude = left_out_amplitude(cells, solver.rows.rows) if noise is None else noise / ratio
        evidence = log_likelihood(cells, amplitude, c) - self._log_unit(value)
        m, r = len(self.space_.landmarks), self.space_.rank
        zeros = torch.zeros(m, c, dtype=torch.float64), torch.zeros(c, dtype=torch.float64)
        roots = torch.zeros(1, r, r, dtype=torch.float64)
        return Posterior(*zeros, roots, amplitude, ratio * amplitude, evidence, cells=cells)

    def _log_unit(self, value: ProcessTotal) -> float:
        """By which the evidence of y in its own units is lower."""
        return value.n * float(np.log(self.targets_.scale).sum())

    def _solve(self, value: ProcessTotal) -> Posterior:
        if self._cell_plan is not None:
            return self._in_cells(value)
        bound = VariationalBound(value.equations, self.fit_intercept, self.space_.dtype)
        best = bound.best(given(self.amplitude), given(self.noise))
        ratio = best.noise / best.amplitude
        return Posterior(
            self.features_.F @ bound.weights(ratio),
            bound.mean,
            bound.root(best.noise, ratio)[None],
            best.amplitude,
            best.noise,
            best.bound - self._log_unit(value),
        )

    # Using

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, include_noise: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The posterior mean, (n,) or (n, c); and what was asked for besides.

        Parameters
        ----------
        X : rows
        return_std : bool, default=False
            Also the standard deviation of f at every row, (n,) or (n, c).
        return_cov : bool, default=False
            Also the covariance of f between all rows, (n, n) or (n, n, c). Only one of the two may be asked for.
        include_noise : bool, default=False
            Whether to predict a new y instead of f: with the variance of the noise.
        """
        if return_std and return_cov:
            raise ValueError("At most one of return_std and return_cov can be asked for.")
        if not return_std and not return_cov:
            scores = self._scores(X)
            return self.targets_.decoded(scores)
        noise = self.noise_ if include_noise else 0.0
        if return_cov:
            mean, C = self._joint(X)
            C = C + noise * torch.eye(len(mean)).to(C)
            each = C.cpu().numpy()[:, :, None] * np.square(self.targets_.scale)
            return self.targets_.decoded(mean), each[:, :, 0] if self.targets_.flat else each
        means, variances = self._moments(X)
        deviations = np.sqrt(variances + noise) * self.targets_.scale
        return self.targets_.decoded(means), deviations[:, 0] if self.targets_.flat else deviations

    def predict_interval(self, X: Any, confidence: float = 0.9) -> np.ndarray:
        """Intervals that hold a new y with this probability, if the model is true, (n, 2) or (n, c, 2).

        They widen where there are few rows. Unlike the conformal intervals of `KernelRidgeRegressor`, which do not,
        they are promised nothing by the data: a wrong kernel gives wrong intervals. Hyper-parameters count as known
        from 101 rows on. With fewer, each of ten folds is predicted with hyper-parameters chosen from the other rows,
        when this is first called, and intervals reach as far as these rows were from their predictions.
        """
        check_share("confidence", confidence)
        means, variances = self._moments(X)
        self._nest()
        held = self._solved().deviations
        far = reach(confidence, None if held is None else held.numpy())
        ends = far * np.sqrt(variances + self.noise_)
        both = [self.targets_.decoded(means + side * ends) for side in (-1.0, 1.0)]
        return np.stack(both, axis=-1)

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        found, total = self._solved(), self.total_
        if found.cells is None:
            return super()._moments(X)
        assert total is not None
        solver, cells, amplitude = self._cell_solver(total), found.cells, found.amplitude

        def variances(rows: Rows) -> Tensor:
            return amplitude * variances_in_cells(solver, cells, as_rows(dense(rows)).cpu())[:, None]

        parts = self.space_.map(variances, X, Local(QUERY_ROWS), display(self.verbose), QUERY_ROWS)
        return self._scores(X), np.concatenate([Z.numpy() for Z in parts])

    def coverage(self, X: Any) -> np.ndarray:
        """k_x^T C^-1 k_x / k(x, x) in cells, the share of the variance that rows explain; else as of other models."""
        if self._cell_plan is None:
            return super().coverage(X)
        self.check_input(X)
        prior = self.kernel_.diag(self._rows(X)).double().cpu().numpy()
        return 1 - self._moments(X)[1][:, 0] / (self.amplitude_ * prior)

    def _nest(self) -> None:
        """Predict few rows by processes that knew nothing of them, if something was chosen and all are at hand."""
        found, kept = self._solved(), None if self.total_ is None else self.total_.kept
        if kept is None or found.deviations is not None or not kept.complete or is_precomputed(self.kernel):
            return
        if found.cells is not None:
            return
        numbers = given(self.amplitude), given(self.noise)
        if LEAST_NESTED <= len(kept.rows) <= MOST_NESTED and not (
            None not in numbers and self._kernel_given()
        ):
            self._solution = replace(found, deviations=nested_deviations(self, kept, *numbers))

    def _state(self, total: bool = True) -> State:
        if not total:  # without rows, nothing can be predicted later
            self._nest()
        return super()._state(total)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> np.ndarray:
        """Functions from the posterior, at the rows of X, (n, n_samples) or (n, c, n_samples); without noise."""
        mean, C = self._joint(X)
        return self._drawn(mean, C, n_samples, random_state)

    def sample_prior(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> np.ndarray:
        """Functions from the prior with the same kernel, amplitude and mean, as `sample_y` gives them."""
        found, rows = self._solved(), self._rows(X)
        C = found.amplitude * self.kernel_(rows).double()
        mean = np.tile(found.b.cpu().numpy(), (len(C), 1))
        return self._drawn(mean, C, n_samples, random_state)

    def _joint(self, X: Any) -> tuple[np.ndarray, Tensor]:
        """Means (n, c) and covariances (n, n) of f."""
        if self._cell_plan is not None:
            raise ValueError(
                "A process in cells has no covariances between rows of different cells: ask for return_std, or give "
                "local=False."
            )
        found, space, rows = self._solved(), self.space_, self._rows(X)
        return found.moments(space, rows)[:, : len(found.b)].cpu().numpy(), found.covariances(space, rows)[0]

    def _drawn(
        self, mean: np.ndarray, C: Tensor, n_samples: int, random_state: int | np.random.RandomState | None
    ) -> np.ndarray:
        check_count("n_samples", n_samples)
        draws = check_random_state(random_state)
        each = [samples(column, C, n_samples, draws) for column in mean.T]
        Y = np.stack(each, axis=1) * self.targets_.scale[:, None] + self.targets_.shift[:, None]
        return Y[:, 0] if self.targets_.flat else Y

    @property
    def noise_(self) -> float:
        noise = self._solved().noise
        assert noise is not None
        return noise

    @property
    def noise_std_(self) -> float | np.ndarray:
        each = math.sqrt(self.noise_) * self.targets_.scale
        return float(each[0]) if self.targets_.flat else each
