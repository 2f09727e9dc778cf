"""Start values of what is trained, whatever its coordinates.

    principal    W_0 = the first h unit vectors, A_0 = U_h diag(s_h)^(-1/2)           [krepes, section 3.1]
    moments      W_0 = the leading eigenvectors of the data's covariance, in the span of the landmarks
    kaiming      normal entries of variance 2 / width, as for a layer of a network    [he]

The first uses the landmarks only; the second also sees how the data are spread over them. Both fix directions; their
scale is then the one of a few at which the loss is lowest, because a loss has its own idea of scale (an orthonormal W
for kernel PCA, unit variances for VICReg) and descent would spend its first epochs on finding it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.linalg import descending_eigh
from krepes.losses.checking import own_parameters
from krepes.solvers.sgd.coordinates import Coordinates
from krepes.solvers.sgd.feature_windows import FeatureBatch
from krepes.solvers.sgd.objective import GAMMA, Objective, P, Theta

SCALES = (1.0, 0.1, 10.0, 0.01, 100.0)
ROUNDING = 1e-5  # relative difference of loss values that means nothing


class Initialization(Component, ABC):
    """Start values of P."""

    @abstractmethod
    def candidates(
        self,
        coordinates: Coordinates,
        n_components: int,
        features: Tensor,  # (N, width), of a uniform sample of rows
        generator: torch.Generator,
    ) -> list[Tensor]:
        """One or several (width, h) to start from; the solver takes the one with the lowest loss."""


class Principal(Initialization):
    """Principal components of the landmarks."""

    name = "principal"

    def directions(self, coordinates: Coordinates, n_components: int, features: Tensor) -> Tensor:
        """W_0 (r, h), float64."""
        r = coordinates.features.rank
        return torch.eye(r, min(n_components, r), dtype=torch.float64, device=coordinates.device)

    def candidates(
        self, coordinates: Coordinates, n_components: int, features: Tensor, generator: torch.Generator
    ) -> list[Tensor]:
        P = coordinates.from_W(self.directions(coordinates, n_components, features))
        spread = (features @ P).std(0, correction=0)
        unit = P / (
            spread.clamp_min(1e-6 * spread.max()) if spread.max() > 0 else 1.0
        )  # else all rows are alike
        return [scale * start for scale in SCALES for start in (unit, P)]


class MomentPrincipal(Principal):
    """Principal components of the data, from a sample of them."""

    name = "moments"

    def directions(self, coordinates: Coordinates, n_components: int, features: Tensor) -> Tensor:
        Phi = coordinates.to_phi(features).double()
        Phi = Phi - Phi.mean(0)
        return descending_eigh(Phi.mT @ Phi / len(Phi), min(n_components, Phi.shape[1]))[1]


class Kaiming(Initialization):
    """Random normal entries."""

    name = "kaiming"

    def candidates(
        self, coordinates: Coordinates, n_components: int, features: Tensor, generator: torch.Generator
    ) -> list[Tensor]:
        h = min(n_components, coordinates.features.rank)
        draw = torch.randn(coordinates.width, h, generator=generator, dtype=torch.float64)
        return [(draw * (2 / coordinates.width) ** 0.5).to(coordinates.device, coordinates.dtype)]


def first_theta(
    rule: Initialization,
    objective: Objective,
    sample: FeatureBatch,
    n_components: int,
    batch_size: int,
    generator: torch.Generator,
) -> Theta:
    """The start with the lowest loss on the sample, among those that the initialisation offers.

    Of equal ones the first: a loss that ignores scale values all of them alike, and rounding must not decide. Always
    the first, at unit variance, for a loss that does not find its scale that way; the last, made orthonormal, under
    that constraint.
    """
    coordinates = objective.coordinates
    starts = rule.candidates(coordinates, n_components, sample.features[0], generator)
    if objective.constrained:
        starts = [coordinates.orthonormal(starts[-1])]
    elif not objective.loss.finds_scale:
        starts = starts[:1]
    h = starts[0].shape[1]
    rest: Theta = {}
    if objective.learned:
        rest[GAMMA] = starts[0].new_zeros(coordinates.n_intercepts, h)
    own = own_parameters(objective.loss, h, generator)
    rest |= {name: value.to(starts[0]) for name, value in own.items()}
    candidates = [{P: start, **rest} for start in starts]
    few = sample.first(batch_size)
    best = candidates[0]
    if len(starts) > 1:
        values = [_value(objective, theta, few) for theta in candidates]
        best = candidates[first_of_lowest(values)]
    return {name: value.clone() for name, value in best.items()}


def first_of_lowest(values: Sequence[float]) -> int:
    """Where the lowest value is; of those that rounding alone tells apart, the first.

    >>> first_of_lowest([2.0, 1.0 + 1e-12, 1.0])
    1
    """
    lowest = min(values)
    return next(i for i, value in enumerate(values) if value <= lowest + ROUNDING * abs(lowest))


def _value(objective: Objective, theta: Theta, sample: FeatureBatch) -> float:
    target = None if objective.loss.target_decay is None else theta
    total = objective.values(theta, sample, target)["total"]
    return total if math.isfinite(total) else math.inf
