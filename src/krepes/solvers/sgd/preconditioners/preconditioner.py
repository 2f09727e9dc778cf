"""The contract of preconditioners: how one batch changes theta.

A Preconditioner is a choice with parameters; `steps` makes of it what runs: an object that takes one step per batch
and whose state a checkpoint can hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from krepes.base.components import Component
from krepes.losses import Loss
from krepes.solvers.sgd.feature_windows import FeatureBatch
from krepes.solvers.sgd.objective import Objective, Theta


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
