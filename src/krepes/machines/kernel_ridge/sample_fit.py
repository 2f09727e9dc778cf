"""Ridge regression on a sample of rows with any kernel, and its exact leave-one-out errors.

Up to 500 of the rows are landmarks. The metric of a fit is that of its gradients (`input_metric`).
Cost: O(n m^2 + m^3) for n <= 2000 rows and m <= 500 landmarks.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import symmetric
from krepes.base.rows import SparseRows
from krepes.kernels import Kernel
from krepes.machines.kernel_ridge.input_metric import gradient_outer_product, metric_of
from krepes.regression.leave_one_out import LeaveOneOut
from krepes.regression.penalty_choice import PENALTIES, searched

MOST_ROWS, MOST_LANDMARKS, GRADIENT_ROWS, MEDIAN_ROWS = 2000, 500, 500, 400
JITTER = 1e-11  # of the diagonal, added where points coincide
DOUBT = 2.0  # standard errors that chance explains


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
                self.points = rows[order[:MOST_LANDMARKS]]

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
            L = _root(kernel(self.points).double())
            Phi = torch.linalg.solve_triangular(L, kernel(self.points, self.rows).double(), upper=False).mT
            fit = LeaveOneOut.of_features(Phi, self.Y, self.weight, self.intercept)
        penalties = PENALTIES * fit.e.sum().item()
        errors = searched(fit.error, penalties)
        lowest = int(np.nanargmin(errors))
        return SampleFit(self, kernel, fit, L, float(penalties[lowest]), float(errors[lowest]))


@dataclass(frozen=True, eq=False)
class SampleFit:
    """Ridge regression with one kernel; L L^T is that of the points, and None where all rows are points."""

    sample: Sample
    kernel: Kernel
    fit: LeaveOneOut
    L: Tensor | None
    penalty: float
    error: float

    def row_errors(self) -> np.ndarray:
        """The squared leave-one-out error of every row, (n,)."""
        return (self.fit.Y - self.fit.predictions(self.penalty)).square().sum(1).cpu().numpy()

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
        if units is None:
            return metric_of(G, groups)
        if G.ndim == 2:
            units = np.outer(np.sqrt(units), np.sqrt(units))
        M = metric_of(G / torch.from_numpy(units).to(G), groups)
        return None if M is None else M * units


def clearly_lower(
    errors: np.ndarray,  # shape: (n,)
    others: np.ndarray,  # shape: (n,)
) -> bool:
    """Whether errors of rows are lower than others by more than chance explains.

    >>> clearly_lower(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    True
    """
    difference = others - errors
    return bool(difference.mean() > DOUBT * difference.std() / math.sqrt(len(difference)))


def _root(K: Tensor) -> Tensor:
    """L with L L^T = K, up to a little jitter."""
    K = symmetric(K)
    K.diagonal().add_(JITTER * K.diagonal().mean())
    L, failed = torch.linalg.cholesky_ex(K)
    if failed.item():
        K.diagonal().add_(1e4 * JITTER * K.diagonal().mean())
        L = torch.linalg.cholesky(K)
    return L
