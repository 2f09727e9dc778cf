"""Kernel, lengthscale and metric from a sample of rows with targets, by exact leave-one-out errors.

For every kernel: walk along lengthscales, each twice the last, to the lowest error; learn a metric from the gradients
of the fit; walk again in the new metric; a few times. Every step competes, the first, without a metric, too. The first
kernel named is kept unless another one is better by more than chance explains: two standard errors of the differences
between rows. Kernels are tried with few landmarks, which favours smooth ones. A machine with more landmarks than the
sample has rows takes another kernel only if that is ahead with every row of the sample as a landmark, too. (CoverType,
6400 rows, all of them landmarks: 79.7 instead of 77.3 %; with 2000 landmarks letter and chess lost by it.)

A fit to many more rows than the sample has can follow a finer function than the sample can show: the shortest
lengthscale is then taken that chance cannot tell from the best one. (Higgs, three splits, 2000 landmarks: 72.2 instead
of 71.6 %, where single precision cuts half the rank at 32 medians; CoverType, Adult and magic as before.)

The metric has seen the rows that it is judged by, so that its leave-one-out error is too low; a full metric, which has
more to fit, more so than a diagonal one. Between the two, the error on folds decides whose rows neither was learned
from. Between a diagonal metric and none, leave-one-out errors decide: on twenty tables that was better than folds (80.3
against 80.0 % with a tenth of the labels), because a metric learned from fewer rows is a worse one.

Cost: about ten fits per kernel, each O(n m^2 + m^3) for n <= 2000 rows and m <= 500 landmarks.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.column_scale import column_scale
from krepes.kernels import Kernel, Reweighted
from krepes.kernels.lengthscale import median_distance
from krepes.kernels.radial import RadialKernel
from krepes.machines.kernel_choice import KernelChoice, TriedKernel, short_name
from krepes.machines.kernel_ridge.input_metric import gradient_outer_product, metric_of
from krepes.regression.leave_one_out import LeaveOneOut
from krepes.regression.penalty_choice import PENALTIES, searched

MOST_ROWS, MOST_LANDMARKS, GRADIENT_ROWS, MEDIAN_ROWS = 2000, 500, 500, 400
JITTER = 1e-11  # of the diagonal, added where points coincide
SHORTEST, LONGEST = 2.0**-4, 2.0**5  # lengthscales that are tried, in medians
HOPELESS = 1.1  # times the error of the first kernel, above which no metric is learned for another
STEPS = 2  # metrics learned one after the other
CHECK_FOLDS = 3  # on which metrics are compared that were learned on the others
DOUBT = 2.0  # standard errors that chance explains: another kernel must be better by more
MANY_MORE = 4  # times the rows of the sample, from which a fit can follow a finer function
METRICS = (None, "diagonal", "full", "auto")


@dataclass(frozen=True, eq=False)
class Tried(TriedKernel):
    """One kernel, and its mean squared leave-one-out error on the sample, summed over outputs.

    Attributes
    ----------
    kernel, metric, error : as in TriedKernel
    medians : float
        Its lengthscale in median distances; NaN where it has none.
    penalty : float
    row_errors : ndarray of shape (n,)
    """

    medians: float
    penalty: float
    row_errors: np.ndarray


@dataclass(frozen=True, eq=False)
class SpaceChoice(KernelChoice):
    """What was tried, in order, and what was chosen, by leave-one-out errors."""

    chosen: Tried
    tried: Sequence[Tried]

    def __str__(self) -> str:
        lines = [f"{len(self.tried)} kernels by leave-one-out errors of {self.n_rows:,} rows:"]
        for each in self.tried:
            mark = "  <- chosen" if each is self.chosen else ""
            scale = " " * 18 if math.isnan(each.medians) else f"{each.medians:8.3g} medians, "
            lines.append(f"  {short_name(each.kernel):<24} {scale}{each.metric:<14} {each.error:.4f}{mark}")
        return "\n".join(lines)


class Sample:
    """Rows with targets on which kernels are tried.

    Parameters
    ----------
    rows : Tensor of shape (n, d) or SparseRows, float64
    Y : Tensor of shape (n, c), float64
    weight : Tensor of shape (n,) or None
    intercept : bool
    seed : int
    """

    def __init__(self, rows: Tensor | Any, Y: Tensor, weight: Tensor | None, intercept: bool, seed: int):
        self.rows, self.Y, self.weight, self.intercept, self.seed = rows, Y, weight, intercept, seed
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(rows), generator=generator).to(rows.device)
        self.points = rows if len(rows) <= MOST_LANDMARKS else rows[order[:MOST_LANDMARKS]]
        self.probes, self.some = rows[order[:GRADIENT_ROWS]], order[:MEDIAN_ROWS]

    def divided(self, fold: int, n_folds: int) -> tuple[Sample, Sample]:
        """The rows outside and inside a fold."""
        inside = torch.arange(len(self.rows), device=self.rows.device) % n_folds == fold
        return self._part(~inside), self._part(inside)

    def _part(self, which: Tensor) -> Sample:
        weight = None if self.weight is None else self.weight[which]
        return Sample(self.rows[which], self.Y[which], weight, self.intercept, self.seed)

    def with_all_points(self) -> Sample:
        """The same rows, every one of them a landmark."""
        whole = copy.copy(self)
        whole.points = self.rows
        return whole

    def fitted(self, kernel: Kernel) -> SampleFit:
        """The ridge regression with the best penalty."""
        if len(self.points) == len(self.rows):
            K, L = kernel(self.rows).double(), None
            fit = LeaveOneOut.of_kernel((K + K.mT) / 2, self.Y, self.weight, self.intercept)
        else:
            L = _root(kernel(self.points).double())
            Phi = torch.linalg.solve_triangular(L, kernel(self.points, self.rows).double(), upper=False).mT
            fit = LeaveOneOut.of_features(Phi, self.Y, self.weight, self.intercept)
        return SampleFit.best(kernel, fit, L)


@dataclass(frozen=True, eq=False)
class SampleFit:
    """Ridge regression with one kernel; L L^T is that of the points, and None where all rows are points."""

    kernel: Kernel
    fit: LeaveOneOut
    L: Tensor | None
    penalty: float
    error: float

    @classmethod
    def best(cls, kernel: Kernel, fit: LeaveOneOut, L: Tensor | None = None) -> SampleFit:
        """With the penalty that has the lowest error."""
        penalties = PENALTIES * fit.e.sum().item()
        errors = searched(fit.error, penalties)
        lowest = int(np.nanargmin(errors))
        return cls(kernel, fit, L, float(penalties[lowest]), float(errors[lowest]))

    def tried(self, metric: str, medians: float = math.nan) -> Tried:
        return Tried(self.kernel, metric, self.error, medians, self.penalty, self.row_errors())

    def row_errors(self) -> np.ndarray:
        """The squared leave-one-out error of every row, (n,)."""
        return (self.fit.Y - self.fit.predictions(self.penalty)).square().sum(1).cpu().numpy()

    def coefficients(self) -> tuple[Tensor, Tensor]:
        """A (m, c) of k(., points), and b."""
        W, b = self.fit.coefficients(self.penalty)
        return W if self.L is None else torch.linalg.solve_triangular(self.L.mT, W, upper=True), b

    def metric(
        self, sample: Sample, kind: str, groups: list[list[int]] | None, units: np.ndarray | None = None
    ) -> np.ndarray | None:
        """The metric that the gradients of the fit give; None where it or the kernel has none.

        `units`, (d,), are 1 / scale^2 of columns that are standardised: the metric is learned in their units.
        """
        try:
            G = gradient_outer_product(
                self.kernel, sample.probes, sample.points, self.coefficients()[0], full=kind == "full"
            )
        except TypeError:
            return None
        if units is None:
            return metric_of(G, groups)
        root = np.sqrt(units)
        if G.ndim == 1:
            M = metric_of(G / torch.from_numpy(units).to(G), groups)
            return None if M is None else M * units
        scaled = torch.from_numpy(np.outer(1 / root, 1 / root)).to(G)
        M = metric_of(G * scaled, groups)
        return None if M is None else M * np.outer(root, root)


def choose_space(
    sample: Sample,
    kernels: Sequence[Kernel],
    *,
    search_lengthscale: bool,
    metric: str | None,
    standardise: bool,
    groups: list[list[int]] | None,
    n_rows: int = 0,
    n_landmarks: int = 0,
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
    n_rows, n_landmarks : int
        How many rows the machine will be fitted to, and how many landmarks it will have.
    """
    ends: list[_Walk] = []
    tried: list[Tried] = []
    starts: list[tuple[str, np.ndarray | None]] = [("as given", None)]
    if standardise:
        spread = column_scale(sample.rows)[1].double().cpu().numpy()
        spread = np.where(spread > 0, spread, spread.max() if spread.max() > 0 else 1.0)
        starts.append(("standardised", 1 / np.square(spread)))
    limit = math.inf
    for kernel in kernels:
        search = _Search(sample, kernel, search_lengthscale, starts, groups)
        search.run(metric, limit)
        tried += search.tried
        ends.append(search.best())
        if kernel is kernels[0]:  # the others start where it did best
            starts = [(search.start.metric, search.start.where.M)]
            limit = HOPELESS * search.start.best.error
    chosen = _preferred([end.best for end in ends])
    if n_landmarks > len(sample.rows):
        chosen = _confirmed(sample, ends[0].best, chosen)
    if search_lengthscale and n_rows >= MANY_MORE * len(sample.rows):
        end = next(end for end in ends if end.best is chosen)
        chosen = end.shortened()
        tried += [step for step in end.steps if step not in tried]
    return SpaceChoice(chosen, tried, len(sample.rows))


