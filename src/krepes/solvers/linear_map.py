"""The representation itself: a linear map of kernel values, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import torch
from torch import Tensor

from krepes.base.codec import FLOATS, Bounds, Shape
from krepes.landmarks.nystrom import NystromMap
from krepes.losses import Loss
from krepes.solvers.output_scale import Spread, check_scale
from krepes.solvers.solver import Solution, best_epoch

LARGEST = 1e30  # coefficient that a solve could give


@dataclass(frozen=True, eq=False)
class LinearMap:
    """f(x) = A^T k_x + gamma, with A = A_loss T and gamma = T^T gamma_loss.

    Attributes
    ----------
    A : Tensor of shape (m, h)
    gamma : Tensor of shape (h,)
    history, n_iter, converged, dropped, parameters
        As in `Solution`. The loss's own parameters (a predictor, a decoder) belong to A_loss.
    spread : Spread
        The spread of the loss's components.
    change : Tensor of shape (h_loss, h), or None for the identity
        T, from what the loss minimised to the output's scale.
    """

    A: Annotated[Tensor, Shape("m", "h", dtype=FLOATS), Bounds(least=-LARGEST, most=LARGEST)]
    gamma: Annotated[Tensor, Shape("h", dtype=FLOATS), Bounds(least=-LARGEST, most=LARGEST)]
    history: list[dict[str, float]]
    n_iter: int
    converged: bool
    spread: Spread
    dropped: int = 0
    parameters: dict[str, Tensor] = field(default_factory=dict)
    change: Annotated[Tensor | None, Shape(None, "h", dtype=FLOATS)] = None

    @classmethod
    def of(cls, solution: Solution, features: NystromMap, spread: Spread) -> LinearMap:
        """A_loss = F W, where the solver has not found A itself; at the scale of the loss."""
        A = features.coefficients(solution.W) if solution.coefficients is None else solution.coefficients
        if not (bool(A.isfinite().all()) and bool(solution.gamma.isfinite().all())):
            raise ValueError(
                "The solution has coefficients that are not finite: the moments hold numbers that differ too much in "
                "size. Look for extreme values in the rows."
            )
        how = (solution.history, solution.n_iter, solution.converged)
        return cls(A, solution.gamma.to(A), *how, spread, solution.dropped, solution.parameters)

    def scaled(self, scale: str, loss: Loss) -> LinearMap:
        """The same components at another scale."""
        check_scale(scale)
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

    def in_precision(self, dtype: torch.dtype) -> LinearMap:
        """With A in the precision of the features, as a model file keeps it."""
        return replace(self, A=self.A.to(dtype))

    def check_restored(self) -> None:
        of_loss = len(self.spread.mean)
        if (
            not self.history
            or not len(self.gamma)
            or (self.change is not None and len(self.change) != of_loss)
        ):
            raise ValueError("The file is damaged: it does not say how its coefficients were found.")
