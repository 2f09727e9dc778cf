"""What a descent leaves behind: the bottleneck at the landmarks, and all that a model file keeps of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.base.codec import State
from krepes.base.schema import check_entries
from krepes.features import FeatureSpace
from krepes.features.stored_kernels import missing_functions
from krepes.kernels import Kernel

STATE = {
    "bottleneck": Tensor,
    "encoder_coefficients": Tensor,
    "fitted_decoder_kernel": Kernel,
    "history": list[float],
    "converged": bool,
    "exact": bool,
}


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

    Z: Tensor
    coefficients: Tensor
    kernel: Kernel
    values: list[float]
    converged: bool
    exact: bool

    def state(self) -> State:
        found = (self.Z, self.coefficients, self.kernel, self.values, self.converged, self.exact)
        return dict(zip(STATE, found))

    @classmethod
    def from_state(cls, state: State, space: FeatureSpace) -> FittedBottleneck:
        """The inverse of `state`, checked against the space it belongs to."""
        found = {name: state[name] for name in STATE if name in state}
        check_entries("The autoencoder", found, STATE, optional=set())
        Z, coefficients = found["bottleneck"], found["encoder_coefficients"]
        problems = {
            "its bottleneck": Z.ndim != 2 or Z.shape[1] < 2 or Z.dtype != torch.float64,
            "its encoder": coefficients.shape != Z.shape or coefficients.dtype != torch.float64,
            "its landmarks": len(Z) != len(space.landmarks),
            "its decoder's kernel": any(missing_functions(found["fitted_decoder_kernel"])),
            "its history": not found["history"],
        }
        wrong = [name for name, broken in problems.items() if broken]
        if wrong:
            raise ValueError(f"The model file is damaged: {', '.join(wrong)} cannot be what was written.")
        tensors = (Z.to(space.device), coefficients.to(space.device))
        return cls(*tensors, *(found[name] for name in list(STATE)[2:]))
