"""Kernel, lengthscale and metric from a sample of rows with targets, by exact leave-one-out errors.

For every kernel: walk along lengthscales, each twice the last, to the lowest error; learn a metric from the gradients
of the fit; walk again in the new metric; a few times. Every step competes, the first, without a metric, too. The first
kernel named is kept unless another one is better by more than chance explains: two standard errors of the differences
between rows.

The metric has seen the rows that it is judged by, so that its leave-one-out error is too low. `optimism` says by how
much: the error of metrics learned without a fold, on the fold, minus that of the metric learned with it.

Cost: about ten fits per kernel, each O(n m^2 + m^3) for n <= 2000 rows and m <= 500 landmarks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.features.nystrom import NystromMap
from krepes.kernels import Kernel, Reweighted
from krepes.kernels.lengthscale import median_distance
from krepes.kernels.radial import RadialKernel
from krepes.machines.kernel_ridge.input_metric import gradient_outer_product, metric_of
from krepes.machines.kernel_ridge.penalty_choice import PENALTIES
from krepes.machines.leave_one_out import LeaveOneOut
from krepes.preprocessing.column_scale import column_scale

MOST_ROWS, MOST_LANDMARKS, GRADIENT_ROWS = 2000, 500, 500
SHORTEST, LONGEST = 2.0**-4, 2.0**7  # lengthscales that are tried, in medians
STEPS = 2  # metrics learned one after the other
DOUBT = 2.0  # standard errors by which another kernel must be better
METRICS = (None, "diagonal", "full", "auto")


@dataclass(frozen=True, eq=False)
class Tried:
    """One kernel, and how it did on the sample.

    Attributes
    ----------
    kernel : Kernel
        With numbers for its parameters, and its metric.
    medians : float
        Its lengthscale in median distances; NaN where it has none.
    metric : str
        "as given", "standardised", "diagonal 1", "full 2", ...
    penalty : float
    error : float
        Mean squared leave-one-out error, summed over outputs.
    row_errors : ndarray of shape (n,)
    """

    kernel: Kernel
    medians: float
    metric: str
    penalty: float
    error: float
    row_errors: np.ndarray


@dataclass(frozen=True, eq=False)
class SpaceChoice:
    """What was tried, in order, and what was chosen.

    Attributes
    ----------
    chosen : Tried
    tried : list of Tried
    n_rows : int
        Rows of the sample.
    """

    chosen: Tried
    tried: list[Tried]
    n_rows: int

    def __str__(self) -> str:
        lines = [f"{len(self.tried)} kernels by leave-one-out errors of {self.n_rows:,} rows:"]
        for each in self.tried:
            mark = "  <- chosen" if each is self.chosen else ""
            lines.append(
                f"  {short_name(each.kernel):<24} {each.medians:8.3g} medians, {each.metric:<14} {each.error:.4f}{mark}"
            )
        return "\n".join(lines)


def short_name(kernel: Kernel) -> str:
    """A short name.

    >>> from krepes.kernels import Laplacian
    >>> short_name(Laplacian(norm=1))
    'Laplacian(norm=1)'
    """
    if isinstance(kernel, Reweighted) and kernel.kernel is not None:
        return short_name(kernel.kernel)
    given = {k: v for k, v in kernel.get_params(deep=False).items() if k != "lengthscale"}
    return repr(type(kernel)(**given))


class Sample:
    """Rows with targets on which kernels are tried.

    Parameters
    ----------
    rows : Tensor of shape (n, d), float64
    Y : Tensor of shape (n, c), float64
    weight : Tensor of shape (n,) or None
    intercept : bool
    seed : int
    """

    def __init__(self, rows: Tensor, Y: Tensor, weight: Tensor | None, intercept: bool, seed: int):
        self.rows, self.Y, self.weight, self.intercept, self.seed = rows, Y, weight, intercept, seed
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(rows), generator=generator).to(rows.device)
        self.points = rows if len(rows) <= MOST_LANDMARKS else rows[order[:MOST_LANDMARKS]]
        self.probes = rows[order[:GRADIENT_ROWS]]

    def fitted(self, kernel: Kernel) -> SampleFit:
        """The ridge regression with the best penalty."""
        if len(self.points) == len(self.rows):
            K, F = kernel(self.rows).double(), None
            fit = LeaveOneOut.of_kernel((K + K.mT) / 2, self.Y, self.weight, self.intercept)
        else:
            features = NystromMap(kernel, self.points, torch.float64)
            fit, F = (
                LeaveOneOut.of_features(features(self.rows), self.Y, self.weight, self.intercept),
                features.F,
            )
        penalties = PENALTIES * fit.e.sum().item()
        errors = fit.errors(penalties)
        best = int(np.argmin(errors))
        return SampleFit(kernel, fit, F, float(penalties[best]), float(errors[best]))


@dataclass(frozen=True, eq=False)
class SampleFit:
    """Ridge regression with one kernel; F maps features to the points, and is None where all rows are points."""

    kernel: Kernel
    fit: LeaveOneOut
    F: Tensor | None
    penalty: float
    error: float

    def row_errors(self) -> np.ndarray:
        """The squared leave-one-out error of every row, (n,)."""
        return (self.fit.Y - self.fit.predictions(self.penalty)).square().sum(1).cpu().numpy()

    def outer_product(self, sample: Sample, full: bool) -> Tensor | None:
        """G of the fit; None where the kernel has no gradients."""
        W, _ = self.fit.coefficients(self.penalty)
        A = W if self.F is None else self.F @ W
        try:
            return gradient_outer_product(self.kernel, sample.probes, sample.points, A, full)
        except TypeError:
            return None


def choose_space(
    sample: Sample,
    kernels: Sequence[Kernel],
    *,
    search_lengthscale: bool,
    metric: str | None,
    standardise: bool,
    groups: list[list[int]] | None,
) -> SpaceChoice:
    """Try kernels, lengthscales and metrics.

    Parameters
    ----------
    sample : Sample
    kernels : sequence of Kernels
        The first is preferred.
    search_lengthscale : bool
        For radial kernels whose lengthscale is a rule; others are tried as they are.
    metric : None, "diagonal", "full" or "auto"
        What to learn; "auto" tries both.
    standardise : bool
        Whether columns divided by their spread compete with those as given.
    groups : lists of encoded columns that share a weight
    """
    best: list[Tried] = []
    tried: list[Tried] = []
    for kernel in kernels:
        found = list(_tried(sample, kernel, search_lengthscale, metric, standardise, groups))
        tried += found
        best.append(min(found, key=lambda each: each.error))
    chosen = best[0]
    for other in best[1:]:
        difference = chosen.row_errors - other.row_errors
        doubt = DOUBT * difference.std() / math.sqrt(len(difference))
        if difference.mean() > doubt:
            chosen = other
    return SpaceChoice(chosen, tried, len(sample.rows))


def _tried(
    sample: Sample,
    kernel: Kernel,
    search: bool,
    metric: str | None,
    standardise: bool,
    groups: list[list[int]] | None,
) -> Iterable[Tried]:
    """All steps of one kernel."""
    starts: list[tuple[str, np.ndarray | None]] = [("as given", None)]
    if standardise:
        spread = column_scale(sample.rows)[1].double().cpu().numpy()
        spread = np.where(spread > 0, spread, spread.max() if spread.max() > 0 else 1.0)
        starts.append(("standardised", 1 / np.square(spread)))
    walks = [_Walk(sample, kernel, search, name, M) for name, M in starts]
    for walk in walks:
        yield from walk.steps
    start = min(walks, key=lambda walk: walk.best.error)
    kinds = {None: (), "auto": ("diagonal", "full")}.get(metric, (metric,))
    for kind in kinds:
        last = start
        for step in range(1, STEPS + 1):
            G = last.best_fit.outer_product(sample, full=kind == "full")
            M = None if G is None else metric_of(G, groups)
            if M is None:
                break
            last = _Walk(sample, kernel, search, f"{kind} {step}", M, last.best.medians)
            yield from last.steps


class _Walk:
    """Lengthscales in one metric, from a first one downhill."""

    def __init__(
        self,
        sample: Sample,
        kernel: Kernel,
        search: bool,
        metric: str,
        M: np.ndarray | None,
        first: float = 1.0,
    ):
        self.sample, self.kernel, self.metric, self.M = sample, kernel, metric, M
        self.weighed = sample.rows if M is None else Reweighted(kernel, M).weighed(sample.rows)
        self.steps: list[Tried] = []
        self.best: Tried
        self.best_fit: SampleFit
        if not isinstance(kernel, RadialKernel) or not isinstance(kernel.lengthscale, str):
            self._try(kernel.fitted(self.weighed), math.nan)
        elif not search:
            self._at(kernel.medians())
        else:
            self._downhill(first)

    def _downhill(self, first: float) -> None:
        self._at(first)
        tried = {first}
        for factor in (2.0, 0.5):
            while SHORTEST <= (ahead := self.best.medians * factor) <= LONGEST and ahead not in tried:
                tried.add(ahead)
                if not self._at(ahead):
                    break

    @cached_property
    def unit(self) -> float:
        """The lengthscale that one median distance is."""
        assert isinstance(self.kernel, RadialKernel)
        generator = torch.Generator().manual_seed(self.sample.seed)
        return median_distance(self.weighed, self.kernel.distances_to, generator) / self.kernel.reach

    def _at(self, medians: float) -> bool:
        return self._try(clone(self.kernel).set_params(lengthscale=medians * self.unit), medians)

    def _try(self, inner: Kernel, medians: float) -> bool:
        """Whether it is better than all before."""
        fit = self.sample.fitted(inner if self.M is None else Reweighted(inner, self.M))
        self.steps.append(Tried(fit.kernel, medians, self.metric, fit.penalty, fit.error, fit.row_errors()))
        better = len(self.steps) == 1 or fit.error < self.best.error
        if better:
            self.best, self.best_fit = self.steps[-1], fit
        return better
