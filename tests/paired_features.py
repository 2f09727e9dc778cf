"""Small sets of features with two views, and the moments of either kind, for tests of losses and solvers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from krepes.moments import Moments

KINDS = ["exchangeable", "ordered", "with negatives"]


@dataclass
class Paired:
    """Features whose rows are the pairs that the moments stand for."""

    Phi1: Tensor  # (n, r)
    Phi2: Tensor  # (n, r)
    negatives: Tensor | None
    moments: Moments


def paired(kind: str, n: int = 40, r: int = 6, seed: int = 0, noise: float = 0.6) -> Paired:
    """Pairs that share a signal of decaying variance and a mean; "ordered" ones also differ systematically."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    spread = 0.8 ** torch.arange(r, dtype=torch.float64)
    signal = (normal(n, r) @ torch.linalg.qr(normal(r, r))[0]) * spread + 0.5 * normal(r)
    views = [signal + noise * spread * normal(n, r) for _ in range(3)]
    if kind == "exchangeable":  # three views: every ordered pair of them is a row
        first = [views[i] for i in range(3) for j in range(3) if i != j]
        second = [views[j] for i in range(3) for j in range(3) if i != j]
        return Paired(torch.cat(first), torch.cat(second), None, Moments.of_views(*views))
    Phi1, Phi2 = views[0], 0.8 * views[1] + 0.3 * views[1].roll(1, dims=1) + 0.2
    negatives = views[2].roll(1, dims=0) if kind == "with negatives" else None
    return Paired(Phi1, Phi2, negatives, Moments.of_pairs(Phi1, Phi2, negatives))
