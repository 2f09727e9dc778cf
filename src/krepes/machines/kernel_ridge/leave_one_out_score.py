"""Kernels compared by exact leave-one-out errors of ridge regression on a sample of rows with targets.

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

Cost: about ten fits per kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from krepes.base.rows import SparseRows, take_rows
from krepes.features.kernel_choice import KernelChoice, clearly_lower
from krepes.kernels import Gaussian, Kernel, Laplacian
from krepes.machines.compared_errors import TriedByLeaveOneOut
from krepes.machines.input_metric import METRICS
from krepes.machines.kernel_ridge.sample_fit import MOST_ROWS, Sample, Walk, fit_in_metric
from krepes.machines.kernel_search import Labelled, Score, Trials
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates

MOST_OBJECTS = 500  # whose kernel matrices are computed to compare kernels
HOPELESS = 1.1  # times the error of the first kernel, above which no metric is learned for another
STEPS = 2  # metrics learned one after the other
CHECK_FOLDS = 3  # on which metrics are compared that were learned on the others
MANY_MORE = 4  # times the rows of the sample, from which a fit can follow a finer function


@dataclass(frozen=True)
class LeaveOneOutScore(Score):
    """Leave-one-out errors of ridge regression, with or without an intercept."""

    intercept: bool

    compares = (object,)
    who = "a ridge machine"
    compares_patches = True

    def usual(self, narrow: bool) -> list[Kernel]:
        return [*([Laplacian(norm=1)] if narrow else []), Gaussian(), Laplacian()]

    def trials(
        self, candidates: Candidates, inputs: InputSpace, labelled: Labelled | None, seed: int
    ) -> LeaveOneOutTrials:
        assert labelled is not None
        rows, indices = candidates.rows, candidates.indices
        if isinstance(rows, Tensor | SparseRows):
            drawn, Y, weight = labelled.sample(candidates, seed, MOST_ROWS)
            sample = Sample(drawn, Y, weight, self.intercept, seed)
        else:
            places = np.random.default_rng(seed).permutation(len(indices))[:MOST_OBJECTS]
            sample = Sample(take_rows(rows, places), *labelled.of(indices[places]), self.intercept, seed)
        return LeaveOneOutTrials(sample, inputs.groups, len(labelled.y), labelled.n_landmarks)


class LeaveOneOutTrials(Trials[Walk]):
    """Kernels tried on one sample.

    Parameters
    ----------
    sample : Sample
    groups : lists of encoded columns that share a weight, or None
    n_rows, n_landmarks : int
        Rows that the machine will be fitted to, and its landmarks.
    """

    def __init__(
        self, sample: Sample, groups: list[list[int]] | None = None, n_rows: int = 0, n_landmarks: int = 0
    ):
        self.sample, self.groups, self.n_rows, self.n_landmarks = sample, groups, n_rows, n_landmarks
        self.rows = sample.rows
        self.tried: list[TriedByLeaveOneOut] = []
        self.ends: list[Walk] = []  # the best of every kernel
        self.limit = math.inf

    def attempt(
        self,
        kernel: Kernel,
        search_lengthscale: bool,
        metric: str,
        M: np.ndarray | None,
        first: float = 1.0,
    ) -> Walk:
        walk = Walk(self.sample, kernel, M, search_lengthscale, metric, first)
        self.tried += walk.steps
        return walk

    def improve(self, best: Walk, metric: str | None) -> None:
        """Learn metrics, unless the error without one is hopeless."""
        if not self.ends:
            self.limit = HOPELESS * best.error
        kinds = () if best.error > self.limit else METRICS[metric]
        routes = {kind: self._route(best, kind) for kind in kinds}
        routes = {kind: route for kind, route in routes.items() if len(route) > 1}
        if len(routes) > 1:
            lowest = min(routes, key=lambda kind: self._fold_error(kind, routes[kind]))
            routes = {lowest: routes[lowest]}
        self.ends.append(next((route[-1] for route in routes.values()), best))

    def _route(self, start: Walk, kind: str) -> list[Walk]:
        """Walks in one metric after the other, up to the best."""
        route = [start]
        for step in range(1, STEPS + 1):
            last = route[-1]
            M = last.best_fit.metric(kind, self.groups, start.where.M)
            if M is None:
                break
            name, medians = f"{kind} {step}", last.best.medians
            route.append(self.attempt(start.where.kernel, start.search, name, M, medians))
        end = min(range(len(route)), key=lambda i: route[i].error)
        return route[: end + 1]

    def _fold_error(self, kind: str, route: list[Walk]) -> float:
        """The mean squared error of a route on folds of the sample, the metrics learned on the others."""
        total, start = 0.0, route[0].where
        for fold in range(CHECK_FOLDS):
            training, held_out = self.sample.divided(fold, CHECK_FOLDS)
            M = start.M
            for walk in route[:-1]:
                fit = fit_in_metric(training, start.kernel, M, walk.best.medians)
                learned = fit.metric(kind, self.groups, start.M)
                M = M if learned is None else learned
            total += fit_in_metric(training, start.kernel, M, route[-1].best.medians).error_on(held_out)
        return total / self.sample.total_weight

    def verdict(self) -> KernelChoice[TriedByLeaveOneOut]:
        """The first kernel, unless another is better by more than chance explains."""
        end = self.ends[0]
        for other in self.ends[1:]:
            if end.best.is_worse_than(other.best):
                end = other
        n = len(self.rows)
        if self.n_landmarks > n and not self._confirmed(self.ends[0].best, end.best):
            end = self.ends[0]
        chosen = end.best
        if end.search and self.n_rows >= MANY_MORE * n:
            chosen = end.shortened()
            self.tried += [step for step in end.steps if step not in self.tried]
        title = f"{len(self.tried)} kernels by leave-one-out errors of {n:,} rows:"
        return KernelChoice(chosen, self.tried, n, title)

    def _confirmed(self, first: TriedByLeaveOneOut, other: TriedByLeaveOneOut) -> bool:
        """Whether the other one is better than the first with all rows as landmarks, too."""
        if other is first:
            return True
        whole = self.sample.with_all_points()
        errors = [whole.fitted(each.kernel).row_errors for each in (other, first)]
        return clearly_lower(*errors)
