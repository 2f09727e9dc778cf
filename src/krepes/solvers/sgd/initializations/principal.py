"""Principal components as start values.

    principal    W_0 = the first h unit vectors, A_0 = U_h diag(s_h)^(-1/2)           [krepes, section 3.1]
    moments      W_0 = the leading eigenvectors of the data's covariance, in the span of the landmarks

The first uses the landmarks only; the second also sees how the data are spread over them. Both fix directions; their
scale is then the one of a few at which the loss is lowest, because a loss has its own idea of scale (an orthonormal W
for kernel PCA, unit variances for VICReg) and descent would spend its first epochs on finding it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.base.linalg import descending_eigh
from krepes.solvers.sgd.coordinates import Coordinates
from krepes.solvers.sgd.initializations.initialization import Initialization

SCALES = (1.0, 0.1, 10.0, 0.01, 100.0)


class Principal(Initialization):
    """Principal components of the landmarks."""

    name = "principal"

    def directions(self, coordinates: Coordinates, n_components: int, features: Tensor) -> Tensor:
        """W_0 (r, h), float64."""
        r = coordinates.features.rank
        return torch.eye(r, min(n_components, r), dtype=torch.float64, device=coordinates.device)

    def candidates(
        self, coordinates: Coordinates, n_components: int, features: Tensor, generator: torch.Generator
    ) -> list[Tensor]:
        P = coordinates.from_W(self.directions(coordinates, n_components, features))
        spread = (features @ P).std(0, correction=0)
        unit = P / (
            spread.clamp_min(1e-6 * spread.max()) if spread.max() > 0 else 1.0
        )  # else all rows are alike
        return [scale * start for scale in SCALES for start in (unit, P)]


class MomentPrincipal(Principal):
    """Principal components of the data, from a sample of them."""

    name = "moments"

    def directions(self, coordinates: Coordinates, n_components: int, features: Tensor) -> Tensor:
        Phi = coordinates.to_phi(features).double()
        Phi = Phi - Phi.mean(0)
        return descending_eigh(Phi.mT @ Phi / len(Phi), min(n_components, Phi.shape[1]))[1]
