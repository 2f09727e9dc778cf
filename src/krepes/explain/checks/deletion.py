"""Representations without some landmarks, or from them alone: three ways to test what a list of landmarks claims.

    subtracted   f(x) - sum over S of k(x, x_l) a_l                       the terms are gone, all others stay
    left out     f(x) - (k_x^T B)_S B_SS^-1 A_S,  B = (K_mm + eps I)^-1       the others take over
    alone        gamma + k_xS (K_SS + eps I)^-1 (f(S) - gamma)            the smoothest function with the values at S

Subtracting a term leaves what it cancelled, so that even a random one may move a row far; leaving it out is the model
without the landmark: the nearest function to f, in the kernel's norm, that the others can express. Methods are compared
by the first, which asks what the sum contains; the second, what the model needs, stands beside it.
Cost O(n k (k^2 + h)) for k landmarks a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from krepes.explain.expansion import Expansion


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """Rows to explain: their kernel values (n, p m), float64, the sum that they enter, and the landmarks' labels."""

    expansion: Expansion
    K: Tensor
    landmark_labels: np.ndarray | None = None

    @property
    def Z(self) -> Tensor:
        return self.expansion.at(self.K)

    def centres(self, chosen: Tensor) -> Tensor:
        """The places of all views of the landmarks chosen for each row: (n, k) -> (n, k p)."""
        return self.expansion.landmarks.centres[chosen].flatten(1)

    def terms(self, chosen: Tensor) -> Tensor:
        """The sum of the terms of the landmarks chosen, (n, h)."""
        places = self.centres(chosen)
        return (self.K.gather(1, places)[:, None] @ self.expansion.A[places])[:, 0]


def subtracted(rows: ExplainedRows, chosen: Tensor) -> Tensor:
    return rows.Z - rows.terms(chosen)


def others_take_over(rows: ExplainedRows, chosen: Tensor) -> Tensor:
    B, places = rows.expansion.landmarks.inverse, rows.centres(chosen)
    parts = (rows.K @ B).gather(1, places)  # (n, k p)
    moves = torch.linalg.solve(B[places[:, :, None], places[:, None]], rows.expansion.A[places])
    return rows.Z - (parts[:, None] @ moves)[:, 0]


def alone(rows: ExplainedRows, chosen: Tensor) -> Tensor:
    landmarks, places = rows.expansion.landmarks, rows.centres(chosen)
    K = landmarks.K[places[:, :, None], places[:, None]].clone()
    K.diagonal(dim1=1, dim2=2).add_(landmarks.damping)
    weights = torch.linalg.solve(K, rows.expansion.values[places] - rows.expansion.gamma)
    return rows.expansion.gamma + (rows.K.gather(1, places)[:, None] @ weights)[:, 0]


CURVES: dict[str, Callable[[ExplainedRows, Tensor], Tensor]] = {
    "subtracted": subtracted,
    "left out": others_take_over,
    "alone": alone,
}
DELETION = "subtracted"  # what methods are compared by
