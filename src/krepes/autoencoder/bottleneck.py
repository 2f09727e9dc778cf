"""What a descent leaves behind: the bottleneck at the landmarks, and all that a model file keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from krepes.base.codec import Shape
from krepes.features.stored_kernels import missing_functions
from krepes.kernels import Kernel


@dataclass(frozen=True, eq=False)
class FittedBottleneck:
    """The result of a descent.

    Attributes
    ----------
    Z : Tensor of shape (m, h), float64
        Unit rows: what the encoder was asked for at the landmarks.
    coefficients : Tensor of shape (m, h), float64
        P Z: z(x) is the direction of k_x^T P Z.
    kernel : Kernel
        The decoder's, its parameters numbers.
    values : list of float
        The objective at the start and after every step.
    converged, exact : bool
    """

    Z: Annotated[Tensor, Shape("m", "h")]
    coefficients: Annotated[Tensor, Shape("m", "h")]
    kernel: Kernel
    values: list[float]
    converged: bool
    exact: bool

    def check_restored(self) -> None:
        if self.Z.shape[1] < 2 or not self.values or any(missing_functions(self.kernel)):
            raise ValueError(
                "The file is damaged: its bottleneck, decoder kernel or history is not complete."
            )
