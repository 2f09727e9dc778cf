"""Uniform landmarks: every candidate is as likely as every other.

P(x_j) = 1 / n      [krepes, Sec. 3 and App. D, "random uniform"]

Costs nothing and sees neither the kernel nor the data; small clusters may be missed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from krepes.kernels import Kernel
from krepes.landmarks.landmark_selector import LandmarkSelector, permutation


class Uniform(LandmarkSelector):
    """Landmarks drawn uniformly without replacement.

    Examples
    --------
    >>> from krepes.kernels import Linear
    >>> chosen = Uniform().select(torch.zeros(5, 1), Linear(), 2, torch.Generator().manual_seed(0))
    >>> len(set(chosen.tolist()))
    2
    """

    name = "uniform"
    known_elsewhere_as = ("random",)

    def choose(self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator) -> Tensor:
        return permutation(len(candidates), generator)[:n_landmarks]

    def values_to_choose(self, n_candidates: int, n_landmarks: int) -> int:
        return 0
