"""The contract of initialisations: start values of P, whatever its coordinates."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from krepes.base.components import Component
from krepes.solvers.sgd.coordinates import Coordinates


class Initialization(Component, ABC):
    """Start values of P."""

    @abstractmethod
    def candidates(
        self,
        coordinates: Coordinates,
        n_components: int,
        features: Tensor,  # (N, width), of a uniform sample of rows
        generator: torch.Generator,
    ) -> list[Tensor]:
        """One or several (width, h) to start from; the solver takes the one with the lowest loss."""
