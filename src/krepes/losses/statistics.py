"""What the moment losses see of an embedding: first and second moments of Z1, Z2, from samples or from moments.

    Z_v = Phi_v W + gamma,   mean Z1 = W^T mu_1 + gamma,   cov(Z1, Z2) = W^T V_12 W,   V_12 = S_12 - mu_1 mu_2^T

A loss written in these quantities has one formula and two readings: `SampleStatistics` takes them from the rows
of a batch, `MomentStatistics` (in `moment_forms`) from the features' moments and (W, gamma). Everything is computed on
first use; a batch of b rows costs O(b h^2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from krepes.losses.batch import Batch


class Statistics(ABC):
    """Moments of two views' embeddings, divided by n; covariances are about each view's own mean.

    Attributes
    ----------
    mean_1, mean_2 : Tensor of shape (h,)
    covariance_1, covariance_2, covariance_12 : Tensor of shape (h, h)
        Within the first view, within the second, and of the first (rows) with the second (columns).
    variance_1, variance_2, agreement : Tensor of shape (h,)
        Their diagonals, cheaper where nothing else of them is needed.
    gram : Tensor of shape (h, h)
        W^T W; `norm_sq` (h,) is its diagonal.
    phi_norm_sq : Tensor, a scalar
        Mean of |phi(x) - mu|^2.
    negative_alignment : Tensor, a scalar
        Mean of z1^T z-, with independent negatives (every Z2) where none were given.
    """

    shared: bool  # both views have the same moments: one of them speaks for both

    @abstractmethod
    def _mean(self, view: int) -> Tensor: ...

    @abstractmethod
    def _covariance(self, view: int, other: int) -> Tensor: ...

    @abstractmethod
    def _variance(self, view: int, other: int) -> Tensor: ...

    @property
    @abstractmethod
    def negative_alignment(self) -> Tensor: ...

    @property
    @abstractmethod
    def gram(self) -> Tensor: ...

    @property
    @abstractmethod
    def norm_sq(self) -> Tensor: ...

    @property
    @abstractmethod
    def phi_norm_sq(self) -> Tensor: ...

    @cached_property
    def mean_1(self) -> Tensor:
        return self._mean(1)

    @cached_property
    def mean_2(self) -> Tensor:
        return self.mean_1 if self.shared else self._mean(2)

    @cached_property
    def variance_1(self) -> Tensor:
        return self._variance(1, 1)

    @cached_property
    def variance_2(self) -> Tensor:
        return self.variance_1 if self.shared else self._variance(2, 2)

    @cached_property
    def agreement(self) -> Tensor:
        return self._variance(1, 2)

    @cached_property
    def covariance_1(self) -> Tensor:
        return self._covariance(1, 1)

    @cached_property
    def covariance_2(self) -> Tensor:
        return self.covariance_1 if self.shared else self._covariance(2, 2)

    @cached_property
    def covariance_12(self) -> Tensor:
        return self._covariance(1, 2)

    @property
    def alignment(self) -> Tensor:
        """Mean of z1^T z2."""
        return self.agreement.sum() + self.mean_1 @ self.mean_2

    @property
    def distance(self) -> Tensor:
        """Mean of |z1 - z2|^2."""
        within = self.variance_1 + self.variance_2 - 2 * self.agreement
        return within.sum() + (self.mean_1 - self.mean_2).square().sum()

    @property
    def second_moment(self) -> Tensor:
        """Mean of z z^T over both views, (h, h)."""
        first = self.covariance_1 + torch.outer(self.mean_1, self.mean_1)
        if self.shared:
            return first
        return (first + self.covariance_2 + torch.outer(self.mean_2, self.mean_2)) / 2

    @property
    def covariance(self) -> Tensor:
        """Covariance of both views' embeddings stacked into one sample, (h, h)."""
        if self.shared:
            return self.covariance_1
        gap = self.mean_1 - self.mean_2
        return (self.covariance_1 + self.covariance_2) / 2 + torch.outer(gap, gap) / 4

    @property
    def variance(self) -> Tensor:
        """Mean of the two views' variances, (h,)."""
        return self.variance_1 if self.shared else (self.variance_1 + self.variance_2) / 2

    @property
    def power(self) -> Tensor:
        """Mean of z_j^2 over both views, (h,)."""
        return self.variance + (self.mean_1.square() + self.mean_2.square()) / 2


class SampleStatistics(Statistics):
    """Statistics of a batch of embeddings."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._Z = {1: batch.Z[0], 2: batch.Z[min(1, len(batch.Z) - 1)]}
        self.shared = len(batch.Z) == 1

    def _mean(self, view: int) -> Tensor:
        return self._Z[view].mean(0)

    @cached_property
    def _centered(self) -> dict[int, Tensor]:
        return {1: self._Z[1] - self.mean_1, 2: self._Z[2] - self.mean_2}

    def _covariance(self, view: int, other: int) -> Tensor:
        return self._centered[view].mT @ self._centered[other] / len(self._Z[view])

    def _variance(self, view: int, other: int) -> Tensor:
        return (self._centered[view] * self._centered[other]).mean(0)

    @property
    def negative_alignment(self) -> Tensor:
        negatives = self._batch.negatives
        if negatives is None:
            return self.mean_1 @ self.mean_2
        return (self._Z[1] * negatives).sum(1).mean()

    @property
    def gram(self) -> Tensor:
        return self._batch.required("gram")

    @property
    def norm_sq(self) -> Tensor:
        return self.gram.diagonal()

    @property
    def phi_norm_sq(self) -> Tensor:
        return self._batch.required("phi_norm_sq").mean()
