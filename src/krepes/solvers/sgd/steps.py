"""How one batch changes theta: preconditioners, steps and their rates.

A Preconditioner is a choice with parameters; `steps` makes of it what runs: an object that takes one step per batch
and whose state a checkpoint can hold. Steps go along the gradient, or along P^-1 times the gradient,

    P = K_mm + lam I                                          [krepes, section 3.2, "General Loss Preconditioner"]

which acts on gradients with respect to A; one Cholesky factorisation, O(m^3), then O(m^2 h) a step. In whitened
coordinates the same step is s / (s + lam) times the gradient, with s the eigenvalues of K_mm, and costs nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.base.validation import check_number
from krepes.losses import Loss
from krepes.solvers.sgd.feature_windows import FeatureBatch
from krepes.solvers.sgd.objective import GAMMA, Objective, P, Theta


@dataclass
class StepRule:
    """What a solver says about its steps.

    Attributes
    ----------
    optimizer : "adam" or "gradient"
    rates : dict
        The unit of the learning rate for every entry of theta.
    weight_decay : float
    gradient_clip : float or None
    """

    optimizer: str
    rates: dict[str, float]
    weight_decay: float = 0.0
    gradient_clip: float | None = None


class Steps(ABC):
    """Steps of one fit."""

    @abstractmethod
    def step(
        self, theta: Theta, samples: FeatureBatch, target: Theta | None, rate: float
    ) -> dict[str, float]:
        """Change theta in place; returns the values of the objective before the step."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, besides theta."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""

    @property
    def counts(self) -> dict[str, int]:
        """Work done so far, by name, for the history."""
        return {}


class Preconditioner(Component, ABC):
    """How gradients become steps."""

    default_rate: ClassVar[float] = 0.03
    without: ClassVar[tuple[str, ...]] = ()  # settings of SGD that its steps have no use for

    def check(self) -> None:
        """Refuse parameters that make no sense."""

    def missing(self, loss: Loss) -> str | None:
        """What the loss lacks for this preconditioner, in words; None if nothing."""
        return None

    @abstractmethod
    def steps(self, objective: Objective, theta: Theta, rule: StepRule) -> Steps:
        """The steps of a fit that begins at theta."""


class FirstOrderSteps(Steps):
    """torch's Adam or plain gradient descent on (transformed) gradients."""

    def __init__(
        self,
        objective: Objective,
        theta: Theta,
        rule: StepRule,
        transform: Callable[[Tensor], Tensor] | None = None,
    ):
        self.objective, self.rule, self.transform = objective, rule, transform
        groups = [{"params": [theta[name]], "unit": rule.rates[name]} for name in theta]
        kind = torch.optim.Adam if rule.optimizer == "adam" else torch.optim.SGD
        self.optimizer = kind(groups, lr=1.0, weight_decay=rule.weight_decay)

    def step(
        self, theta: Theta, samples: FeatureBatch, target: Theta | None, rate: float
    ) -> dict[str, float]:
        values, gradient = self.objective.gradient(theta, samples, target)
        if self.transform is not None:
            gradient[P] = self.transform(gradient[P])
        for name, value in theta.items():
            value.grad = gradient[name]
        if self.rule.gradient_clip is not None:
            torch.nn.utils.clip_grad_norm_(list(theta.values()), self.rule.gradient_clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["unit"]
        self.optimizer.step()
        for value in theta.values():
            value.grad = None
        return values

    def state(self) -> dict[str, Any]:
        return {str(key): dict(value) for key, value in self.optimizer.state_dict()["state"].items()}

    def restore(self, state: dict[str, Any]) -> None:
        full = self.optimizer.state_dict()
        full["state"] = {int(key): value for key, value in state.items()}
        self.optimizer.load_state_dict(full)


class NoPreconditioner(Preconditioner):
    """The gradient as it is."""

    name = "none"

    def steps(self, objective: Objective, theta: Theta, rule: StepRule) -> Steps:
        return FirstOrderSteps(objective, theta, rule)


class KernelPreconditioner(Preconditioner):
    """P^-1 times the gradient, P = K_mm + lam I.

    Parameters
    ----------
    damping : float, default=1e-3
        lam, relative to the mean of k(x, x) over the landmarks. With 0 and plain gradient steps, training A is training
        W.
    """

    name = "kernel"

    def __init__(self, damping: float = 1e-3):
        self.damping = damping

    def check(self) -> None:
        check_number("damping", self.damping, least=0)

    def steps(self, objective: Objective, theta: Theta, rule: StepRule) -> Steps:
        features = objective.coordinates.features
        mean = features.eigenvalues.sum().item() / features.n_landmarks
        return FirstOrderSteps(
            objective, theta, rule, objective.coordinates.kernel_solver(self.damping * mean)
        )


@dataclass(frozen=True)
class Schedule:
    """The learning rate over the epochs: a linear warm-up, then a cosine from `top` to `bottom`.

    >>> schedule = Schedule(top=1.0, max_epochs=3, warmup_epochs=1, bottom=0.0)
    >>> [round(schedule.rate(t), 3) for t in (0.5, 1, 2, 3)]
    [0.5, 1.0, 0.5, 0.0]
    """

    top: float
    max_epochs: int
    warmup_epochs: float = 1.0
    bottom: float = 1e-5

    def rate(self, epochs: float) -> float:
        """The rate after this many epochs, which may be a fraction."""
        low = min(self.bottom, self.top)
        warm = min(self.warmup_epochs, self.max_epochs / 2)
        if epochs < warm:
            return max(low, self.top * epochs / warm)
        share = (epochs - warm) / max(self.max_epochs - warm, 1e-12)
        return low + (self.top - low) * (1 + math.cos(math.pi * min(share, 1.0))) / 2


def rate_units(optimizer: str, theta: Theta, sample: FeatureBatch) -> dict[str, float]:
    """Units of the learning rate: with Adam, a step of rate 1 changes embeddings by about their own size."""
    units = dict.fromkeys(theta, 1.0)
    if optimizer == "adam":
        Phi = sample.features[0]
        size = (Phi @ theta[P]).std(correction=0).item() or 1.0
        length = Phi.double().square().sum(1).mean().sqrt().item() or 1.0
        units |= {P: size / length}
        if GAMMA in theta:
            units[GAMMA] = size
    return units
