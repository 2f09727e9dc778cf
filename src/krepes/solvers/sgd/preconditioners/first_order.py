"""Steps along the gradient, or along P^-1 times the gradient.

    P = K_mm + lam I                                          [krepes, section 3.2, "General Loss Preconditioner"]

acts on gradients with respect to A; one Cholesky factorisation, O(m^3), then O(m^2 h) a step. In whitened coordinates
the same step is s / (s + lam) times the gradient, with s the eigenvalues of K_mm, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from krepes.base.validation import check_number
from krepes.solvers.sgd.feature_windows import FeatureBatch
from krepes.solvers.sgd.objective import Objective, P, Theta
from krepes.solvers.sgd.preconditioners.preconditioner import Preconditioner, StepRule, Steps


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
