"""The representation itself: a linear map of kernel values, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from krepes.base.model_file import State
from krepes.base.schema import check_entries
from krepes.features import NystromMap
from krepes.solvers.base import Solution, best_epoch

LARGEST = 1e30  # coefficient that a solve could give

# What a model file says of a map, and of which type it must be.
STATE = {
    "A": Tensor,
    "gamma": Tensor,
    "history": list[dict[str, float]],
    "solution": list[int | bool],
    "loss_parameters": dict[str, Tensor],
}


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
        if not (bool(A.isfinite().all()) and bool(solution.gamma.isfinite().all())):
            raise ValueError(
                "The solution has coefficients that are not finite: the moments hold numbers that differ too much in "
                "size. Look for extreme values in the rows."
            )
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
    def from_state(cls, state: State, n_landmarks: int, device: torch.device) -> LinearMap:
        """The inverse of `state`, for a model with n_landmarks landmarks."""
        check_entries("The model", state, STATE, optional={"loss_parameters"})
        shape, width = tuple(state["A"].shape), tuple(state["gamma"].shape)
        if len(shape) != 2 or shape[0] != n_landmarks or shape[1] == 0 or width != shape[1:]:
            raise ValueError(
                f"The model file is damaged: coefficients of shape {shape} and an intercept of shape {width} do not "
                f"fit {n_landmarks} landmarks."
            )
        if not (state["A"].is_floating_point() and state["gamma"].is_floating_point()):
            raise ValueError("The model file is damaged: its coefficients are not numbers with a fraction.")
        if max(state["A"].abs().max().item(), state["gamma"].abs().max().item()) > LARGEST:
            raise ValueError(
                "The model file is damaged: its coefficients are out of the range of single precision."
            )
        if not state["history"] or len(state["solution"]) != 3:
            raise ValueError("The model file is damaged: it does not say how its coefficients were found.")
        A, gamma = state["A"].to(device), state["gamma"].to(device)
        n_iter, converged, dropped = state["solution"]
        own = state.get("loss_parameters", {})
        return cls(A, gamma, state["history"], n_iter, converged, dropped, own)
