"""One search for kernel, lengthscale and metric on a sample of rows. What is better, a score says.

first kernel     columns as given, or standardised where the lengthscale is a rule -> lengthscale -> metric
other kernels    from the columns that the first did better with
verdict          of the score: leave-one-out errors, evidence, or rows told from crosses of rows

kernel="auto"         those that the score names
kernel=[k1, k2]       these; on objects, as they are
lengthscale="auto"    several for each

Called by `LabelledMachine._prepared` and `NoveltyDetector._prepared`, through `prepare`:

    KernelSearch.choose -> Score.trials -> compared -> attempt -> one trial of the score, such as sample_fit.Walk
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from krepes.base.column_scale import column_scale
from krepes.base.rows import Rows, SparseRows
from krepes.base.storage.packing import digest
from krepes.features.image_kernels import patches_for
from krepes.features.kernel_choice import ChosenKernel, KernelChoice
from krepes.kernels import Automatic, Cosine, Kernel, Reweighted, as_kernel
from krepes.kernels.automatic import MOST_COLUMNS
from krepes.kernels.distances import Vectors
from krepes.kernels.vectors import Lengthscale, RadialKernel, as_rows, median_distance, medians
from krepes.machines.targets import Targets
from krepes.preprocessing.input_space import InputSpace
from krepes.preprocessing.preparing import Candidates, Preprocess

MOST_TABLE_COLUMNS = (
    1024  # encoded, of which most are levels or text: there L1 distances are worth their time
)
SAME_SPREAD = 1e-9  # relative difference of the columns' spreads up to which they are the same

Kernels = str | Kernel | Callable | Sequence[str | Kernel | Callable]


# How kernels are tried


class InMetric:
    """A kernel in one metric, at lengthscales that are multiples of the median distance there.

    Parameters
    ----------
    kernel : Kernel
    M : ndarray of shape (d,) or (d, d), or None
    rows : n rows
    some : Tensor of indices, optional
        Rows whose median distance is taken; all by default.
    """

    def __init__(self, kernel: Kernel, M: np.ndarray | None, rows: Any, some: Tensor | None = None):
        self.kernel, self.M, self.some = kernel, M, some
        self.rows = rows if M is None else Reweighted(kernel, M).weighed(rows)

    @property
    def given_medians(self) -> float:
        """The lengthscale, in medians, that the kernel's own rule names; NaN for kernels without a rule."""
        kernel = self.kernel
        if isinstance(kernel, RadialKernel) and has_rule(kernel):
            return medians(str(kernel.lengthscale))
        return math.nan

    @cached_property
    def unit(self) -> float:
        """The lengthscale that one median distance is."""
        assert isinstance(self.kernel, RadialKernel)
        rows = self.rows if self.some is None else self.rows[self.some]
        return median_distance(rows, self.kernel.distances_to, None) / self.kernel.reach

    def at(self, medians: float) -> Kernel:
        """The kernel at a multiple of the median; as it is where that is NaN."""
        if math.isnan(medians):
            inner = self.kernel.fitted(self.rows, torch.Generator().manual_seed(0))
        else:
            inner = clone(self.kernel).set_params(lengthscale=medians * self.unit)
        return inner if self.M is None else Reweighted(inner, self.M)


def has_rule(kernel: Kernel) -> bool:
    """Whether the lengthscale follows from the data."""
    return isinstance(kernel, RadialKernel) and isinstance(kernel.lengthscale, str)


A = TypeVar("A")  # what a score found for one kernel in one metric, with its error


