"""The decoder of a fitted bottleneck: ridge regression from points on the sphere to rows, summed in one pass.

    x^(z) = xbar + W^T psi(z),      psi(z) = F^T k(z, centres),      W = (sum psi psi^T + lam I)^-1 sum psi (x - xbar)^T

F F^T = K_c^+, so that |W|^2 is the decoder's squared norm. Where the centres are the bottleneck of all rows this is the
formula of [esser, Thm. 5], xbar + X_c (K_Z + lam I)^-1 k(z, Z). Memory O(m^2 + m d), whatever n is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from krepes.base.accumulator import SumOfValues
from krepes.base.blocks import Block
from krepes.base.rows import dense
from krepes.base.storage.codec import Shape
from krepes.base.storage.packing import digest
from krepes.features import FeatureSpace
from krepes.features.user_kernels import missing_functions
from krepes.kernels import Kernel
from krepes.landmarks.nystrom import NystromMap
from krepes.losses.directions import directions
from krepes.regression.ridge_algebra import NormalSums


@dataclass(frozen=True, eq=False)
class FittedBottleneck:
    """What a descent leaves behind, and a model file keeps: the bottleneck at the landmarks.

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


@dataclass(frozen=True, eq=False)
class Encoder:
    """z(x) = f / |f|,  f = Z^T P k_x.

    Attributes
    ----------
    space : FeatureSpace
        Kernel and landmarks.
    coefficients : Tensor of shape (m, h), float64
        P Z.
    """

    space: FeatureSpace
    coefficients: Tensor

    def __call__(self, X: Tensor) -> Tensor:
        """Points on the sphere (b, h), float64; a row unlike any landmark may be the zero vector."""
        return directions(self.before_normalising(X))

    def before_normalising(self, X: Tensor) -> Tensor:
        """f (b, h), float64."""
        return self.space.features.kernel_block(X).double() @ self.coefficients

    @property
    def norm(self) -> float:
        """|W_1| in the kernel's space, of f."""
        C, K_mm = self.coefficients, self.space.kernel(self.space.landmarks).double()
        return (C * (K_mm @ C)).sum().clamp(min=0).sqrt().item()


class DecoderSums(SumOfValues[NormalSums]):
    """Sums the decoder's normal equations: bottleneck features and the rows to reconstruct, the last of the inputs."""

    def __init__(self, encoder: Encoder, features: NystromMap):
        self.encoder, self.features = encoder, features
        super().__init__()

    def of(self, block: Block, before: NormalSums | None) -> NormalSums:
        X = dense(block.inputs[-1])
        return NormalSums.of_rows(self.features(self.encoder(dense(block.inputs[0]))), X.reshape(len(X), -1))

    @property
    def sizes(self) -> dict[str, int]:
        return {"r": self.features.rank, "c": self.encoder.space.width}

    @property
    def device(self) -> torch.device:
        return self.encoder.space.device

    @property
    def bytes_per_row(self) -> int:
        return self.encoder.space.bytes_per_row + 16 * (self.features.n_landmarks + self.encoder.space.width)

    def fingerprint(self) -> dict[str, str]:
        return self.encoder.space.fingerprint() | {"bottleneck": digest(self.encoder.coefficients)}


@dataclass(frozen=True, eq=False)
class Decoder:
    """Rows from points of the bottleneck.

    Attributes
    ----------
    features : NystromMap
        psi.
    W : Tensor of shape (q, d)
    mean : Tensor of shape (d,)
    spread : float
        The root of the mean squared distance of the rows from their mean; 1 where they are all the same.
    """

    features: NystromMap
    W: Tensor
    mean: Tensor
    spread: float

    @classmethod
    def solved(cls, features: NystromMap, sums: NormalSums, lam: float) -> Decoder:
        if not sums.squares.isfinite().all():
            raise ValueError(
                "The rows to reconstruct hold numbers whose squares overflow in float64. Give them in other units, or "
                "leave the column out that has them."
            )
        mean = sums.means[1]
        centred = sums.centred(torch.zeros_like(sums.sum_phi), mean)
        W = centred.solved(lam)
        if W is None:
            raise ValueError(
                f"regularization={lam:g} is too small for this bottleneck: the decoder has no stable solution. Give a "
                "larger one."
            )
        spread = (centred.yy.sum().clamp(min=0).item() / sums.n) ** 0.5
        return cls(features, W, mean, spread or 1.0)

    def __call__(self, Z: Tensor) -> Tensor:
        """(b, h) -> (b, d), float64."""
        return self.features(Z) @ self.W + self.mean