def choose_on_objects(
    objects: Sequence[Any],
    kernels: Sequence[Kernel],
    Y: Tensor,  # shape: (n, c), float64
    weight: Tensor | None,
    intercept: bool,
) -> SpaceChoice:
    """Try kernels on objects as they are, from their whole kernel matrices."""
    tried = []
    for kernel in kernels:
        K = kernel(objects).double()
        fit = LeaveOneOut.of_kernel(
            (K + K.mT) / 2, Y.to(K), None if weight is None else weight.to(K), intercept
        )
        tried.append(SampleFit.best(kernel, fit).tried("as given"))
    return SpaceChoice(_preferred(tried), tried, len(objects))


def _preferred(best: Sequence[Tried]) -> Tried:
    """The first, unless another is better by more than chance explains."""
    chosen = best[0]
    for other in best[1:]:
        if _worse(chosen, other):
            chosen = other
    return chosen


def _confirmed(sample: Sample, first: Tried, other: Tried) -> Tried:
    """The other one, if it is better than the first with all rows as landmarks, too."""
    if other is first:
        return other
    whole = sample.with_all_points()
    return (
        other if _worse(*(whole.fitted(each.kernel).tried(each.metric) for each in (first, other))) else first
    )


def _worse(one: Tried, other: Tried) -> bool:
    """By more than chance explains."""
    difference = one.row_errors - other.row_errors
    return bool(difference.mean() > DOUBT * difference.std() / math.sqrt(len(difference)))


