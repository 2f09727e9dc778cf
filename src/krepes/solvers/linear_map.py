"""The representation itself: a linear map of kernel values, how it was found, and the scale of its components.

    Z = Z_loss T,    A = A_loss T,    gamma = T^T gamma_loss,    W = W_loss T

A loss fixes the variance of its components whatever their norm in the kernel's space is, so weak and wiggly directions
come out as large as smooth ones, and a classifier with few labels cannot tell them apart. Four scales:

    kernel        columns w_j of norm 1 in the kernel's space: a component's variance is what the kernel gives it
    orthonormal   W^T W = I: ridge regression on the components is kernel ridge regression within their span
    unit          components of variance 1
    loss          as the loss left them, T = I

Where the loss does not change under rotations, the components are first rotated to principal axes: W^T S W is diagonal,
largest first, with S the second moment of the features, about their mean where the loss centres. A loss that fixes its
basis keeps it (except for "orthonormal", which no other basis allows).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import torch
from torch import Tensor

from krepes.base.codec import FLOATS, Bounds, Shape
from krepes.base.linalg import descending_eigh, inverse_sqrt
from krepes.base.validation import check_choice
from krepes.landmarks.nystrom import NystromMap
from krepes.losses import Loss
from krepes.moments import Moments
from krepes.solvers.solver import Solution, best_epoch

LARGEST = 1e30  # coefficient that a solve could give
SCALES = ("kernel", "orthonormal", "loss", "unit")
CUT = 1e-14  # of the largest variance or norm: smaller ones are rounding


@dataclass(frozen=True, eq=False)
class Spread:
    """How the components of a loss lie in the kernel's space and over the data, as a change of scale needs it.

    Attributes
    ----------
    second : Tensor of shape (h, h)
        W^T S W, the second moment of W^T phi(x).
    mean : Tensor of shape (h,)
        W^T mu.
    gram : Tensor of shape (h, h)
        W^T W.
    """

    second: Annotated[Tensor, Shape("h", "h")]
    mean: Annotated[Tensor, Shape("h")]
    gram: Annotated[Tensor, Shape("h", "h")]

    @classmethod
    def of(cls, W: Tensor, moments: Moments) -> Spread:  # W: (r, h)
        W = W.double()
        return cls(W.mT @ moments.S @ W, W.mT @ moments.mean, W.mT @ W)

    @property
    def covariance(self) -> Tensor:
        return self.second - torch.outer(self.mean, self.mean)

    def change(self, scale: str, loss: Loss) -> Tensor | None:
        """T (h, h'), for components ordered by their variance; None where nothing changes.

        >>> from krepes.losses import KernelPCA
        >>> spread = Spread(torch.diag(torch.tensor([1.0, 4.0])), torch.zeros(2), torch.diag(torch.tensor([4.0, 4.0])))
        >>> spread.change("kernel", KernelPCA()).tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        check_choice("scale", scale, SCALES)
        if scale == "loss":
            return None
        moment = self.covariance if loss.intercept != "zero" else self.second
        if scale == "orthonormal":
            B = inverse_sqrt(self.gram.double(), CUT)
            return B @ descending_eigh(B.mT @ moment @ B)[1]
        Q = descending_eigh(moment)[1] if loss.rotation_invariant else torch.eye(len(moment)).to(moment)
        measured = self.gram if scale == "kernel" else self.covariance
        sizes = (Q * (measured.to(Q) @ Q)).sum(0)
        return Q / torch.where(sizes > CUT * sizes.max(), sizes, 1.0).sqrt()


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
        check_choice("scale", scale, SCALES)
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
