"""What a loss may be able to do besides giving its value, each as a small class.

    class Mine(Loss, SumOfSquares):            # says so, and a type checker sees it
        def residuals(self, batch): ...        # a class that only writes the method has the ability, too

A solver asks for an ability by its class, `ability(loss, SumOfSquares)`, and gets the loss back under that type, or
None. An ability that a loss has for some of its settings only is declared in `Loss.offers`:

    def offers(self, kind):
        return super().offers(kind) and (kind is not HasMinimiser or self.variance == "quadratic")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from krepes.losses.batch import Batch, Logits, Terms
    from krepes.losses.loss import Loss
    from krepes.losses.moment_forms import MomentForms
    from krepes.losses.statistics import Statistics
    from krepes.moments import Moments


class Ability(ABC):  # noqa: B024 - its subclasses have the methods
    """Something that a loss may be able to do: whatever has its methods has the ability."""

    @classmethod
    def described(cls) -> str:
        """The methods, as an error message names them."""
        return " and ".join(f"{name}()" for name in sorted(cls.__abstractmethods__))


class OfStatistics(Ability):
    """A function of the first and second moments of the embeddings, see `MomentLoss`."""

    @abstractmethod
    def of_statistics(self, statistics: Statistics) -> Terms:
        """Named scalars whose sum is the loss."""


class OfTwoSamples(Ability):
    """Two independent samples estimate it without bias; the square of one sample's moments would be biased."""

    @abstractmethod
    def of_two_samples(self, first: Statistics, second: Statistics, both: Statistics) -> Terms:
        """Named scalars whose sum estimates the loss; `both` are the statistics of the two, mixed half and half."""


class QuadraticInMoments(OfTwoSamples):
    """A polynomial of second degree in the moments of the embeddings: f(s) = c + l(s) + q(s, s).

        2 f((a + b) / 2) - (f(a) + f(b)) / 2  =  c + (l(a) + l(b)) / 2 + q(a, b)

    For a and b from disjoint samples its mean is f(mean of s). f(a) itself is larger by the mean of q(a - s, a - s):
    about h (h + 1) / n for |Z^T Z / n|_F^2 and h uncorrelated components of variance 1.

    >>> from krepes.losses import SpectralContrastive
    >>> ability(SpectralContrastive(), OfTwoSamples)
    SpectralContrastive()
    """

    def of_two_samples(self, first: Statistics, second: Statistics, both: Statistics) -> Terms:
        a, b, mixed = (cast(OfStatistics, self).of_statistics(s) for s in (first, second, both))
        return {name: 2 * mixed[name] - (a[name] + b[name]) / 2 for name in mixed}


class HasMinimiser(Ability):
    """Its minimum is known in closed form."""

    @abstractmethod
    def minimiser(self, moments: Moments, n_components: int, lam: float) -> tuple[Tensor, Tensor]:
        """(W, gamma) of shapes (r, h') and (h',), regulariser included."""


class HasStart(Ability):
    """It knows where descent on the moments should start."""

    @abstractmethod
    def start(self, forms: MomentForms, n_components: int, lam: float) -> tuple[Tensor, bool]:
        """W (k, h) to descend from, and whether it is the minimum already."""


class HasCorners(Ability):
    """It is not differentiable everywhere, but there are smooth losses near it."""

    @abstractmethod
    def smoothed(self, width: float) -> Loss:
        """A loss without corners, nearer to this one the smaller the width."""


class NeedsRegularization(Ability):
    """Without enough regularisation it falls without bound, and has no minimum."""

    @abstractmethod
    def sufficient_lam(self, moments: Moments) -> float:
        """A lam from which on there is a minimum."""


class IgnoresScale(Ability):
    """A `scale_invariant` loss: its value does not change with the scale of W's columns."""

    @abstractmethod
    def column_scale(self, statistics: Statistics) -> Tensor:
        """The squared scale of every column, (h,), which the regulariser divides by."""


class OwnParameters(Ability):
    """It has its own tensors, such as a predictor, which are trained with W and gamma."""

    @abstractmethod
    def parameters(self, n_components: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Their start values, by name."""


class MovingTarget(Ability):
    """Its batches bring `target_Z`, the embeddings under a moving average of the model."""

    @property
    @abstractmethod
    def target_decay(self) -> float:
        """decay of theta_t <- decay theta_t + (1 - decay) theta; a class attribute serves as well."""


class SumOfSquares(Ability):
    """Its value is the squared length of a vector: Gauss-Newton steps."""

    @abstractmethod
    def residuals(self, batch: Batch) -> Tensor:
        """That vector."""


class Classification(Ability):
    """Its value is the mean cross-entropy of logits: Gauss-Newton steps."""

    @abstractmethod
    def logits(self, batch: Batch) -> Logits:
        """Scores of the classes and the right answers."""


A = TypeVar("A", bound=Ability)


def ability(loss: Loss, kind: type[A]) -> A | None:
    """The loss under the type of an ability, or None where it does not have it.

    >>> from krepes.losses import BarlowTwins
    >>> ability(BarlowTwins(), HasMinimiser) is None
    True
    >>> ability(BarlowTwins(redundancy=1, normalize=False), HasMinimiser)
    BarlowTwins(normalize=False, redundancy=1)
    """
    return cast(A, loss) if loss.offers(kind) else None


def required(loss: Loss, kind: type[A]) -> A:
    """The loss under the type of an ability; an error where it does not have it."""
    found = ability(loss, kind)
    if found is None:
        raise ValueError(f"The loss {loss} has no {kind.described()} with these settings.")
    return found