class _Search:
    """All that is tried with one kernel: lengthscales without a metric, then after each step of learning one."""

    def __init__(
        self,
        sample: Sample,
        kernel: Kernel,
        lengthscales: bool,
        starts: Sequence[tuple[str, np.ndarray | None]],
        groups: list[list[int]] | None,
    ):
        self.sample, self.kernel, self.lengthscales, self.groups = sample, kernel, lengthscales, groups
        self.tried: list[Tried] = []
        walks = [self._walk(name, M) for name, M in starts]
        self.start = min(walks, key=lambda walk: walk.best.error)
        self.routes: dict[str, list[_Walk]] = {}  # by kind of metric

    def _walk(self, name: str, M: np.ndarray | None, first: float = 1.0) -> _Walk:
        walk = _Walk(_InMetric(self.sample, self.kernel, M), self.lengthscales, name, first)
        self.tried += walk.steps
        return walk

    def run(self, metric: str | None, limit: float) -> None:
        """Learn metrics, unless the error without one is above the limit."""
        if self.start.best.error > limit:
            return
        kinds = {None: (), "auto": ("diagonal", "full")}.get(metric, (metric,))
        for kind in kinds:
            assert kind is not None
            route = [self.start]
            for step in range(1, STEPS + 1):
                M = route[-1].best_fit.metric(self.sample, kind, self.groups, self.start.where.M)
                if M is None:
                    break
                route.append(self._walk(f"{kind} {step}", M, route[-1].best.medians))
            end = min(range(len(route)), key=lambda i: route[i].best.error)
            if end > 0:
                self.routes[kind] = route[: end + 1]

    def best(self) -> _Walk:
        """The end of the route that is best; of two kinds of metric, on folds that they were learned without."""
        if not self.routes:
            return self.start
        kind = min(self.routes, key=self.fold_error) if len(self.routes) > 1 else next(iter(self.routes))
        return self.routes[kind][-1]

    def fold_error(self, kind: str) -> float:
        """The mean squared error of a route on folds of the sample, the metrics learned on the others."""
        route, total = self.routes[kind], 0.0
        for fold in range(CHECK_FOLDS):
            training, held_out = self.sample.divided(fold, CHECK_FOLDS)
            M = self.start.where.M
            for walk in route[:-1]:
                fit = _InMetric(training, self.kernel, M).fitted(walk.best.medians)
                learned = fit.metric(training, kind, self.groups, self.start.where.M)
                M = M if learned is None else learned
            fit = _InMetric(training, self.kernel, M).fitted(route[-1].best.medians)
            A, b = fit.coefficients()
            errors = (
                (held_out.Y - fit.kernel(held_out.rows, training.points).double() @ A - b).square().sum(1)
            )
            total += (errors if held_out.weight is None else held_out.weight * errors).sum().item()
        return total / (
            len(self.sample.rows) if self.sample.weight is None else self.sample.weight.sum().item()
        )