class Trials(ABC, Generic[A]):
    """What a score finds on one sample of rows.

    Attributes
    ----------
    rows : n rows of the sample
    """

    rows: Any
    compares_kernels: bool = True  # or takes the first

    @abstractmethod
    def attempt(self, kernel: Kernel, search_lengthscale: bool, metric: str, M: np.ndarray | None) -> A:
        """Try a kernel in a metric, at several lengthscales where they are searched."""

    @abstractmethod
    def improve(self, best: A, metric: str | None) -> None:
        """Go on from the better start of a kernel, such as by learning a metric."""

    @abstractmethod
    def verdict(self) -> KernelChoice:
        """The choice among all trials."""

    def takes_metric(self, kernel: Kernel, search_lengthscale: bool) -> bool:
        """Whether the kernel may be tried with standardised columns: one that was given in full stays as it is."""
        return has_rule(kernel)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with targets, all of which a machine will be fitted to, and the number of its landmarks."""

    y: np.ndarray
    weight: np.ndarray | None
    targets: Targets
    n_landmarks: int

    def of(self, rows: np.ndarray) -> tuple[Tensor, Tensor | None]:
        """Targets (n, c) and weights (n,) of some rows."""
        weight = None if self.weight is None else torch.from_numpy(self.weight[rows])
        return self.targets.matrix(self.y[rows]), weight

    def sample(self, candidates: Candidates, seed: int, most: int) -> tuple[Vectors, Tensor, Tensor | None]:
        """Some candidates, which are vectors, at random: rows (n, d), targets and weights; float64."""
        given = candidates.rows
        assert isinstance(given, Tensor | SparseRows)
        rows = given if isinstance(given, SparseRows) else as_rows(given)
        places = np.random.default_rng(seed).permutation(len(rows))[:most]
        Y, weight = self.of(candidates.indices[places])
        device = rows.device
        weight = None if weight is None else weight.to(device)
        return rows[torch.from_numpy(places).to(device)].double(), Y.to(device), weight


class Score(ABC):
    """How kernels are compared: builds `Trials` on a sample."""

    compares: ClassVar[tuple[type, ...]] = (Tensor,)  # rows on which it compares kernels
    who: ClassVar[str]  # compares by it, in words
    compares_patches: ClassVar[bool] = False  # with kernels of pixels, for images

    @abstractmethod
    def usual(self, narrow: bool) -> list[Kernel]:
        """The kernels of kernel="auto"; `narrow`: L1 distances are affordable."""

    @abstractmethod
    def trials(
        self, candidates: Candidates, inputs: InputSpace, labelled: Labelled | None, seed: int
    ) -> Trials:
        """On a sample of the candidates."""

    def suits(self, kernel: Kernel) -> bool:
        """Whether a kernel may be taken without a comparison."""
        return True


def compared(
    trials: Trials,
    kernels: Sequence[Kernel],
    *,
    search_lengthscale: bool,
    metric: str | None,
    standardise: bool,
) -> KernelChoice:
    """Try kernels, lengthscales and metrics.

    Parameters
    ----------
    trials : Trials
    kernels : sequence of Kernels
        The first is preferred.
    search_lengthscale : bool
        For radial kernels whose lengthscale is a rule; others are tried as they are.
    metric : None, "diagonal", "full" or "auto"
        What to learn; "auto" tries both.
    standardise : bool
        Whether columns divided by their spread compete with those as given.
    """
    starts: list[tuple[str, np.ndarray | None]] = [("as given", None)]
    if standardise and (M := standardising(trials.rows)) is not None:
        starts.append(("standardised", M))
    for kernel in kernels if trials.compares_kernels else kernels[:1]:
        possible = starts if trials.takes_metric(kernel, search_lengthscale) else starts[:1]
        attempts = [trials.attempt(kernel, search_lengthscale, *start) for start in possible]
        best = min(attempts, key=lambda attempt: attempt.error)
        if len(attempts) > 1:  # the other kernels start where this one did better
            starts = [starts[attempts.index(best)]]
        trials.improve(best, metric)
    return trials.verdict()


def standardising(rows: Tensor) -> np.ndarray | None:
    """1 / spread^2 of the columns, (d,); None where all have the same spread, or one has none that a float holds."""
    spread = column_scale(rows)[1].double().cpu().numpy()
    largest = spread.max()
    if not 0 < largest < np.inf or np.ptp(spread) <= SAME_SPREAD * largest:
        return None
    return 1 / np.square(np.where(spread > 0, spread, largest))


@dataclass(frozen=True)
class KernelSearch:
    """What a user asked for, and how it is chosen.

    Attributes
    ----------
    kernel : "auto", a kernel, or several
    lengthscale : "auto", or as radial kernels take it
    metric : None, "diagonal", "full" or "auto"
    preprocess : as an estimator takes it
    score : Score
    """

    kernel: Kernels
    lengthscale: Lengthscale
    metric: str | None
    preprocess: Preprocess
    score: Score

    @property
    def automatic(self) -> bool:
        return (isinstance(self.kernel, str) and self.kernel == "auto") or isinstance(self.kernel, Automatic)

    @property
    def searches_lengthscale(self) -> bool:
        return isinstance(self.lengthscale, str) and self.lengthscale == "auto"

    def given(self) -> list[Kernel]:
        """The kernels that were named; none where they are automatic."""
        if self.automatic:
            return []
        asked: Any = self.kernel
        kernels = [as_kernel(k) for k in (asked if isinstance(asked, list | tuple) else [asked])]
        if not kernels:
            raise ValueError("kernel=[]: name at least one kernel.")
        return kernels

    def is_given(self, kernel: Kernel) -> bool:
        """Whether a kernel is the one that was named, without a number from the data."""
        given = self.given()
        return len(given) == 1 and digest(given[0]) == digest(kernel)

    def first(self) -> Kernel:
        """The kernel as far as it is known before the rows are."""
        return next(iter(self.given()), Automatic())

    def standardises(self, inputs: InputSpace) -> bool:
        """Whether columns divided by their spread compete with those as given."""
        return inputs.kind == "vectors" and inputs.encoder is None and self.preprocess == "auto"

    def rivals(self, inputs: InputSpace, width: int) -> list[Kernel]:
        """The kernels that compete for rows of this many columns, with the lengthscale that was asked for."""
        narrow = width <= {"table": MOST_TABLE_COLUMNS, "vectors": MOST_COLUMNS}.get(inputs.kind, 0)
        named = [k if isinstance(k, Automatic) else k.suited(inputs.layout) for k in self.given()]
        kernels = named or [*([Cosine()] if inputs.kind == "sparse" else []), *self.score.usual(narrow)]
        if self.automatic and self.score.compares_patches:
            kernels += patches_for(inputs, kernel="gaussian")
        if self.searches_lengthscale:
            return kernels
        given = {"lengthscale": self.lengthscale}
        return [clone(k).set_params(**given) if isinstance(k, RadialKernel) else k for k in kernels]

    def choose(
        self, candidates: Candidates, inputs: InputSpace, seed: int, labelled: Labelled | None = None
    ) -> ChosenKernel:
        """The kernel, from a sample of the candidates where several are compared."""
        rows, several = candidates.rows, len(self.given()) > 1
        if inputs.kind == "precomputed":
            return ChosenKernel(self.first())
        vectors = isinstance(rows, Tensor | SparseRows)
        comparable = isinstance(rows, self.score.compares)
        if several and not comparable:
            raise ValueError(
                f"kernel=[...]: {self.score.who} cannot choose among {len(self.given())} kernels on objects or "
                "sparse rows. Give one."
            )
        if not comparable or not (vectors or several):
            return ChosenKernel(self._uncompared(rows, inputs, seed))
        trials = self.score.trials(candidates, inputs, labelled, seed)
        if vectors:
            kernels = self.rivals(inputs, trials.rows.shape[1])
        else:
            generator = torch.Generator().manual_seed(seed)
            kernels = [kernel.suited(inputs.layout).fitted(rows, generator) for kernel in self.given()]
        found = compared(
            trials,
            kernels,
            search_lengthscale=self.searches_lengthscale,
            metric=self.metric if isinstance(rows, Tensor) else None,  # gradients of sparse rows are dense
            standardise=self.standardises(inputs),
        )
        return ChosenKernel(found.chosen.kernel, found.chosen.metric, found)

    def _uncompared(self, rows: Rows, inputs: InputSpace, seed: int) -> Kernel:
        """The kernel that was named, or the first usual one that suits."""
        kernel = self.first().suited(inputs.layout)
        if inputs.kind == "sparse":
            usual = self.rivals(inputs, 0)
            kernel = next(k for k in usual if not self.automatic or self.score.suits(k))
        return kernel.fitted(rows, torch.Generator().manual_seed(seed))
