"""Kernels compared by the evidence of a sample of rows, at lengthscales and amplitudes found by gradient.

    max over a, s^2, l_1 .. l_d of  log p(y | a k_l, s^2)          L-BFGS on logarithms

For every kernel: one lengthscale, then one for each column, starting there. More lengthscales always give a higher
evidence, so that log n / 2 is taken off for each [schwarz]. In 28 fits to 120 to 250 rows of seven tables, they raised
it by less than that in 22, and then predicted worse: a negative log likelihood of 0.91 instead of 0.85. In the six of
these with more than 1 for each [akaike] it was 1.04 instead of 0.94.

A few hundred rows decide which kernels are worth it; the best of them climb on with the whole sample. Cost: O(n^3 + n^2
d) for each of a few dozen values per kernel, with n up to 400, and up to 1000 for the last two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import Bounds, minimize
from sklearn.base import clone
from torch import Tensor

from krepes.features.kernel_choice import KernelChoice, Tried
from krepes.kernels import Gaussian, Kernel, Laplacian, Matern, Reweighted
from krepes.kernels.automatic import MOST_COLUMNS
from krepes.kernels.vectors import RadialKernel, median_distance
from krepes.machines.gaussian_process.sample_evidence import SampleEvidence, has_scales, scaled_kernel
from krepes.machines.kernel_search import Labelled, Score, Trials
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates

MEDIAN_ROWS = 400
STARTS = (0.5, 1.0, 2.0, 4.0)  # lengthscales from the best of which a climb starts, in medians
FIRST_NOISE = 0.1  # of the variance of the targets
AMPLITUDES = (1e-5, 1e5)  # within which it is looked for, where k(x, x) is 1 on average
NOISES = (1e-8, 1e2)
STRETCHES = (1e-4, 1e3)  # of a column, from where its climb starts
ONE_SCALE_STEPS, MANY_SCALES_STEPS, LAST_STEPS = 25, 30, 15
FINALISTS = 2  # kernels that are compared on the whole sample
ENOUGH = 1e-6  # relative gain of a step below which a climb ends

MakeEvidence = Callable[[Tensor, Tensor | None], SampleEvidence]  # of targets (n, c) and weights


@dataclass(frozen=True, eq=False)
class TriedByEvidence(Tried):
    """One kernel, and the log evidence of a number of rows with it.

    Attributes
    ----------
    kernel, metric : as in Tried
    error : float
        Minus the evidence per row, after log n / 2 was taken off for every lengthscale.
    amplitude, noise : float
    evidence : float
    n_rows : int
    """

    amplitude: float
    noise: float
    evidence: float
    n_rows: int

    def line(self, width: int) -> str:
        name = f"{self.name:<{width}} {self.metric:<14}"
        return f"{name} {-self.error:9.4f} per row of {self.n_rows:,}"


@dataclass(frozen=True)
class EvidenceScore(Score):
    """The evidence of a Gaussian process.

    Attributes
    ----------
    make : callable(targets, weights) -> SampleEvidence
    amplitude, noise : float or None
        None where they are looked for.
    few, most : int
        Rows of the first comparison, and of the sample.
    """

    make: MakeEvidence
    amplitude: float | None = None
    noise: float | None = None
    few: int = 400
    most: int = 1000

    who = "a Gaussian process"

    def usual(self, narrow: bool) -> list[Kernel]:
        return [Gaussian(), Matern(nu=2.5), Matern(nu=1.5), Laplacian(norm=1) if narrow else Laplacian()]

    def trials(
        self, candidates: Candidates, inputs: InputSpace, labelled: Labelled | None, seed: int
    ) -> EvidenceTrials:
        assert labelled is not None
        X, Y, weight = labelled.sample(candidates, seed, self.most)
        assert isinstance(X, Tensor)
        return EvidenceTrials(self, X, self.make(Y, weight), _groups(inputs, X.shape[1]))


class EvidenceTrials(Trials["Climb"]):
    """Kernels tried on one sample of rows X (n, d); `groups` as in `Climb.with_scales`."""

    def __init__(self, score: EvidenceScore, X: Tensor, evidence: SampleEvidence, groups: Tensor | None):
        self.score, self.rows, self.evidence, self.groups = score, X, evidence, groups
        self.found: list[Climb] = []

    def takes_metric(self, kernel: Kernel, search_lengthscale: bool) -> bool:
        return search_lengthscale and has_scales(kernel)

    def attempt(self, kernel: Kernel, search_lengthscale: bool, metric: str, M: np.ndarray | None) -> Climb:
        is_open = self.takes_metric(kernel, search_lengthscale)
        stretch = np.zeros(self.rows.shape[1]) if M is None else np.log(M) / 2
        climb = Climb(self.rows, kernel, is_open, metric, torch.from_numpy(stretch), self.score)
        return self._climbed(climb, ONE_SCALE_STEPS)

    def improve(self, best: Climb, metric: str | None) -> None:
        """A lengthscale for every column."""
        if metric == "diagonal" and best.open and self.groups is not None:
            self._climbed(best.with_scales(self.groups), MANY_SCALES_STEPS)

    def _climbed(self, climb: Climb, steps: int) -> Climb:
        self.found.append(climb.climbed(self.evidence, self.score.few, steps))
        return self.found[-1]

    def verdict(self) -> KernelChoice[TriedByEvidence]:
        """The highest evidence; the best of a few rows climb on with all."""
        tried, last = [climb.result() for climb in self.found], 0
        if len(self.rows) > self.score.few:
            leading = sorted(self.found, key=lambda climb: climb.error)[:FINALISTS]
            last = len(tried)
            tried += [climb.climbed(self.evidence, self.score.most, LAST_STEPS).result() for climb in leading]
        chosen = min(tried[last:], key=lambda each: each.error)
        return KernelChoice(chosen, tried, len(self.rows), f"{len(tried)} kernels by evidence:")


def _groups(inputs: InputSpace, width: int) -> Tensor | None:
    """Which columns share a lengthscale, (d, g); None where there are too many of them, or one."""
    groups = inputs.groups or [[j] for j in range(width)]
    if inputs.kind not in ("table", "vectors") or not 1 < len(groups) <= MOST_COLUMNS:
        return None
    members = torch.zeros(width, len(groups), dtype=torch.float64)
    for place, columns in enumerate(groups):
        members[columns, place] = 1
    return members


class Climb:
    """The search with one kernel: where it is, and how it goes on.

    Parameters
    ----------
    X : Tensor of shape (n, d), float64
    kernel : Kernel
    is_open : bool
        Whether its lengthscale is looked for.
    metric : str
        What the columns are to it, in words.
    stretch : Tensor of shape (d,)
        Logarithms of what columns are multiplied by.
    score : EvidenceScore
    """

    def __init__(
        self, X: Tensor, kernel: Kernel, is_open: bool, metric: str, stretch: Tensor, score: EvidenceScore
    ):
        self.X, self.kernel, self.open, self.metric = X, kernel, is_open, metric
        self.base, self.score = stretch.to(X), score
        self.groups = torch.ones(X.shape[1], 1 if is_open else 0, dtype=torch.float64).to(X)
        self.scales = np.full(self.groups.shape[1], -math.log(self._median())) if is_open else np.zeros(0)
        self.amplitude, self.noise = score.amplitude or 1.0 / self._size, score.noise or FIRST_NOISE
        self.evidence, self.n_rows = math.nan, 0

    def with_scales(self, groups: Tensor) -> Climb:
        """From here, with a scale for every group of columns, (d, g)."""
        other = copy.copy(self)
        other.base, other.groups = self.stretch, groups.to(self.X)
        other.scales, other.metric = np.zeros(groups.shape[1]), "diagonal"
        return other

    @property
    def stretch(self) -> Tensor:
        return self.base + self.groups @ torch.from_numpy(self.scales).to(self.X)

    @property
    def error(self) -> float:
        """Minus the evidence per row, after log n / 2 was taken off for every scale."""
        return -(self.evidence - 0.5 * len(self.scales) * math.log(self.n_rows)) / self.n_rows

    def _median(self) -> float:
        """The lengthscale at which two rows at the median distance have the similarity 1/e."""
        assert isinstance(self.kernel, RadialKernel)
        Z = self.X[:MEDIAN_ROWS] * self.base.exp()
        distance = median_distance(Z, self.kernel.distances_to, torch.Generator().manual_seed(0))
        length = distance / self.kernel.reach
        # Refuses what no float holds the square of.
        clone(self.kernel).set_params(lengthscale=length).against(Z[:1])
        return length

    @cached_property
    def _fixed(self) -> Kernel:
        """A kernel that is not searched, with numbers for its parameters."""
        return self.kernel.fitted(self.X, torch.Generator().manual_seed(0))

    @cached_property
    def _size(self) -> float:
        """The mean of k(x, x)."""
        if self.open:
            return 1.0
        return max(self._fixed.diag(self.X).double().mean().item(), 1e-300)

    def climbed(self, evidence: SampleEvidence, n: int, steps: int) -> Climb:
        """A climb on the first n rows from here."""
        other = copy.copy(self)
        X, part = self.X[:n], evidence.first(n)
        fixed = None if self.open else self._fixed(X).double()
        if self.n_rows == 0 and self.open:
            starts = [self.scales - math.log(times) for times in STARTS]
            other.scales = max(starts, key=lambda scales: self._value(part, X, fixed, self._point(scales))[0])
        free = self._free(part)
        point, lower, upper = self._point(other.scales), *self._bounds(other.scales)

        def loss(changed: np.ndarray) -> tuple[float, np.ndarray]:
            at = point.copy()
            at[free] = changed
            value, slope = self._value(part, X, fixed, at)
            finite = math.isfinite(value) and np.isfinite(slope).all()
            return (-value, -slope[free]) if finite else (1e25, np.zeros(len(free)))

        if len(free):
            start, limits = point[free].clip(lower[free], upper[free]), Bounds(lower[free], upper[free])
            options = {"maxiter": steps, "ftol": ENOUGH}
            found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)
            point[free] = found.x
        other.evidence = self._value(part, X, fixed, point)[0]
        other.amplitude, other.noise = math.exp(point[0]), math.exp(point[1])
        other.scales, other.n_rows = point[2:], len(X)
        return other

    def _point(self, scales: np.ndarray) -> np.ndarray:
        return np.concatenate([[math.log(self.amplitude), math.log(self.noise)], scales])

    def _free(self, evidence: SampleEvidence) -> np.ndarray:
        """Places of what is looked for."""
        noise = self.score.noise is None and evidence.noisy
        return np.flatnonzero([self.score.amplitude is None, noise, *[True] * len(self.scales)])

    def _bounds(self, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        within = np.log(np.array([AMPLITUDES, NOISES, *[STRETCHES] * len(scales)])).T
        offset = np.concatenate([[-math.log(self._size), 0.0], scales])
        return offset + within[0], offset + within[1]

    def _value(
        self, evidence: SampleEvidence, X: Tensor, fixed: Tensor | None, point: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The evidence, and its slope to the logarithms of amplitude, noise and scales."""
        amplitude, noise = math.exp(point[0]), math.exp(point[1])
        if fixed is None:
            assert isinstance(self.kernel, RadialKernel)
            stretch = self.base + self.groups @ torch.from_numpy(point[2:]).to(X)
            K, chain = scaled_kernel(self.kernel, X * stretch.exp())
        else:
            K = fixed
        if not K.isfinite().all():
            return -math.inf, np.zeros(len(point))
        found = evidence(amplitude * K, noise)
        of_amplitude = amplitude * (found.G * K).sum().item()
        of_scales = np.zeros(0)
        if fixed is None:
            of_scales = amplitude * (self.groups.mT @ chain(found.G)).cpu().numpy()
        return found.value, np.concatenate([[of_amplitude, found.of_log_noise], of_scales])

    def result(self) -> TriedByEvidence:
        numbers = self.amplitude, self.noise, self.evidence, self.n_rows
        return TriedByEvidence(self._kernel(), self.metric, self.error, *numbers)

    def _kernel(self) -> Kernel:
        if not self.open:
            return self._fixed
        if self.metric == "as given":  # one scale for all columns
            return clone(self.kernel).set_params(lengthscale=math.exp(-self.scales[0]))
        scale = self.stretch.exp()
        length = 1 / scale.square().mean().sqrt().item()
        M = (scale * length).square().cpu().numpy()
        return Reweighted(clone(self.kernel).set_params(lengthscale=length), M)
