"""Ridge regression on a sample of rows with any kernel: leave-one-out errors, lengthscales, and a metric.

Up to 500 of the rows are landmarks. Lengthscales are walked along, each twice the last, to the lowest error. Which
inputs matter follows from the gradients of the fitted function: see `input_metric`.

Cost: O(n m^2 + m^3) for n <= 2000 rows and m <= 500 landmarks, and O(n m d c) for the gradients at n rows.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import symmetric
from krepes.base.rows import SparseRows
from krepes.kernels import Kernel
from krepes.machines.compared_errors import TriedByLeaveOneOut
from krepes.machines.input_metric import gradient_outer_product, metric_of
from krepes.machines.kernel_search import InMetric, has_rule
from krepes.regression.ridge_algebra import PENALTIES, LeaveOneOut

MOST_ROWS, MOST_LANDMARKS, GRADIENT_ROWS, MEDIAN_ROWS = 2000, 500, 500, 400
JITTER = 1e-11  # of the diagonal, added where points coincide
SHORTEST, LONGEST = 2.0**-4, 2.0**5  # lengthscales that are tried, in medians


class Sample:
    """Rows with targets on which kernels are tried.

    Parameters
    ----------
    rows : Tensor of shape (n, d) or SparseRows, float64; or n objects, all of which are landmarks
    Y : Tensor of shape (n, c), float64
    weight : Tensor of shape (n,) or None
    intercept : bool
    seed : int
    """

    def __init__(self, rows: Any, Y: Tensor, weight: Tensor | None, intercept: bool, seed: int):
        self.rows, self.Y, self.weight, self.intercept, self.seed = rows, Y, weight, intercept, seed
        self.points = rows
        if isinstance(rows, Tensor | SparseRows):
            generator = torch.Generator().manual_seed(seed)
            order = torch.randperm(len(rows), generator=generator).to(rows.device)
            self.probes, self.some = rows[order[:GRADIENT_ROWS]], order[:MEDIAN_ROWS]
            if len(rows) > MOST_LANDMARKS:
                self.places = order[:MOST_LANDMARKS]
                self.points = rows[self.places]

    def divided(self, fold: int, n_folds: int) -> tuple[Sample, Sample]:
        """The rows outside and inside a fold."""
        inside = torch.arange(len(self.rows), device=self.rows.device) % n_folds == fold
        return self.part(~inside), self.part(inside)

    def part(self, which: Tensor) -> Sample:
        weight = None if self.weight is None else self.weight[which]
        return Sample(self.rows[which], self.Y[which], weight, self.intercept, self.seed)

    def with_all_points(self) -> Sample:
        """The same rows, every one of them a landmark."""
        whole = copy.copy(self)
        whole.points = self.rows
        return whole

    @property
    def total_weight(self) -> float:
        return len(self.rows) if self.weight is None else self.weight.sum().item()

    def fitted(self, kernel: Kernel) -> SampleFit:
        """The ridge regression with the best penalty."""
        if len(self.points) == len(self.rows):
            K, L = kernel(self.rows).double(), None
            Y, weight = self.Y.to(K), None if self.weight is None else self.weight.to(K)
            fit = LeaveOneOut.of_kernel(symmetric(K), Y, weight, self.intercept)
        else:
            K = kernel(self.rows, self.points).double()
            L = _root(K[self.places])
            Phi = torch.linalg.solve_triangular(L, K.mT, upper=False).mT
            fit = LeaveOneOut.of_features(Phi, self.Y, self.weight, self.intercept)
        penalty, error, row_errors = fit.chosen(PENALTIES * fit.e.sum().item())
        return SampleFit(self, kernel, fit, L, penalty, error, row_errors.cpu().numpy())


@dataclass(frozen=True, eq=False)
class SampleFit:
    """Ridge regression with one kernel.

    Attributes
    ----------
    sample : Sample
    kernel : Kernel
    fit : LeaveOneOut
    L : Tensor of shape (m, m) or None
        L L^T is the kernel between the points; None if all rows are points.
    penalty, error : float
    row_errors : ndarray of shape (n,)
        The squared leave-one-out error of every row.
    """

    sample: Sample
    kernel: Kernel
    fit: LeaveOneOut
    L: Tensor | None
    penalty: float
    error: float
    row_errors: np.ndarray

    def coefficients(self) -> tuple[Tensor, Tensor]:
        """A (m, c) of k(., points), and b."""
        W, b = self.fit.coefficients(self.penalty)
        return W if self.L is None else torch.linalg.solve_triangular(self.L.mT, W, upper=True), b

    def error_on(self, other: Sample) -> float:
        """The weighted sum of squared errors on other rows."""
        A, b = self.coefficients()
        errors = other.Y - self.kernel(other.rows, self.sample.points).double() @ A - b
        errors = errors.square().sum(1)
        return (errors if other.weight is None else other.weight * errors).sum().item()

    def metric(
        self, kind: str, groups: list[list[int]] | None, units: np.ndarray | None = None
    ) -> np.ndarray | None:
        """The metric that the gradients of the fit give; None where it or the kernel has none.

        `units`, (d,), are 1 / scale^2 of columns that are standardised: the metric is learned in their units.
        """
        sample, A = self.sample, self.coefficients()[0]
        assert isinstance(sample.probes, Tensor)
        try:
            G = gradient_outer_product(self.kernel, sample.probes, sample.points, A, full=kind == "full")
        except TypeError:
            return None
        return metric_of(G, groups, units)


def _root(K: Tensor) -> Tensor:
    """L with L L^T = K, up to a little jitter; K is overwritten."""
    for jitter in (JITTER, 1e4 * JITTER):
        K.diagonal().add_(jitter * K.diagonal().mean())
        L, failed = torch.linalg.cholesky_ex(K)
        if not failed.item():
            return L
    raise ValueError(
        "The kernel between points of the sample is not positive definite. A row far from all others leaves "
        "the others too few digits: leave it out, or try another kernel."
    )


def in_metric(sample: Sample, kernel: Kernel, M: np.ndarray | None) -> InMetric:
    some = sample.some if isinstance(sample.rows, Tensor | SparseRows) else None
    return InMetric(kernel, M, sample.rows, some)


def fit_in_metric(sample: Sample, kernel: Kernel, M: np.ndarray | None, medians: float) -> SampleFit:
    return sample.fitted(in_metric(sample, kernel, M).at(medians))


class Walk:
    """Lengthscales in one metric, from a first one downhill; all are tried when it is made."""

    error: float
    best: TriedByLeaveOneOut
    best_fit: SampleFit

    def __init__(
        self, sample: Sample, kernel: Kernel, M: np.ndarray | None, search: bool, metric: str, first: float
    ):
        self.sample, self.where = sample, in_metric(sample, kernel, M)
        self.search, self.metric = search, metric
        self.steps: list[TriedByLeaveOneOut] = []
        if search and has_rule(kernel):
            self._downhill(first)
        else:
            self._try(self.where.given_medians)

    def _downhill(self, first: float) -> None:
        self._try(first)
        tried = {first}
        for factor in (2.0, 0.5):
            while SHORTEST <= (ahead := self.best.medians * factor) <= LONGEST and ahead not in tried:
                tried.add(ahead)
                if not self._try(ahead):
                    break

    def shortened(self) -> TriedByLeaveOneOut:
        """The shortest lengthscale that is not worse than the best by more than chance explains."""
        found, best = self.best, self.best
        while found.medians / 2 >= SHORTEST:  # false for NaN
            known = [step for step in self.steps if step.medians == found.medians / 2]
            if not known:
                self._try(found.medians / 2)
            ahead = known[0] if known else self.steps[-1]
            if ahead.is_worse_than(best):
                break
            found = ahead
        return found

    def _try(self, medians: float) -> bool:
        """Whether it is better than all before."""
        fit = self.sample.fitted(self.where.at(medians))
        numbers = fit.error, medians, fit.penalty, fit.row_errors
        self.steps.append(TriedByLeaveOneOut(fit.kernel, self.metric, *numbers))
        better = len(self.steps) == 1 or fit.error < self.error
        if better:
            self.best, self.best_fit, self.error = self.steps[-1], fit, fit.error
        return better
