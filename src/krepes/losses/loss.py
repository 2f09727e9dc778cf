"""The loss contract: named terms of a batch; for losses of second moments, also of the moments.

A loss is a formula of embeddings. `terms(batch)` returns named scalars whose sum is the loss (weights are already
in them); solvers add the regulariser. `loss(Z1, Z2)` is that sum.

What else a loss can do is optional. A subclass that can writes the method, and `offers("minimiser")` is then true. A
method that is there for some settings only is declared in `offers`:

    def offers(self, method):
        return super().offers(method) and (method != "minimiser" or self.variance == "quadratic")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.validation import check_number
from krepes.losses.batch import Batch, Logits, SampleStatistics, Terms, as_embeddings
from krepes.losses.statistics import MomentForms, Statistics
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
    rotation_invariant : bool
        Whether the value stays the same when all embeddings are rotated together; the output is then rotated to
        principal axes. A predictor or decoder of the loss's own is rotated with them.
    constraint : None or "orthogonal"
        "orthogonal": minimised subject to W^T W = I.
    needs : tuple of str
        Fields of `Batch` beyond Z that the value reads: "X", "phi_norm_sq", "gram". (`target_Z` and `parameters`
        are there for a loss that has a `target_decay` or `parameters`.)
    uses_negatives : bool
        Whether explicit negatives enter the value.
    quadratic_in_moments : bool
        Whether it is a polynomial of second degree in the moments of the embeddings: two samples then estimate it
        without bias, see `krepes.features.held_out`.
    target_decay : float or None
        decay of theta_t <- decay theta_t + (1 - decay) theta, for a loss whose batches bring `target_Z`, the embeddings
        under a moving average of the model.
    finds_scale : bool
        Whether training starts at the scale where the value is lowest, of a few; else at unit variance. Not for a loss
        that is lowest where all embeddings coincide.
    """

    views_needed: ClassVar[int] = 2
    constraint: ClassVar[str | None] = None
    needs: ClassVar[tuple[str, ...]] = ()
    finds_scale: ClassVar[bool] = False
    target_decay: float | None = None

    @property
    def uses_negatives(self) -> bool:
        return False

    @property
    def quadratic_in_moments(self) -> bool:
        return False

    @property
    def intercept(self) -> str:
        return "learned"

    @property
    def scale_invariant(self) -> bool:
        return False

    @property
    def rotation_invariant(self) -> bool:
        return False

    @abstractmethod
    def terms(self, batch: Batch) -> Terms:
        """Named scalars whose sum is the loss of these samples."""

    # What a loss may be able to do besides

    def of_statistics(self, statistics: Statistics) -> Terms:
        """The terms as a function of the first and second moments of the embeddings, see `MomentLoss`."""
        raise self._has_no("of_statistics")

    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """The minimum in closed form: (W, gamma) of shapes (r, h') and (h',), regulariser included."""
        raise self._has_no("minimiser")

    def start(self, forms: MomentForms, n_components: int, lam: float) -> tuple[Tensor, bool]:
        """W (k, h) for descent on the moments to start from, and whether it is the minimum already."""
        raise self._has_no("start")

    def smoothed(self, width: float) -> Loss:
        """Of a loss with corners, one without, nearer to this one the smaller the width."""
        raise self._has_no("smoothed")

    def sufficient_lam(self, moments: Moments) -> float:
        """Of a loss that may have no minimum without regularisation, a lam from which on there is one."""
        raise self._has_no("sufficient_lam")

    def column_scale(self, statistics: Statistics) -> Tensor:
        """Of a `scale_invariant` loss, the squared scale of every column, (h,), which the regulariser divides by."""
        raise self._has_no("column_scale")

    def parameters(self, n_components: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Start values, by name, of tensors of its own that are trained with W and gamma, such as a predictor."""
        raise self._has_no("parameters")

    def residuals(self, batch: Batch) -> Tensor:
        """A vector whose squared length is the loss: for Gauss-Newton steps."""
        raise self._has_no("residuals")

    def logits(self, batch: Batch) -> Logits:
        """Scores of classes, and the right answers, whose mean cross-entropy is the loss: for Gauss-Newton steps."""
        raise self._has_no("logits")

    def offers(self, method: str) -> bool:
        """Whether this loss, with its settings, has one of the optional methods: by default, whether it writes it.

        >>> from krepes.losses import BarlowTwins
        >>> [loss.offers("minimiser") for loss in (BarlowTwins(), BarlowTwins(redundancy=1, normalize=False))]
        [False, True]
        """
        return getattr(type(self), method) is not getattr(Loss, method)

    def require(self, method: str) -> None:
        """Raise an error where a method is not there with these settings."""
        if not self.offers(method):
            raise self._has_no(method)

    def _has_no(self, method: str) -> ValueError:
        return ValueError(f"The loss {self} has no {method}() with these settings.")

    def __call__(self, *Z: Any, X: Any = None) -> Tensor:
        """The loss of embeddings, a scalar with gradients.

        Parameters
        ----------
        *Z : tensors or arrays of shape (b, h)
            The views, then the negatives where the loss uses any.
        X : the samples themselves, for a loss that needs them

        Examples
        --------
        >>> from krepes.losses import VICReg
        >>> Z1 = torch.tensor([[3.0], [-3.0]], requires_grad=True)
        >>> value = VICReg()(Z1, Z1.detach() + 1)           # 25 |z1 - z2|^2
        >>> value.backward()
        >>> value.item(), Z1.grad.tolist()                  # 25 * 2 (z1 - z2) / 2 for each of two rows
        (25.0, [[-25.0], [-25.0]])
        """
        given = set() if X is None else {"X"}
        lacking = [name for name in self.needs if name not in given]
        lacking += ["target_Z"] * (self.target_decay is not None)
        lacking += ["parameters"] * self.offers("parameters")
        if lacking:
            batch = f"Batch(Z, {', '.join(f'{name}=...' for name in lacking)})"
            raise ValueError(
                f"{type(self).__name__} needs more than embeddings: {', '.join(lacking)}. "
                + ("Call loss(Z, X=...)." if lacking == ["X"] else f"Give a batch to loss.terms({batch}).")
            )
        return self._sum(Z, X)

    def views_for(self, views: object) -> int:
        """How many views of a sample it takes where an estimator's `views` are these: as many as it needs."""
        return self.views_needed

    def _sum(self, Z: tuple[Any, ...], X: Any) -> Tensor:
        most = max(2, self.views_needed) + self.uses_negatives
        if not self.views_needed <= len(Z) <= most:
            counts = f"{self.views_needed} to {most}" if most > self.views_needed else f"{most}"
            raise ValueError(
                f"{type(self).__name__} was called with {len(Z)} embeddings; expected {counts}: "
                f"the views{', then the negatives' * self.uses_negatives}."
            )
        terms = self.terms(Batch(as_embeddings(*Z), X=X))
        return torch.stack(list(terms.values())).sum()

    def stand_in(self) -> Loss:
        """A file keeps what the loss was called: representations of new rows do not need it."""
        return ForeignLoss(repr(self), self.views_needed, not self.offers("of_statistics"))

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
    needs_samples : bool, default=True
        Whether it was trained on samples; moments are kept of a model whose loss was one of moments.
    """

    def __init__(self, description: str = "", views_needed: int = 2, needs_samples: bool = True):
        self.description = description
        self.views_needed = views_needed  # type: ignore[misc]
        self.needs_samples = needs_samples

    def offers(self, method: str) -> bool:
        return not self.needs_samples if method == "of_statistics" else super().offers(method)

    def of_statistics(self, statistics: Statistics) -> Terms:
        raise self._not_here()

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # scikit-learn's name
        return f"<the loss {self.description}, not in the file>"

    def terms(self, batch: Batch) -> Terms:
        raise self._not_here()

    def _not_here(self) -> ValueError:
        return ValueError(
            f"This model was trained with {self.description}, a class that a model file cannot hold. "
            "Set a loss before fitting again: model.set_params(loss=...), or model.refit(loss=...)."
        )


class MomentLoss(Loss):
    """A loss that sees the data through the first and second moments of the embeddings.

    Subclasses write `of_statistics`: samples and moments then give the same value by construction. Two methods make
    more of it: `minimiser` where there is a closed form, and `column_scale` where the loss is scale-invariant.
    """

    finds_scale = True

    def terms(self, batch: Batch) -> Terms:
        self.views(batch)
        return self.of_statistics(SampleStatistics(batch))

    def of_moments(self, moments: Moments, W: Tensor, gamma: Tensor | None = None) -> Terms:
        """The same terms from the features' moments, for W (r, h) and gamma (h,); differentiable in both."""
        return self.of_statistics(MomentForms.of(moments).embed(W, gamma))


def check_weights(**weights: float) -> None:
    """Refuse a weight that is negative or not finite."""
    for name, weight in weights.items():
        check_number(name, weight, "a weight", least=0)


def off_diagonal(C: Tensor) -> Tensor:
    """Sum of squares beside the diagonal of C (h, h)."""
    return C.square().sum() - C.diagonal().square().sum()


def inverse_root(scale: Tensor) -> Tensor:
    """scale^(-1/2), and 0 where the scale is 0: columns that do not vary are not enlarged."""
    return torch.where(scale > 0, scale, torch.inf).rsqrt()
