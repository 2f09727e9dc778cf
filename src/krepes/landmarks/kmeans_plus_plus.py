"""Landmarks by k-means++ seeding: far from those already chosen.

    c_1 uniform;  then P(x_j) = D(x_j)^2 / sum_k D(x_k)^2                        [krepes, 3.3; arthur]
    D(x)^2 = min over chosen c of |x - c|^2

The distance is Euclidean in input space, as in the paper, or that of the kernel's feature space,
k(x, x) - 2 k(x, c) + k(c, c), which needs no vectors. The minima are kept from step to step: O(N m d) time.
Because they can only fall, steps are taken in blocks of proposals with rejection (`landmark_selector`), one matrix
product per block, with the distribution of the one-by-one rule. Memory: 8 N d bytes for a float64 copy of
the candidates in input space, none in kernel space, and blocks of 64 MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.linalg import RELATIVE_CUT
from krepes.base.rows import SparseRows
from krepes.base.validation import check_choice
from krepes.kernels import Kernel
from krepes.kernels.distances import products_with, square_norms
from krepes.kernels.vectors import as_rows
from krepes.landmarks.landmark_selector import (
    LARGEST_BLOCK,
    LandmarkSelector,
    draw,
    draw_uniforms,
    n_proposals,
    require_finite,
    take,
)

BLOCK_BYTES = 64 * 2**20
INPUT_CUT = 1e-13


@dataclass(eq=False, repr=False)
class KMeansPlusPlus(LandmarkSelector):
    """D^2 sampling: the next landmark is likely to be far from all landmarks before it.

    Parameters
    ----------
    space : "input" or "kernel", default="input"
        Where distances are measured. "kernel" serves lists of objects too.
    block_size : int, default=None
        Proposals per block; None adapts it. It changes the draws, not their distribution.
    max_candidates, views_per_landmark
        As in `LandmarkSelector`.

    Notes
    -----
    When every candidate coincides with a landmark, fewer than `n_landmarks` are returned.

    Examples
    --------
    Three copies of 0 and one 5: whatever comes first, both places are chosen.

    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[0.0], [0.0], [0.0], [5.0]])
    >>> chosen = KMeansPlusPlus().select(X, Linear(), 3, torch.Generator().manual_seed(0))
    >>> sorted(X[chosen, 0].tolist())
    [0.0, 5.0]
    """

    name = "kmeans_plus_plus"
    known_elsewhere_as = ("kmeans", "kmeans++", "k_means++")

    space: str = "input"
    block_size: int | None = None
    max_candidates: int | None = None
    views_per_landmark: int = 1

    def choose(self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator) -> Tensor:
        space, N = self._space(candidates, kernel), len(candidates)
        chosen = draw(torch.ones(N), 1, generator)
        nearest = space.nearest(chosen)
        size = n_proposals(self.block_size, min(LARGEST_BLOCK // 2, n_landmarks), N)
        while len(chosen) < n_landmarks and bool((nearest > 0).any()):
            proposed = draw(nearest, size, generator)
            u = draw_uniforms(size, generator)
            accepted = proposed[_accepted(space.among(proposed), nearest[proposed], u)]
            accepted = accepted[: n_landmarks - len(chosen)]
            chosen = torch.cat([chosen, accepted])
            nearest = torch.minimum(nearest, space.nearest(accepted))
            size = n_proposals(self.block_size, 2 * len(accepted), N)
        return chosen

    def _space(self, candidates: Any, kernel: Kernel) -> Space:
        check_choice("space", self.space, ("input", "kernel"))
        if self.space == "kernel":
            norm_sq = require_finite(kernel.diag(candidates), kernel)

            def finite_products_with(Y: Any) -> Callable[[Any], Tensor]:
                block = kernel.against(Y)
                return lambda X: require_finite(block(X), kernel)

            return Space(candidates, norm_sq, RELATIVE_CUT[norm_sq.dtype] / 2, finite_products_with)
        # not shifted, which would fill them
        if isinstance(candidates, SparseRows):
            return Space(candidates.double(), square_norms(candidates), INPUT_CUT, products_with)
        if not isinstance(candidates, Tensor):
            raise TypeError(
                "KMeansPlusPlus(space='input') needs vectors; for a list of objects use space='kernel'."
            )
        X = as_rows(candidates).double()
        # so that an outlier's size does not drown the others
        X = X - X.median(dim=0).values
        norm_sq = square_norms(X)
        if not torch.isfinite(norm_sq).all():
            raise ValueError("The landmark candidates contain NaN or infinite values. Impute or drop them.")
        return Space(X, norm_sq, INPUT_CUT, products_with)


def _accepted(D: Tensor, start: Tensor, u: Tensor) -> list[int]:
    """Positions accepted by rejection sampling; D (b, b) are distances among proposals, start and u are (b,)."""
    among, current, bars = D.numpy(), start.numpy().copy(), (u * start).numpy()
    accepted: list[int] = []
    for i in range(len(among)):
        if bars[i] < current[i]:
            accepted.append(i)
            np.minimum(current, among[i], out=current)
    return accepted


@dataclass(frozen=True)
class Space:
    """Squared distances between candidates, |x|^2 + |c|^2 - 2 <x, c>, in float64; zero within rounding.

    Attributes
    ----------
    rows : the candidates
    norm_sq : Tensor of shape (N,)
    cut : float
        What rounding alone can produce, as a share of |x|^2 + |c|^2.
    products_with : callable
        Some candidates -> a function of others that gives <x, c>.
    """

    rows: Any
    norm_sq: Tensor
    cut: float
    products_with: Callable[[Any], Callable[[Any], Tensor]]

    def to(self, indices: Tensor) -> Callable[[Any], Tensor]:
        """A function of some candidates (slice or indices): squared distances to the indexed ones."""
        products, ends = self.products_with(take(self.rows, indices)), self.norm_sq[indices]

        def distances(which: slice | Tensor) -> Tensor:
            some = self.rows[which] if isinstance(which, slice) else take(self.rows, which)
            lengths = self.norm_sq[which, None] + ends
            D = products(some).mul_(-2).add_(lengths)
            return D.masked_fill_(self.cut * lengths >= D, 0)

        return distances

    def among(self, indices: Tensor) -> Tensor:
        """Squared distances between the indexed candidates, shape (b, b), on the CPU."""
        D = self.to(indices)(indices).double().cpu()
        return D.masked_fill(indices[:, None] == indices[None, :], 0)

    def nearest(self, indices: Tensor) -> Tensor:
        """Squared distance from every candidate to the nearest indexed one, shape (N,), on the CPU."""
        distances = self.to(indices)
        blocks = row_blocks(len(self.norm_sq), rows_within(BLOCK_BYTES, 16 * len(indices)))
        D = torch.cat([distances(rows).amin(dim=1).double().cpu() for rows in blocks])
        D[indices] = 0
        return D
