"""The loss contract: named terms of a batch; for losses of second moments, also of the moments.

A loss is a formula of embeddings. `terms(batch)` returns named scalars whose sum is the loss (weights are already
in them); solvers add the regulariser. What else a loss can do is optional, and a solver asks for it by name:

    of_statistics(statistics)                  the loss in the embedding's moments: makes it a MomentLoss
    minimiser(moments, n_components, lam)      (W, gamma) in closed form, regulariser included
    column_scale(statistics)                   what a scale-invariant loss divides its columns by, squared
    smoothed(width)                            a loss without corners that is near this one
    parameters(n_components, generator)        tensors of its own (a predictor), trained with W and gamma
    target_decay                               a number: batches then bring the embeddings under a moving average of
                                               the model, theta_t <- decay theta_t + (1 - decay) theta
    residuals(batch)                           a vector whose squared length is the loss, for Gauss-Newton
    logits(batch)                              a `Logits` whose mean cross-entropy is the loss, for Gauss-Newton

An ability that a loss has for some of its settings only is declared with scikit-learn's `available_if`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.limits import is_number
from krepes.losses.batch import Batch, Terms
from krepes.losses.forms import MomentForms
from krepes.losses.statistics import SampleStatistics, Statistics
from krepes.moments import Moments


class Loss(Component, ABC):
    """A function of embeddings to be minimised: a mean over samples, so its value does not grow with n.

    Attributes
    ----------
    views_needed : int
        1 or 2 views of every sample.
    intercept : "zero", "centered" or "learned"
        What gamma is: 0, -W^T mu, or a parameter.
    scale_invariant : bool
        Whether the value ignores the scale of W's columns; the regulariser then has to as well.
    constraint : None or "orthogonal"
        "orthogonal": minimised subject to W^T W = I.
    needs : tuple of str
        Fields of `Batch` beyond Z that the value reads: "X", "phi_norm", "gram". (`target_Z` and `parameters`
        follow from `target_decay` and `parameters()`.)
    uses_negatives : bool
        Whether explicit negatives enter the value.
    finds_scale : bool
        Whether training starts at the scale where the value is lowest, of a few; else at unit variance. Not for a loss
        that is lowest where all embeddings coincide.
    """

    views_needed: ClassVar[int] = 2
    constraint: ClassVar[str | None] = None
    needs: ClassVar[tuple[str, ...]] = ()
    finds_scale: ClassVar[bool] = False

    @property
    def uses_negatives(self) -> bool:
        return False

    @property
    def intercept(self) -> str:
        return "learned"

    @property
    def scale_invariant(self) -> bool:
        return False

    @abstractmethod
    def terms(self, batch: Batch) -> Terms:
        """Named scalars whose sum is the loss of these samples."""

    def stand_in(self) -> Loss:
        """A file keeps what the loss was called: representations of new rows do not need it."""
        return ForeignLoss(repr(self), self.views_needed)

    def views(self, batch: Batch) -> tuple[Tensor, ...]:
        """The embeddings of the views that are compared, (b, h) each."""
        if len(batch.Z) < self.views_needed:
            raise ValueError(
                f"{type(self).__name__} compares {self.views_needed} views of a sample; "
                f"the batch has {len(batch.Z)}: Batch((Z1, Z2))."
            )
        return batch.Z[: self.views_needed]


class ForeignLoss(Loss):
    """A loss that a saved model was trained with and that krepes does not define.

    A loaded model transforms as before; to fit it again, give it a loss.

    Parameters
    ----------
    description : str
        Its class and parameters, in words.
    views_needed : int, default=2
    """

    def __init__(self, description: str = "", views_needed: int = 2):
        self.description = description
        self.views_needed = views_needed  # type: ignore[misc]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's name
        return f"<the loss {self.description}, not in the file>"

    def terms(self, batch: Batch) -> Terms:
        raise ValueError(
            f"This model was trained with {self.description}, a class that a model file cannot hold. "
            "Set the loss before fitting again: model.set_params(loss=...)."
        )


class MomentLoss(Loss):
    """A loss that sees the data through the first and second moments of the embeddings.

    Subclasses write `of_statistics`: samples and moments then give the same value by construction. Two optional
    methods make more of it: `minimiser(moments, n_components, lam) -> (W, gamma)` where there is a closed form,
    and `column_scale(statistics) -> (h,)` where the loss is scale-invariant.
    """

    finds_scale = True

    @abstractmethod
    def of_statistics(self, statistics: Statistics) -> Terms:
        """Named scalars whose sum is the loss, as a function of the embedding's moments."""

    def terms(self, batch: Batch) -> Terms:
        self.views(batch)
        return self.of_statistics(SampleStatistics(batch))

    def of_moments(self, moments: Moments, W: Tensor, gamma: Tensor | None = None) -> Terms:
        """The same terms from the features' moments, for W (r, h) and gamma (h,); differentiable in both."""
        return self.of_statistics(MomentForms.of(moments).embed(W, gamma))


def check_weights(**weights: float) -> None:
    """Refuse a weight that would turn its term around."""
    for name, weight in weights.items():
        if not is_number(weight, least=0):
            raise ValueError(f"{name}={weight!r}: expected a finite weight >= 0.")


def off_diagonal(C: Tensor) -> Tensor:
    """Sum of squares beside the diagonal of C (h, h)."""
    return C.square().sum() - C.diagonal().square().sum()


def inverse_root(scale: Tensor) -> Tensor:
    """scale^(-1/2), and 0 where the scale is 0: what does not vary is not blown up."""
    return torch.where(scale > 0, scale, torch.inf).rsqrt()
