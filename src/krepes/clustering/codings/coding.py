"""The coding contract: a function that gives the coefficients of some samples in terms of all."""

from __future__ import annotations

from abc import ABC, abstractmethod

from krepes.base.components import Component
from krepes.clustering.affinity import CoefficientRows
from krepes.clustering.self_expression import SelfExpression


class Coding(Component, ABC):
    """Expresses every sample by the others."""

    @abstractmethod
    def rows(self, expression: SelfExpression) -> CoefficientRows:
        """A function of some samples, a slice or indices: their coefficients, shape (b, n), zero at themselves.

        `expression.X` are the samples, projected and normalised. What the ridge regression needs is computed only
        where a coding, or a projection, asks for it.
        """
