"""The representation itself: a linear map of kernel values, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from krepes.base.model_file import State
from krepes.features import NystromMap
from krepes.solvers.base import Solution, best_epoch


@dataclass(frozen=True, eq=False)
class LinearMap:
    """f(x) = A^T k_x + gamma.

    Attributes
    ----------
    A : Tensor of shape (m, h)
    gamma : Tensor of shape (h,)
    history, n_iter, converged, dropped, parameters
        As in `Solution`.
    """

    A: Tensor
    gamma: Tensor
    history: list[dict[str, float]]
    n_iter: int
    converged: bool
    dropped: int = 0
    parameters: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, solution: Solution, features: NystromMap) -> LinearMap:
        """A = F W, where the solver has not found A itself."""
        A = features.coefficients(solution.W) if solution.coefficients is None else solution.coefficients
        how = (solution.history, solution.n_iter, solution.converged, solution.dropped, solution.parameters)
        return cls(A, solution.gamma.to(A), *how)

    @property
    def best_epoch(self) -> int | None:
        return best_epoch(self.history)

    def state(self, dtype: torch.dtype) -> State:
        """What a model file keeps, A in the precision of the features."""
        return {
            "A": self.A.to(dtype),
            "gamma": self.gamma,
            "history": self.history,
            "solution": [self.n_iter, self.converged, self.dropped],
            "loss_parameters": self.parameters,
        }

    @classmethod
    def from_state(cls, state: State, device: torch.device) -> LinearMap:
        A, gamma = state["A"].to(device), state["gamma"].to(device)
        n_iter, converged, dropped = state["solution"]
        own = state.get("loss_parameters", {})
        return cls(A, gamma, state["history"], n_iter, converged, dropped, own)
