"""Where training starts, and in which units it steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from krepes.losses.checking import own_parameters
from krepes.solvers.sgd.feature_windows import FeatureBatch
from krepes.solvers.sgd.objective import GAMMA, Objective, P, Theta
from krepes.solvers.sgd.preconditioners.preconditioner import StepRule

if TYPE_CHECKING:
    from krepes.solvers.sgd.sgd import SGD

ROUNDING = 1e-5  # relative difference of loss values that means nothing


def first_theta(
    solver: SGD,
    objective: Objective,
    sample: FeatureBatch,
    n_components: int,
    generator: torch.Generator,
) -> Theta:
    """The start with the lowest loss on the sample, among those that the initialisation offers.

    Of equal ones the first: a loss that ignores scale values all of them alike, and rounding must not decide. Always
    the first, at unit variance, for a loss that does not find its scale that way; the last, made orthonormal, under
    that constraint.
    """
    coordinates = objective.coordinates
    starts = solver.initial().candidates(coordinates, n_components, sample.features[0], generator)
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
    few = sample.first(solver.batch_size)
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


def step_rule(solver: SGD, theta: Theta, sample: FeatureBatch) -> StepRule:
    """Units of the learning rate: with Adam, a step of rate 1 changes embeddings by about their own size."""
    rates = dict.fromkeys(theta, 1.0)
    if solver.optimizer == "adam":
        Phi = sample.features[0]
        size = (Phi @ theta[P]).std(correction=0).item() or 1.0
        length = Phi.double().square().sum(1).mean().sqrt().item() or 1.0
        rates |= {P: size / length}
        if GAMMA in theta:
            rates[GAMMA] = size
    return StepRule(solver.optimizer, rates, solver.weight_decay, solver.gradient_clip)
