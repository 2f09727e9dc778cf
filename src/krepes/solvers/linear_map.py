"""The representation itself: a linear map of kernel values, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from krepes.base.model_file import State
from krepes.base.schema import check_entries
from krepes.features import NystromMap
from krepes.losses import Loss
from krepes.solvers.base import Solution, best_epoch
from krepes.solvers.output_scale import Spread

LARGEST = 1e30  # coefficient that a solve could give

# What a model file says of a map, and of which type it must be.
STATE = {
    "A": Tensor,
    "gamma": Tensor,
    "history": list[dict[str, float]],
    "solution": list[int | bool],
    "loss_parameters": dict[str, Tensor],
    "spread": dict[str, Tensor],
}


@dataclass(frozen=True, eq=False)
class LinearMap:
    """f(x) = A^T k_x + gamma, with A = A_loss T and gamma = T^T gamma_loss.

    Attributes
    ----------
    coefficients : Tensor of shape (m, h)
        What the loss minimised, which its own parameters (a predictor, a decoder) belong to.
    intercept : Tensor of shape (h,)
    history, n_iter, converged, dropped, parameters
        As in `Solution`.
    spread : Spread or None
        None in files of earlier versions, which know no other scale than the loss's.
    change : Tensor of shape (h, h'), or None for the identity
        T.
    """

    coefficients: Tensor
    intercept: Tensor
    history: list[dict[str, float]]
    n_iter: int
    converged: bool
    dropped: int = 0
    parameters: dict[str, Tensor] = field(default_factory=dict)
    spread: Spread | None = None
    change: Tensor | None = None

    @classmethod
    def of(cls, solution: Solution, features: NystromMap, spread: Spread) -> LinearMap:
        """A_loss = F W, where the solver has not found A itself; at the scale of the loss."""
        A = features.coefficients(solution.W) if solution.coefficients is None else solution.coefficients
        if not (bool(A.isfinite().all()) and bool(solution.gamma.isfinite().all())):
            raise ValueError(
                "The solution has coefficients that are not finite: the moments hold numbers that differ too much in "
                "size. Look for extreme values in the rows."
            )
        how = (solution.history, solution.n_iter, solution.converged, solution.dropped, solution.parameters)
        return cls(A, solution.gamma.to(A), *how, spread)

    def scaled(self, scale: str, loss: Loss) -> LinearMap:
        """The same components at another scale."""
        if self.spread is None:
            if scale == "loss":
                return self
            raise ValueError(
                f"This model was saved by an earlier version, which kept the scale of its loss only: scale={scale!r} "
                "needs another fit, or refit(scale=...) where the file has moments."
            )
        return replace(self, change=self.spread.change(scale, loss))

    @cached_property
    def A(self) -> Tensor:
        """(m, h), at the output's scale."""
        return (
            self.coefficients
            if self.change is None
            else self.coefficients @ self.change.to(self.coefficients)
        )

    @cached_property
    def gamma(self) -> Tensor:
        """(h,), at the output's scale."""
        return self.intercept if self.change is None else self.intercept @ self.change.to(self.intercept)

    @property
    def best_epoch(self) -> int | None:
        return best_epoch(self.history)

    def state(self, dtype: torch.dtype) -> State:
        """What a model file keeps: what the loss minimised, A in the precision of the features."""
        spread = {} if self.spread is None else {"spread": self.spread.state()}
        return spread | {
            "A": self.coefficients.to(dtype),
            "gamma": self.intercept,
            "history": self.history,
            "solution": [self.n_iter, self.converged, self.dropped],
            "loss_parameters": self.parameters,
        }

    @classmethod
    def from_state(cls, state: State, n_landmarks: int, device: torch.device) -> LinearMap:
        """The inverse of `state`, for a model with n_landmarks landmarks."""
        check_entries("The model", state, STATE, optional={"loss_parameters", "spread"})
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
        spread = Spread.from_state(state["spread"], len(gamma)) if "spread" in state else None
        return cls(A, gamma, state["history"], n_iter, converged, dropped, own, spread)
