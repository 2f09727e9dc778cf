"""Random start values, as for a layer of a network: normal entries of variance 2 / width  [he]."""

from __future__ import annotations

import torch
from torch import Tensor

from krepes.solvers.sgd.coordinates import Coordinates
from krepes.solvers.sgd.initializations.initialization import Initialization


class Kaiming(Initialization):
    """Random normal entries."""

    name = "kaiming"

    def candidates(
        self, coordinates: Coordinates, n_components: int, features: Tensor, generator: torch.Generator
    ) -> list[Tensor]:
        h = min(n_components, coordinates.features.rank)
        draw = torch.randn(coordinates.width, h, generator=generator, dtype=torch.float64)
        return [(draw * (2 / coordinates.width) ** 0.5).to(coordinates.device, coordinates.dtype)]
