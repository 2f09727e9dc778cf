"""Landmarks by approximate ridge leverage scores, as the paper has them.

    l_j(lam) = (K (K + lam n I)^-1)_jj = M_jj                                    [krepes, 3.3; rudi]
    (K + lam n I) Z = Pi   by conjugate gradients,   Pi (n, s) random probes,   M Pi = K Z
    l = row sums of Pi * (M Pi) / s                                              Hutchinson's estimator
    P(x_j) = l_j / sum_k l_k                                                     q-approximate sampling

The estimator is unbiased and crude: an M_jj is a number in [0, 1] of order (effective dimension) / n, its
standard error is about sqrt(M_jj / s), and with s = 20 many estimates are negative: 1 % of them for even
data in 28 dimensions, a third and more where most points lie in one cluster. Those are clipped to zero.

Cost: every one of t iterations multiplies the n x n kernel matrix by s columns, O(n^2 s t) and, where the
matrix does not fit into 512 MiB and is computed again block by block, O(n^2 (d + s) t). This does not scale;
`max_candidates` is therefore 5000 by rule, against 20 000 for the other selectors. It is here for fidelity
to the paper: randomly pivoted Cholesky is cheaper, needs no lam and is just as good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from krepes.base.blocks import row_blocks, rows_within
from krepes.base.linalg import conjugate_gradients
from krepes.base.reporting import warn
from krepes.base.validation import check_choice, check_count, check_number
from krepes.kernels import Kernel
from krepes.landmarks.landmark_selector import LandmarkSelector, draw_distinct, require_finite

STORED_BYTES = 512 * 2**20  # a kernel matrix up to this size is kept
BLOCK_BYTES = 64 * 2**20


@dataclass(eq=False, repr=False)
class Leverage(LandmarkSelector):
    """Ridge leverage scores by Hutchinson probes and conjugate gradients.

    Parameters
    ----------
    regularization : float, default=1e-3
        lam > 0, relative to kernels with k(x, x) near 1. Scores measure a point's weight among directions of
        K / n with eigenvalues above lam; smaller values need more iterations.
    n_probes : int, default=20
        s, the columns of Pi.
    probes : "rademacher" or "normal", default="rademacher"
        Entries of Pi: random signs, which have the smaller variance, or standard normal numbers.
    tolerance : float, default=1e-4
        Relative residual at which conjugate gradients stop.
    max_iter : int, default=200
        Iterations after which they stop with a warning.
    max_candidates : int, default=None
        As in `LandmarkSelector`, but None means twice `n_landmarks` and at least 5000.
    views_per_landmark
        As in `LandmarkSelector`.

    Notes
    -----
    Landmarks are drawn without replacement. When fewer scores are positive than landmarks are wanted, the
    others are filled in uniformly, because a clipped score is noise and not evidence against a point.

    Examples
    --------
    A point at 0 has no leverage under the linear kernel, and the others share theirs:

    >>> from krepes.kernels import Linear
    >>> X = torch.tensor([[1.0], [0.0], [-1.0]], dtype=torch.float64)
    >>> scores = Leverage(1.0, n_probes=1000).scores(X, Linear(), torch.Generator().manual_seed(0))
    >>> scores.round(decimals=1).tolist()      # exactly 1/5, 0, 1/5
    [0.2, 0.0, 0.2]
    """

    name = "leverage"
    known_elsewhere_as = ("rls", "ridge_leverage")
    fewest_candidates = 5_000
    candidates_per_landmark = 2

    regularization: float = 1e-3
    n_probes: int = 20
    probes: str = "rademacher"
    tolerance: float = 1e-4
    max_iter: int = 200
    max_candidates: int | None = None
    views_per_landmark: int = 1

    def choose(self, candidates: Any, kernel: Kernel, n_landmarks: int, generator: torch.Generator) -> Tensor:
        scores = self.scores(candidates, kernel, generator)
        return draw_distinct(scores.clamp(min=0), n_landmarks, generator)

    def values_to_choose(self, n_candidates: int, n_landmarks: int) -> int:
        return n_candidates**2

    def scores(self, candidates: Any, kernel: Kernel, generator: torch.Generator) -> Tensor:
        """Unbiased estimates of the ridge leverage scores, shape (N,), float64; some may be negative."""
        self._check()
        N = len(candidates)
        K = kernel_product(candidates, kernel)
        Pi = self._draw_probes(N, generator)
        ridge = self.regularization * N
        Z, converged = conjugate_gradients(
            lambda P: K(P) + ridge * P, Pi, tolerance=self.tolerance, max_iter=self.max_iter
        )
        if not bool(converged.all()):
            warn(
                f"Leverage scores: {int((~converged).sum())} of {self.n_probes} probes are not within "
                f"{self.tolerance:g} after {self.max_iter} iterations. Raise max_iter or regularization.",
                ConvergenceWarning,
            )
        return (Pi * K(Z)).mean(dim=1)

    def _draw_probes(self, N: int, generator: torch.Generator) -> Tensor:
        shape, where = (N, int(self.n_probes)), generator.device
        if self.probes == "normal":
            return torch.randn(shape, dtype=torch.float64, generator=generator, device=where)
        return torch.randint(0, 2, shape, generator=generator, device=where).double().mul_(2).sub_(1)

    def _check(self) -> None:
        for parameter in ("regularization", "tolerance"):
            check_number(parameter, getattr(self, parameter), above=0)
        for parameter in ("n_probes", "max_iter"):
            check_count(parameter, getattr(self, parameter))
        check_choice("probes", self.probes, ("rademacher", "normal"))


def kernel_product(candidates: Any, kernel: Kernel) -> Callable[[Tensor], Tensor]:
    """P -> K P, (N, s) -> (N, s), with K stored where it is small and computed block by block elsewhere."""
    N = len(candidates)
    block = kernel.against(candidates)
    first = require_finite(block(candidates[:1]), kernel)
    size = rows_within(BLOCK_BYTES, first.element_size() * N)
    blocks = list(row_blocks(N, size))
    stored = (
        [require_finite(block(candidates[rows]), kernel) for rows in blocks]
        if first.element_size() * N**2 <= STORED_BYTES
        else None
    )

    def product(P: Tensor) -> Tensor:
        narrow = P.to(first)
        parts = stored or (require_finite(block(candidates[rows]), kernel) for rows in blocks)
        return torch.cat([K @ narrow for K in parts]).to(P)

    return product
