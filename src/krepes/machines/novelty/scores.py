"""How normal a row is, from sums over the rows that were learned; low is novel.

    variance      -(k(x, x) - k_x^T (K + penalty I)^-1 k_x)           of a Gaussian process, with its sign turned
    regression    f(x) = k_x^T (K + penalty I)^-1 1                   to the target 1, without an intercept  [lecture]
    distance      mean_i k(x, x_i)                                    |phi(x) - mean phi|^2 is 1 + |mean phi|^2 minus
                                                                      twice that; a Parzen density, rescaled

With k(x, x) = 1, features phi and A = sum phi phi^T = V diag(a) V^T, all of them follow from the same sums:

    variance      |diag(a / (a + penalty))^(1/2) V^T phi(x)|^2 - 1,    the part outside the landmarks' span included
    regression    phi(x)^T (A + penalty I)^-1 sum phi
    distance      phi(x)^T mean phi

For rows of a sample in memory there are the scores that each has from all others. With B = (K + penalty I)^-1,

    variance      penalty - 1 / B_ii,        regression      1 - (B 1)_i / B_ii

A score is one class here. Cost: O(r^3) to solve, O(r^2) per row for the variance, O(r) for the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh
from krepes.base.storage.codec import Shape
from krepes.regression.ridge_algebra import NormalSums


class NoveltyScore(ABC):
    """A score of unit features.

    Attributes
    ----------
    name : str
    medians : float
        The lengthscale of an L1 kernel to start with, in median distances; `gaussian_medians` is that of a Gaussian.
    penalty : float
        To start with.
    penalties : tuple of float
        To try.
    shortest : float
        Lengthscale to try, in medians. Where k vanishes between all rows, their scores are the same to rounding.
    searched : bool
        Whether kernel, lengthscale and penalty are chosen by how well crossed rows are told from real ones.
    """

    name: ClassVar[str]
    medians: ClassVar[float]
    gaussian_medians: ClassVar[float]
    penalty: ClassVar[float]
    penalties: ClassVar[tuple[float, ...]]
    shortest: ClassVar[float] = 1 / 16
    searched: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def solved(cls, sums: NormalSums, penalty: float) -> NoveltyScore:
        """The score of all rows in these sums."""

    @abstractmethod
    def __call__(self, Phi: Tensor) -> Tensor:
        """Of features (b, r): (b,)."""

    @property
    @abstractmethod
    def lowest(self) -> float:
        """No score is lower."""

    def rounding(self, scores: Tensor) -> Tensor:
        """The size of the numbers that scores (b,) are rounded at."""
        return torch.full_like(scores, max(1.0, abs(self.lowest)))

    @staticmethod
    @abstractmethod
    def in_sample(rows: SampleKernel, penalty: float) -> tuple[Tensor, Tensor]:
        """Scores of the rows of a sample, each from all others, and of other points from all rows."""


class SampleKernel:
    """K between n rows with k(x, x) = 1, and k between other points and the rows, (b, n); decomposed where needed."""

    def __init__(self, K: Tensor, K_others: Tensor):
        self.K, self.K_others = K, K_others

    @cached_property
    def decomposed(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (n,) and U (n, n)."""
        values, U = descending_eigh(self.K)
        return values.clamp(min=0), U

    @cached_property
    def projected(self) -> Tensor:
        """k of the other points in the basis U, (b, n)."""
        return self.K_others @ self.decomposed[1]

    def inverse_diagonal(self, penalty: float) -> Tensor:
        """B_ii."""
        values, U = self.decomposed
        return U.square() @ (1 / (values + penalty))


@dataclass(frozen=True, eq=False)
class Variance(NoveltyScore):
    """The posterior variance of a Gaussian process, with its sign turned."""

    name = "variance"
    medians, gaussian_medians, penalty = 2.0, 4.0, 0.01
    penalties = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)

    R: Annotated[Tensor, Shape("r", "r")]  # V diag(a / (a + penalty))^(1/2)

    @classmethod
    def solved(cls, sums: NormalSums, penalty: float) -> Variance:
        a, V = descending_eigh(sums.outer)
        a = a.clamp(min=0)
        return cls(V * (a / (a + penalty)).sqrt())

    def __call__(self, Phi: Tensor) -> Tensor:
        return (Phi @ self.R.to(Phi.dtype)).double().square().sum(1).sub_(1).clamp_(-1, 0)

    @property
    def lowest(self) -> float:
        return -1.0

    @staticmethod
    def in_sample(rows: SampleKernel, penalty: float) -> tuple[Tensor, Tensor]:
        return (
            penalty - 1 / rows.inverse_diagonal(penalty),
            rows.projected.square() @ (1 / (rows.decomposed[0] + penalty)) - 1,
        )


class LinearScore(NoveltyScore):
    """A score w^T phi."""

    w: Tensor

    def __call__(self, Phi: Tensor) -> Tensor:
        return (Phi @ self.w.to(Phi.dtype)).double()

    @property
    def lowest(self) -> float:
        return -1.001 * self.w.norm().item()  # |phi| <= 1, to rounding


@dataclass(frozen=True, eq=False)
class Regression(LinearScore):
    """Regression to one without an intercept: about 1 near the rows that were learned, 0 far from them.  [lecture]"""

    name = "regression"
    medians, gaussian_medians, penalty = 0.125, 0.5, 0.1
    penalties = (0.1,)
    searched = False

    w: Annotated[Tensor, Shape("r")]

    @classmethod
    def solved(cls, sums: NormalSums, penalty: float) -> Regression:
        a, V = descending_eigh(sums.outer)
        return cls(V @ ((V.mT @ sums.sum_phi) / (a.clamp(min=0) + penalty)))

    @staticmethod
    def in_sample(rows: SampleKernel, penalty: float) -> tuple[Tensor, Tensor]:
        values, U = rows.decomposed
        weighted = U.sum(0) / (values + penalty)
        return 1 - U @ weighted / rows.inverse_diagonal(penalty), rows.projected @ weighted


@dataclass(frozen=True, eq=False)
class Distance(LinearScore):
    """The squared distance to the mean in the kernel's space, as the mean similarity that it falls with.

    Far from all rows that similarity has all its digits, and the distance, which differs from a constant by it, none.
    """

    name = "distance"
    medians, gaussian_medians, penalty = 0.25, 0.25, 0.01
    penalties = (0.01,)  # it has none
    shortest = 0.25

    w: Annotated[Tensor, Shape("r")]  # mean phi

    @classmethod
    def solved(cls, sums: NormalSums, penalty: float) -> Distance:
        return cls(sums.means[0])

    def rounding(self, scores: Tensor) -> Tensor:
        return scores.abs()

    @staticmethod
    def in_sample(rows: SampleKernel, penalty: float) -> tuple[Tensor, Tensor]:
        n = len(rows.K)
        return (rows.K.sum(1) - rows.K.diagonal()) / max(1, n - 1), rows.K_others.mean(1)


SCORES: dict[str, type[NoveltyScore]] = {cls.name: cls for cls in (Variance, Regression, Distance)}
