"""Kernels compared without labels: how well rows are told from crosses of two rows.

    cross     every column from one of two rows, drawn for each column
    merit     P(score of a row, left out, > score of a cross):      the area under the curve

Crosses keep each column as it is and half of what ties columns together, so that a kernel that finds them novel has
seen what ties them together. Of 2 kernels, 7 lengthscales and 5 penalties, the start (the best ones on average over 22
data sets: benchmarks/novelty.py) is left only where another one has a clearly better merit. Cost: 14 decompositions of
K between at most 500 rows. Only rows that are learned are looked at, never those that calibrate.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from krepes.features.kernel_choice import KernelChoice, Tried
from krepes.kernels import Gaussian, Kernel, Laplacian, Reweighted
from krepes.kernels.vectors import as_rows
from krepes.machines.kernel_search import InMetric, Labelled, Score, Trials, has_rule
from krepes.machines.novelty.scores import NoveltyScore, SampleKernel
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates

MOST_ROWS, CROSSES = 500, 400
MEDIANS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
TIE = 1e-9  # scores that differ by less are the same: far from all rows they all are
DOUBT = 0.02  # by which the merit of another kernel must be better


@dataclass(frozen=True, eq=False)
class TriedByCrosses(Tried):
    """One kernel and penalty; its error is the share of crosses that were not told from rows, 1 - merit.

    Attributes
    ----------
    medians : float
        The lengthscale in median distances; NaN where it was given.
    penalty : float
    """

    medians: float
    penalty: float

    @property
    def merit(self) -> float:
        return 1 - self.error

    @property
    def name(self) -> str:
        inner = self.kernel.kernel if isinstance(self.kernel, Reweighted) else self.kernel
        return f"{type(inner).__name__}{' (L1)' if getattr(inner, 'norm', 2) == 1 else ''}"

    @property
    def key(self) -> Hashable:
        return self.name, self.medians, self.metric

    def line(self, width: int) -> str:
        unit = "median, " if self.medians == 1 else "medians,"
        kernel = f"{self.name:<{width}} {self.medians:8.4g} {unit} {self.metric:<13}"
        return f"{kernel} penalty {self.penalty:<8g}{self.merit:.3f}"


def crosses(rows: Tensor, groups: Sequence[Sequence[int]] | None, n: int, seed: int) -> Tensor:
    """n rows, each with every column from one of two rows; encoded columns of one column stay together.

    >>> crossed = crosses(torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), [[0], [1, 2]], 50, 0)
    >>> bool((crossed[:, 1] == crossed[:, 2]).all()), bool((crossed[:, 0] != crossed[:, 1]).any())
    (True, True)
    """
    generator = torch.Generator().manual_seed(seed)
    first, second = (rows[torch.randint(len(rows), (n,), generator=generator)] for _ in range(2))
    of_column = np.arange(rows.shape[1])
    for g, columns in enumerate(groups or ()):
        of_column[list(columns)] = g
    drawn = torch.rand(n, rows.shape[1], generator=generator)[:, torch.from_numpy(of_column)]
    return torch.where((drawn < 0.5).to(rows.device), first, second)


def merit(of_rows: Tensor, of_crosses: Tensor) -> float:
    """The probability that a row has a higher score than a cross; ties, to rounding, count half.

    >>> merit(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 2.0]))
    0.875
    """
    ordered = of_crosses.sort().values
    below = torch.searchsorted(ordered, of_rows - TIE)
    up_to = torch.searchsorted(ordered, of_rows + TIE, right=True)
    return (below + up_to).double().mean().item() / (2 * len(ordered))


@dataclass(frozen=True)
class CrossScore(Score):
    """How well rows are told from crosses.

    Attributes
    ----------
    measure : subclass of NoveltyScore
    penalty : float or None
        None where it is chosen, too.
    """

    measure: type[NoveltyScore]
    penalty: float | None = None

    who = "a novelty detector"

    def usual(self, narrow: bool) -> list[Kernel]:
        return [Laplacian(norm=1), Gaussian()] if narrow else [Gaussian()]

    def suits(self, kernel: Kernel) -> bool:
        return kernel.shift_invariant

    def trials(
        self, candidates: Candidates, inputs: InputSpace, labelled: Labelled | None, seed: int
    ) -> CrossTrials:
        rows = as_rows(candidates.rows)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]
        sample = rows[order.to(rows.device)].double()
        return CrossTrials(self, sample, inputs.groups, seed)


@dataclass(frozen=True, eq=False)
class Crossed:
    """A kernel in one metric, and what was tried with it so far: with every penalty, the first one first."""

    where: InMetric
    metric: str
    medians: Sequence[float]  # lengthscales to try
    first: TriedByCrosses

    @property
    def error(self) -> float:
        return self.first.error


class CrossTrials(Trials[Crossed]):
    """Kernels tried on one sample.

    Parameters
    ----------
    score : CrossScore
    rows : Tensor of shape (n, d), float64
    groups : lists of encoded columns that belong together, or None
    seed : int
    """

    def __init__(self, score: CrossScore, rows: Tensor, groups: Sequence[Sequence[int]] | None, seed: int):
        self.measure, self.rows = score.measure, rows
        self.crosses = crosses(rows, groups, CROSSES, seed)
        self.penalties: Sequence[float]
        if score.penalty is not None:
            self.penalties = (score.penalty,)
        else:
            start = self.measure.penalty
            self.penalties = (start, *(p for p in self.measure.penalties if p != start))
        self.compares_kernels = self.measure.searched
        self.medians: Sequence[float] = ()
        self.start: TriedByCrosses | None = None
        self.tried: list[TriedByCrosses] = []

    def attempt(self, kernel: Kernel, search_lengthscale: bool, metric: str, M: np.ndarray | None) -> Crossed:
        """At the lengthscale to start with."""
        where = InMetric(kernel, M, self.rows)
        medians = self._medians(kernel) if search_lengthscale and has_rule(kernel) else (where.given_medians,)
        return Crossed(where, metric, medians, self._try(where, metric, medians[0]))

    def improve(self, best: Crossed, metric: str | None) -> None:
        """At all other lengthscales; no metric is learned."""
        if self.start is None:
            self.start = best.first
        if self.measure.searched:
            for medians in best.medians[1:]:
                self._try(best.where, best.metric, medians)

    def verdict(self) -> KernelChoice[TriedByCrosses]:
        """The start, unless another one has a clearly better merit."""
        start, n = self.start, len(self.rows)
        assert start is not None
        rivals = [each for each in self.tried if each.metric == start.metric]
        best = max(rivals, key=lambda each: each.merit) if self.measure.searched else start
        chosen = best if best.merit > start.merit + DOUBT else start
        title = f"How well {n:,} rows are told from crosses of two rows (area under the curve):"
        return KernelChoice(chosen, self.tried, n, title)

    def _medians(self, kernel: Kernel) -> Sequence[float]:
        """Lengthscales to try; the first kernel says which one comes first."""
        if not self.medians:
            measure = self.measure
            start = measure.medians if getattr(kernel, "norm", 2) == 1 else measure.gaussian_medians
            self.medians = (start, *(m for m in MEDIANS if m != start and m >= measure.shortest))
        return self.medians

    def _try(self, where: InMetric, metric: str, medians: float) -> TriedByCrosses:
        """With every penalty; the first of them is returned."""
        kernel = where.at(medians)
        K = _unit(kernel, self.rows, self.rows)
        sample = SampleKernel((K + K.mT) / 2, _unit(kernel, self.crosses, self.rows))
        errors = [1 - merit(*self.measure.in_sample(sample, penalty)) for penalty in self.penalties]
        tried = zip(errors, self.penalties)
        found = [TriedByCrosses(kernel, metric, error, medians, penalty) for error, penalty in tried]
        self.tried += found
        return found[0]


def _unit(kernel: Kernel, X: Tensor, Y: Tensor) -> Tensor:
    """k(x, y) / sqrt(k(x, x) k(y, y))."""
    scale = [kernel.diag(rows).double().clamp(min=1e-300).rsqrt() for rows in (X, Y)]
    return kernel(X, Y).double() * scale[0][:, None] * scale[1]
