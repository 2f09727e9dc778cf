"""Kernel, lengthscale and penalty without labels: how well rows are told from crosses of two rows.

    cross     every column from one of two rows, drawn for each column
    merit     P(score of a row, left out, > score of a cross):      the area under the curve

Crosses keep each column as it is and half of what ties columns together, so that a kernel that finds them novel has
seen what ties them together. Of 2 kernels, 7 lengthscales and 5 penalties, the start (the best ones on average over 22
data sets: benchmarks/novelty.py) is left only where another one has a clearly better merit. Cost: 14 decompositions of
K between at most 500 rows. Only rows that are learned are looked at, never those that calibrate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.column_scale import column_scale
from krepes.kernels import Gaussian, Kernel, Laplacian, Reweighted
from krepes.kernels.automatic import MOST_COLUMNS
from krepes.kernels.lengthscale import median_distance
from krepes.kernels.radial import RadialKernel
from krepes.machines.kernel_choice import KernelChoice, TriedKernel
from krepes.machines.novelty.scores import SampleKernel, Score

MOST_ROWS, CROSSES = 500, 400
MEDIANS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
TIE = 1e-9  # scores that differ by less are the same: far from all rows they all are
DOUBT = 0.02  # by which the merit of another kernel must be better


@dataclass(frozen=True, eq=False)
class CrossedKernel(TriedKernel):
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


@dataclass(frozen=True, eq=False)
class NoveltyChoice(KernelChoice):
    """What was tried, and what was chosen; print it."""

    chosen: CrossedKernel
    tried: list[CrossedKernel]

    def __str__(self) -> str:
        lines = [f"How well {self.n_rows:,} rows are told from crosses of two rows (area under the curve):"]
        best: dict[tuple, CrossedKernel] = {}  # the best penalty of every kernel, and the one that was chosen
        for each in self.tried:
            key = each.name, each.medians, each.metric
            known = best.get(key)
            if (
                known is None
                or each is self.chosen
                or (known is not self.chosen and each.merit > known.merit)
            ):
                best[key] = each
        for each in best.values():
            mark = "  <- chosen" if each is self.chosen else ""
            lines.append(
                f"  {each.name:<16} {each.medians:8.4g} medians, {each.metric:<13} penalty {each.penalty:<8g}"
                f"{each.merit:.3f}{mark}"
            )
        return "\n".join(lines)


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
    below = torch.searchsorted(ordered, of_rows - TIE) + torch.searchsorted(
        ordered, of_rows + TIE, right=True
    )
    return below.double().mean().item() / (2 * len(ordered))


class NoveltySearch:
    """All that is tried on a sample of rows.

    Parameters
    ----------
    score : subclass of Score
    rows : Tensor of shape (n, d)
    groups : lists of encoded columns that belong together, or None
    penalties : sequence of float
        The first is the one to start with.
    medians : sequence of float
        Multiples of the median distance to try for kernels whose lengthscale is a rule; the first is the one to start
        with. Without any, kernels are tried as they are.
    seed : int
    """

    def __init__(
        self,
        score: type[Score],
        rows: Tensor,
        groups: Sequence[Sequence[int]] | None,
        penalties: Sequence[float],
        medians: Sequence[float],
        seed: int,
    ):
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:MOST_ROWS]
        self.score, self.penalties, self.medians, self.seed = score, penalties, medians, seed
        self.rows = rows[order.to(rows.device)].double()
        self.crosses = crosses(self.rows, groups, CROSSES, seed)
        self.tried: list[CrossedKernel] = []

    def choose(self, kernels: Sequence[Kernel], standardise: bool) -> NoveltyChoice:
        """The kernel and the penalty.

        Parameters
        ----------
        kernels : sequence of Kernels
            The first is the one to start with.
        standardise : bool
            Whether columns divided by their spread compete with those as given.
        """
        first = self._multiples(kernels[0])[0]
        start, M = self._try(kernels[0], first, None), None
        if standardise and (spread := self._spread()) is not None:
            scaled = self._try(kernels[0], first, spread)
            if scaled.merit > start.merit:
                start, M = scaled, spread
        if self.score.searched:
            for kernel in kernels:
                for multiple in self._multiples(kernel):
                    if kernel is not kernels[0] or multiple is not first:
                        self._try(kernel, multiple, M)
        rivals = [each for each in self.tried if each.metric == start.metric]
        best = max(rivals, key=lambda each: each.merit) if self.score.searched else start
        chosen = best if best.merit > start.merit + DOUBT else start
        return NoveltyChoice(chosen, self.tried, len(self.rows))

    def _multiples(self, kernel: Kernel) -> Sequence[float | None]:
        """Lengthscales to try, in medians; None is the kernel as it is."""
        by_rule = isinstance(kernel, RadialKernel) and isinstance(kernel.lengthscale, str)
        return self.medians if by_rule and self.medians else (None,)

    def _try(self, kernel: Kernel, multiple: float | None, M: np.ndarray | None) -> CrossedKernel:
        """With every penalty; the first of them is returned."""
        fitted, medians = self._fitted(kernel, multiple, M)
        K = _unit(fitted, self.rows, self.rows)
        metric = "as given" if M is None else "standardised"
        sample = SampleKernel((K + K.mT) / 2, _unit(fitted, self.crosses, self.rows))
        found = [
            CrossedKernel(fitted, metric, 1 - merit(*scores), medians, penalty)
            for penalty in self.penalties
            for scores in [self.score.in_sample(sample, penalty)]
        ]
        self.tried += found
        return found[0]

    def _fitted(self, kernel: Kernel, multiple: float | None, M: np.ndarray | None) -> tuple[Kernel, float]:
        rows = self.rows if M is None else Reweighted(kernel, M).weighed(self.rows)
        generator = torch.Generator().manual_seed(self.seed)
        if multiple is None:
            inner, medians = kernel.fitted(rows, generator), float("nan")
        else:
            assert isinstance(kernel, RadialKernel)
            unit = median_distance(rows, kernel.distances_to, generator) / kernel.reach
            inner, medians = clone(kernel).set_params(lengthscale=multiple * unit), multiple
        return (inner if M is None else Reweighted(inner, M)), medians

    def _spread(self) -> np.ndarray | None:
        """1 / spread^2 of the columns; None where they all have the same."""
        spread = column_scale(self.rows)[1].double().cpu().numpy()
        if not spread.max() > 0 or np.ptp(spread) <= 1e-9 * spread.max():
            return None
        return 1 / np.square(np.where(spread > 0, spread, spread.max()))


def starting_kernels(width: int, vectors: bool) -> list[Kernel]:
    """The kernels to compare for rows of so many columns; the first is the one to start with."""
    return [Laplacian(norm=1), Gaussian()] if vectors and width <= MOST_COLUMNS else [Gaussian()]


def _unit(kernel: Kernel, X: Tensor, Y: Tensor) -> Tensor:
    """k(x, y) / sqrt(k(x, x) k(y, y))."""
    scale = [kernel.diag(rows).double().clamp(min=1e-300).rsqrt() for rows in (X, Y)]
    return kernel(X, Y).double() * scale[0][:, None] * scale[1]
