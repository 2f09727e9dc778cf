"""The representation itself: a linear map of kernel values, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from krepes.base.codec import State
from krepes.base.schema import check_entries
from krepes.landmarks.nystrom import NystromMap
from krepes.losses import Loss
from krepes.solvers.output_scale import Spread, check_scale
from krepes.solvers.solver import Solution, best_epoch

LARGEST = 1e30  # coefficient that a solve could give

# What a model file says of a map, and of which type it must be.
STATE = {
    "A": Tensor,
    "gamma": Tensor,
    "history": list[dict[str, float]],
    "solution": list[int | bool],
    "loss_parameters": dict[str, Tensor],
    "spread": dict[str, Tensor],
    "change": Tensor,
}


@dataclass(frozen=True, eq=False)
class LinearMap:
    """f(x) = A^T k_x + gamma, with A = A_loss T and gamma = T^T gamma_loss.

    Attributes
    ----------
    A : Tensor of shape (m, h)
    gamma : Tensor of shape (h,)
    history, n_iter, converged, dropped, parameters
        As in `Solution`. The loss's own parameters (a predictor, a decoder) belong to A_loss.
    spread : Spread or None
        The spread of the loss's components; None for the scale of the loss alone.
    change : Tensor of shape (h_loss, h), or None for the identity
        T, from what the loss minimised to the output's scale.
    """

    A: Tensor
    gamma: Tensor
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
        check_scale(scale)
        if self.spread is None:
            if scale == "loss":
                return self
            raise ValueError(f"scale={scale!r}: this map knows the scale of its loss alone.")
        A, gamma = self._of_loss()
        change = self.spread.change(scale, loss)
        if change is not None:
            A, gamma = A @ change.to(A), gamma @ change.to(A)
        return replace(self, A=A, gamma=gamma, change=change)

    def _of_loss(self) -> tuple[Tensor, Tensor]:
        """A_loss and gamma_loss, float64."""
        A, gamma = self.A.double(), self.gamma.double()
        if self.change is None:
            return A, gamma
        back = torch.linalg.pinv(self.change.to(A))
        return A @ back, gamma @ back

    @property
    def best_epoch(self) -> int | None:
        return best_epoch(self.history)

    def state(self, dtype: torch.dtype) -> State:
        """What a model file keeps, A in the precision of the features."""
        spread = {} if self.spread is None else {"spread": self.spread.state()}
        change = {} if self.change is None else {"change": self.change}
        return (
            spread
            | change
            | {
                "A": self.A.to(dtype),
                "gamma": self.gamma,
                "history": self.history,
                "solution": [self.n_iter, self.converged, self.dropped],
                "loss_parameters": self.parameters,
            }
        )

    @classmethod
    def from_state(cls, state: State, n_landmarks: int, device: torch.device) -> LinearMap:
        """The inverse of `state`, for a model with n_landmarks landmarks."""
        check_entries("The model", state, STATE, optional={"loss_parameters", "spread", "change"})
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
        spread = Spread.from_state(state["spread"]) if "spread" in state else None
        change = state.get("change")
        n_of_loss = None if spread is None else len(spread.mean)
        if change is not None and not (
            change.is_floating_point() and tuple(change.shape) == (n_of_loss, len(gamma))
        ):
            raise ValueError("The model file is damaged: the scale of its components does not fit them.")
        return cls(A, gamma, state["history"], n_iter, converged, dropped, own, spread, change)