def _root(K: Tensor) -> Tensor:
    """L with L L^T = K, up to a little jitter."""
    K = (K + K.mT) / 2
    K.diagonal().add_(JITTER * K.diagonal().mean())
    L, failed = torch.linalg.cholesky_ex(K)
    if failed.item():
        K.diagonal().add_(1e4 * JITTER * K.diagonal().mean())
        L = torch.linalg.cholesky(K)
    return L


class _InMetric:
    """A kernel in one metric, at lengthscales that are multiples of the median distance there."""

    def __init__(self, sample: Sample, kernel: Kernel, M: np.ndarray | None):
        self.sample, self.kernel, self.M = sample, kernel, M
        self.rows = sample.rows if M is None else Reweighted(kernel, M).weighed(sample.rows)

    @property
    def has_rule(self) -> bool:
        """Whether the lengthscale follows from the data."""
        return isinstance(self.kernel, RadialKernel) and isinstance(self.kernel.lengthscale, str)

    @cached_property
    def unit(self) -> float:
        """The lengthscale that one median distance is."""
        assert isinstance(self.kernel, RadialKernel)
        generator = torch.Generator().manual_seed(self.sample.seed)
        median = median_distance(self.rows[self.sample.some], self.kernel.distances_to, generator)
        return median / self.kernel.reach

    def fitted(self, medians: float) -> SampleFit:
        """At a multiple of the median; as it is where that is NaN."""
        if math.isnan(medians):
            inner = self.kernel.fitted(self.rows)
        else:
            inner = clone(self.kernel).set_params(lengthscale=medians * self.unit)
        return self.sample.fitted(inner if self.M is None else Reweighted(inner, self.M))


class _Walk:
    """Lengthscales in one metric, from a first one downhill."""

    def __init__(self, where: _InMetric, search: bool, metric: str, first: float = 1.0):
        self.where, self.metric = where, metric
        self.steps: list[Tried] = []
        self.best: Tried
        self.best_fit: SampleFit
        if where.has_rule and search:
            self._downhill(first)
        else:
            kernel = where.kernel
            self._try(kernel.medians() if where.has_rule and isinstance(kernel, RadialKernel) else math.nan)

    def _downhill(self, first: float) -> None:
        self._try(first)
        tried = {first}
        for factor in (2.0, 0.5):
            while SHORTEST <= (ahead := self.best.medians * factor) <= LONGEST and ahead not in tried:
                tried.add(ahead)
                if not self._try(ahead):
                    break

    def shortened(self) -> Tried:
        """The shortest lengthscale that is not worse than the best by more than chance explains."""
        found, best = self.best, self.best
        while found.medians / 2 >= SHORTEST:  # false for NaN
            known = [step for step in self.steps if step.medians == found.medians / 2]
            if not known:
                self._try(found.medians / 2)
            ahead = known[0] if known else self.steps[-1]
            if _worse(ahead, best):
                break
            found = ahead
        return found

    def _try(self, medians: float) -> bool:
        """Whether it is better than all before."""
        fit = self.where.fitted(medians)
        self.steps.append(fit.tried(self.metric, medians))
        better = len(self.steps) == 1 or fit.error < self.best.error
        if better:
            self.best, self.best_fit = self.steps[-1], fit
        return better
