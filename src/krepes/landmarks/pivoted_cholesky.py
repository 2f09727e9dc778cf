"""Landmarks by randomly pivoted Cholesky, in accelerated block form: the default.

    P(x_j) = r_j / sum_k r_k,   r_j = k(x_j, x_j) - |g_j|^2,   K ~ G G^T the partial Cholesky factor

Each pivot is drawn from what the landmarks before it leave unexplained, the residual of the Nyström
approximation, so small clusters are found and outliers are not chased; no parameter has to be set and any
kernel will do. Near-optimal in trace norm [chen]. The block form [epperly] proposes b pivots from the current
residual, keeps a subset by rejection on their b x b residual matrix and updates G once per block, with
matrix products. The pivots have the distribution of the one-by-one algorithm (`landmark_selector` says why).

Cost: N m kernel values and O(N m^2) operations; memory N m numbers for G, in the kernel's dtype, and a few
blocks of N x 256: 160 MB and 70 MB at N = 20 000, m = 2000 in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import RELATIVE_CUT
from krepes.kernels import Kernel
from krepes.landmarks.landmark_selector import (
    LARGEST_BLOCK,
    LandmarkSelector,
    draw,
    draw_uniforms,
    n_proposals,
    require_finite,
    take,
)

COPIES = 100.0  # cuts, up to which a residual may be the rounding of a row that equals a pivot


@dataclass(eq=False, repr=False)
class PivotedCholesky(LandmarkSelector):
    """Randomly pivoted Cholesky: landmarks drawn from the residual of those before them.

    Parameters
    ----------
    block_size : int, default=None
        Proposals per block; None adapts it. It changes the draws, not their distribution.
    max_candidates, views_per_landmark
        As in `LandmarkSelector`.

    Notes
    -----
    Residuals below the relative cut of `linalg` (1e-6 of the largest k(x, x) in float32, 1e-12 in float64)
    count as zero, and when all are zero fewer than `n_landmarks` are returned. Nothing is lost: the smallest
    eigenvalue of K_mm is at most the last pivot's residual, and a NystromMap drops it by the same cut. Exact
    duplicates of a landmark are therefore never chosen, and constant data have one landmark. Where a kernel
    is not positive semi-definite, residuals that become negative count as zero.

    Examples
    --------
    Points on a line have a linear kernel of rank 1, which any one of them spans:

    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    >>> len(PivotedCholesky().select(X, Linear(), 3, torch.Generator().manual_seed(0)))
    1
    """

    name = "pivoted_cholesky"
    known_elsewhere_as = ("cholesky", "rpcholesky")

    block_size: int | None = None
    max_candidates: int | None = None
    views_per_landmark: int = 1

    def choose(self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator) -> Tensor:
        N = len(candidates)
        factor = PartialCholesky(candidates, kernel, n_landmarks)
        size = n_proposals(self.block_size, min(LARGEST_BLOCK // 2, n_landmarks), N)
        while len(factor.pivots) < n_landmarks and bool((factor.residual > 0).any()):
            proposed = draw(factor.residual, size, generator)
            H = factor.residual_block(proposed)
            u = draw_uniforms(size, generator)
            n_missing = n_landmarks - len(factor.pivots)
            accepted, L = rejection_cholesky(H.numpy(), u.numpy(), n_missing, factor.cut)
            # A proposal without a residual of its own was drawn because of rounding; this ends the loop.
            factor.residual[proposed[H.diagonal() <= factor.cut]] = 0
            if len(accepted):
                factor.extend(proposed[accepted], torch.from_numpy(L))
            size = n_proposals(self.block_size, 2 * max(1, len(accepted)), N)
        # Without any residual (all k(x, x) <= 0) one candidate is as good as another.
        return factor.pivots if len(factor.pivots) else draw(torch.ones(N), 1, generator)


def rejection_cholesky(
    H: np.ndarray,  # (b, b), residual matrix of the proposals
    u: np.ndarray,  # (b,), uniform in [0, 1)
    n_most: int,
    cut: float,
) -> tuple[np.ndarray, np.ndarray]:  # positions (a,) and the Cholesky factor (a, a) of H there
    """Accept proposal i with probability (residual now) / (residual at the start), and eliminate it.  [epperly]"""
    start, now = H.diagonal(), H.diagonal().copy()
    L = np.zeros((len(H), min(len(H), n_most)))
    accepted: list[int] = []
    for i in range(len(H)):
        if now[i] > cut and u[i] * start[i] < now[i]:
            done = len(accepted)
            column = (H[:, i] - L[:, :done] @ L[i, :done]) / np.sqrt(now[i])
            L[:, done] = column
            now -= column**2
            accepted.append(i)
            if len(accepted) == n_most:
                break
    positions = np.array(accepted, dtype=np.int64)
    return positions, np.tril(L[positions, : len(positions)])


class PartialCholesky:
    """G with K ~ G G^T on the pivots so far, and the residual diagonal, (N,), float64, on the CPU."""

    def __init__(self, candidates: Any, kernel: Kernel, n_most: int):
        diagonal = require_finite(kernel.diag(candidates), kernel)
        self.candidates, self.kernel, self.n_most = candidates, kernel, n_most
        self.dtype = diagonal.dtype if diagonal.dtype == torch.float64 else torch.float32
        self.G = torch.empty(len(diagonal), n_most, dtype=self.dtype, device=diagonal.device)
        self.pivots = torch.empty(0, dtype=torch.int64)
        self.residual = diagonal.detach().double().cpu().clone()
        self.cut = RELATIVE_CUT[diagonal.dtype] * max(0.0, self.residual.max().item())
        self.residual[self.residual <= self.cut] = 0

    def residual_block(self, indices: Tensor) -> Tensor:
        """K - G G^T among some candidates, shape (b, b), float64, on the CPU."""
        some = take(self.candidates, indices)
        G = self.G[indices.to(self.G.device), : len(self.pivots)]
        return (require_finite(self.kernel(some), self.kernel).double() - (G @ G.mT).double()).cpu()

    # pivots: (a,), L: (a, a)
    def extend(self, pivots: Tensor, L: Tensor) -> None:
        """Add pivots whose residual matrix is L L^T."""
        done, rows = len(self.pivots), pivots.to(self.G.device)
        self.pivots = torch.cat([self.pivots, pivots])
        if len(self.pivots) == self.n_most:
            return  # because nobody asks for the residual any more
        G = self.G[:, :done]
        values = require_finite(
            self.kernel(self.candidates, take(self.candidates, pivots)).to(self.dtype), self.kernel
        )
        columns = torch.addmm(values, G, G[rows].mT, alpha=-1)
        columns = torch.linalg.solve_triangular(L.to(columns).mT, columns, upper=True, left=False)
        self.G[:, done : len(self.pivots)] = columns
        self.residual -= columns.square().sum(dim=1).double().cpu()
        # Rows at which an indefinite kernel overflows are NaN here; they are done, like negative ones.
        self.residual[~(self.residual > self.cut)] = 0
        self.residual[pivots] = 0
        self.residual[self._copies(pivots, values)] = 0

    # values: (N, a)
    def _copies(self, pivots: Tensor, values: Tensor) -> Tensor:
        """Candidates equal to a pivot. In single precision their kernel values may differ by more than the cut."""
        close = ((self.residual > 0) & (self.residual <= COPIES * self.cut)).nonzero()[:, 0]
        if not isinstance(self.candidates, Tensor) or not len(close):
            return close[:0]
        own = values[pivots, torch.arange(len(pivots))]
        alike = (values[close] - own).abs() <= COPIES * self.cut
        i, j = (part.cpu() for part in alike.nonzero().unbind(1))
        some, chosen = self.candidates[close[i]], self.candidates[pivots[j]]
        return close[i[(some == chosen).flatten(1).all(1).cpu()]]
