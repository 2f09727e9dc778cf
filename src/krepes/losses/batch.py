"""What a loss sees of a batch of samples, and what it gives."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from krepes.losses.statistics import Statistics

Terms = dict[str, Tensor]  # named scalars whose sum is the loss


@dataclass
class Batch:
    """What a loss sees of b samples.

    Attributes
    ----------
    Z : tuple of Tensors of shape (b, h)
        Embeddings of the views (Z1, Z2), then of the negatives if there are any.
    X : optional
        The samples themselves.
    phi_norm_sq : Tensor of shape (b,), optional
        Squared norm of the centred feature, |phi(x) - mu|^2 = k(x, x) - 2 mu^T phi(x) + |mu|^2.
    gram : Tensor of shape (h, h), optional
        W^T W.
    target_Z : tuple of Tensors of shape (b, h), optional
        Embeddings under a moving average of the model.
    parameters : dict of Tensors
        The loss's own parameters, where it has any.
    """

    Z: tuple[Tensor, ...]
    X: Any = None
    phi_norm_sq: Tensor | None = None
    gram: Tensor | None = None
    target_Z: tuple[Tensor, ...] | None = None  # noqa: N815 - Z as everywhere
    parameters: dict[str, Tensor] = field(default_factory=dict)

    @property
    def negatives(self) -> Tensor | None:
        return self.Z[2] if len(self.Z) > 2 else None

    def required(self, name: str) -> Any:
        """A field that the loss needs; an error if it is missing."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"This loss needs {name}, but the batch has none: Batch(Z, {name}=...).")
        return value


def as_embeddings(*Z: Any) -> tuple[Tensor, ...]:
    """Tensors or arrays as floating tensors of one dtype and of one shape (b, h); gradients stay."""
    views = [torch.as_tensor(z) for z in Z]
    dtype = functools.reduce(torch.promote_types, (view.dtype for view in views))
    shapes = sorted({tuple(view.shape) for view in views})
    if len(shapes) > 1 or len(shapes[0]) != 2:
        raise ValueError(
            f"Embeddings of shape {' and '.join(map(str, shapes))}: expected one shape (b, h) for all."
        )
    return tuple(view.to(dtype if dtype.is_floating_point else torch.get_default_dtype()) for view in views)


class Logits(NamedTuple):
    """Scores of classes, one row per decision; the loss is the mean of -log softmax(values)[target]."""

    values: Tensor  # (rows, classes); -inf where a class cannot be chosen
    targets: Tensor  # (rows,), int64


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
