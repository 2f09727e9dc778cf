"""Drawing indices with given probabilities, one by one, in blocks, and without replacement.

Proposals by blocks: while the weights w_i of a sequential rule can only fall as indices are chosen, a block
of proposals drawn from the weights at its start, each accepted with probability

    w_i now / w_i at the start of the block

is a draw from the sequential rule itself: given everything before, the next accepted index is i with
probability proportional to (w_i at the start) * (w_i now / w_i at the start) = w_i now. So N weights need an
update once per block, with one matrix product, and not once per index. This is the idea of accelerated
randomly pivoted Cholesky [epperly]; D^2 sampling has falling weights too.
"""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST_BLOCK = 256


def permutation(n: int, generator: torch.Generator) -> Tensor:
    """A random order of 0, ..., n-1, on the CPU."""
    return torch.randperm(n, generator=generator, device=generator.device).cpu()


def draw_uniforms(n: int, generator: torch.Generator) -> Tensor:
    """n numbers in [0, 1), float64, on the CPU."""
    return torch.rand(n, dtype=torch.float64, generator=generator, device=generator.device).cpu()


def draw(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """n independent indices with probabilities proportional to non-negative weights, not all zero.

    >>> draw(torch.tensor([0.0, 3.0, 0.0]), 2, torch.Generator().manual_seed(0)).tolist()
    [1, 1]
    """
    cumulative = weights.detach().to("cpu", torch.float64).cumsum(0)
    u = draw_uniforms(n, generator)
    # An index is hit by u in [cumulative before it, cumulative at it): never one of weight zero, except
    # that u * total may round up to the total itself.
    indices = torch.searchsorted(cumulative, u * cumulative[-1], right=True)
    last_positive = torch.searchsorted(cumulative, cumulative[-1])
    return indices.clamp_(max=int(last_positive))


def draw_distinct(weights: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """n distinct indices, drawn one after the other with probabilities proportional to the weights left.

    When fewer than n weights are positive, the others are filled in uniformly.

    >>> sorted(draw_distinct(torch.tensor([0.0, 3.0, 1.0]), 2, torch.Generator().manual_seed(0)).tolist())
    [1, 2]
    """
    weights = weights.detach().to("cpu", torch.float64)
    shuffled = permutation(len(weights), generator)
    u = draw_uniforms(len(weights), generator)
    positive, rest = (weights > 0).nonzero()[:, 0], shuffled[~(weights[shuffled] > 0)]
    # A race: index i arrives after an exponential time of rate w_i, and the first arrival is i with
    # probability w_i / sum of w; so is the next among those left, because exponential times have no memory.
    arrival = -torch.log1p(-u[positive]) / weights[positive]
    return torch.cat([positive[torch.argsort(arrival)], rest])[:n]


def first_block(block_size: int | None, n_landmarks: int, n_candidates: int) -> int:
    """How many proposals to make first: `block_size`, or a rule that keeps a block cheap next to its update."""
    if block_size is not None:
        return block_size
    return max(1, min(LARGEST_BLOCK // 2, n_landmarks, n_candidates // 8))


def next_block(block_size: int | None, n_accepted: int, n_candidates: int) -> int:
    """How many proposals to make after a block of which `n_accepted` were accepted.

    Twice that number, because then about half of them pass when the weights fall at the same pace.
    """
    if block_size is not None:
        return block_size
    return max(1, min(LARGEST_BLOCK, 2 * n_accepted, n_candidates // 8))
