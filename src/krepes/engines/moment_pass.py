"""The moment pass: from blocks of rows to the moments of their features.

    rows -> views -> K_bm -> Phi = K_bm F -> sums of Phi^T Phi

Each block is projected before it enters the sums: summing kernel values and projecting afterwards would
save a product and lose the small directions in float32. Three kinds of pass:

    rows      one view per sample                         S
    views     V exchangeable views per sample             S, S_+            V + 1 Gram products
    exact     the expected feature psi and V - 1 views    S_+ = mean psi psi^T,
                                                          S = S_+ + mean (phi - psi)(phi - psi)^T
    pairs     anchors, positives, maybe negatives         S_aa, S_bb, S_ab, S_an

With exact views S - S_+ is positive semi-definite by construction, however few views were sampled.
Memory O(r^2) for the sums and O(b (m + V r)) for a block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from krepes.linalg import GramSum
from krepes.moments import Moments
from krepes.nystrom import NystromMap
from krepes.views import Views


class CrossSum:
    """Sums X^T Y over blocks: products in the blocks' dtype, the total in float64."""

    def __init__(self, width: int, device: torch.device | str):
        self.total = torch.zeros(width, width, dtype=torch.float64, device=device)

    def add(self, X: Tensor, Y: Tensor) -> None:
        self.total += X.mT @ Y


class MomentPass:
    """Accumulates moments block by block.

    Parameters
    ----------
    features : NystromMap
    views : Views
        Fitted. One view per sample means moments of the rows.
    seed : int
        Of the views' random streams, which are keyed by global row index.
    exact : bool
        Integrate the augmentation instead of sampling pairs.
    """

    def __init__(self, features: NystromMap, views: Views, seed: int, exact: bool = False):
        self.features, self.views, self.seed = features, views, seed
        device, r = features.F.device, features.rank
        self.n = 0
        self.trace = 0.0
        self.sum_a = torch.zeros(r, dtype=torch.float64, device=device)
        self.sum_b = torch.zeros(r, dtype=torch.float64, device=device)
        self.gram_a, self.gram_b = GramSum(r, device), GramSum(r, device)
        self.cross: CrossSum | None = None
        self.negative: CrossSum | None = None
        self.expected = views.expected_against(features.kernel, features.landmarks) if exact else None

    def add(self, X: Any, rows: Tensor, positives: Any = None, negatives: Any = None) -> None:
        """Add a block of rows with their global indices. Nothing is added if an exception is raised."""
        if positives is not None:
            self._add_pairs(X, positives, negatives)
        elif self.views.n_views == 1:
            self._add_rows(X)
        elif self.expected is not None:
            self._add_exact(X, rows)
        else:
            self._add_views(self.views(X, rows, self.seed))

    def _add_rows(self, X: Any) -> None:
        Phi, trace = self.features(X), self._trace(X)
        self.gram_a.add(Phi)
        self._count(len(Phi), trace, Phi.sum(0, dtype=torch.float64))

    def _add_views(self, views: tuple[Any, ...]) -> None:
        Phis = [self.features(view) for view in views]
        trace = sum(self._trace(view) for view in views) / len(views)
        for Phi in Phis:
            self.gram_a.add(Phi)
        total = Phis[0]
        for Phi in Phis[1:]:
            total.add_(Phi)  # Phis[0] is not needed any more
        self.gram_b.add(total)
        self._count(len(total), trace, total.sum(0, dtype=torch.float64) / len(views))

    def _add_exact(self, X: Any, rows: Tensor) -> None:
        assert self.expected is not None
        Psi = self.features.project(self.expected(X))
        views = [self.views.view(X, rows, self.seed, index) for index in range(self.views.n_views - 1)]
        differences = [self.features(view).sub_(Psi) for view in views]
        trace = sum(self._trace(view) for view in views) / len(views)
        self.gram_b.add(Psi)
        for difference in differences:
            self.gram_a.add(difference)
        self._count(len(Psi), trace, Psi.sum(0, dtype=torch.float64))

    def _add_pairs(self, X: Any, positives: Any, negatives: Any) -> None:
        Phi1, Phi2 = self.features(X), self.features(positives)
        Phi_negative = None if negatives is None else self.features(negatives)
        trace = (self._trace(X) + self._trace(positives)) / 2
        width, device = self.features.rank, self.sum_a.device
        self.cross = self.cross or CrossSum(width, device)
        self.gram_a.add(Phi1)
        self.gram_b.add(Phi2)
        self.cross.add(Phi1, Phi2)
        if Phi_negative is not None:
            self.negative = self.negative or CrossSum(width, device)
            self.negative.add(Phi1, Phi_negative)
        self.sum_b += Phi2.sum(0, dtype=torch.float64)
        self._count(len(Phi1), trace, Phi1.sum(0, dtype=torch.float64))

    def _trace(self, X: Any) -> float:
        return self.features.kernel.diag(X).double().sum().item()

    def _count(self, n: int, trace: float, total: Tensor) -> None:
        self.n += n
        self.trace += trace
        self.sum_a += total

    def flush(self) -> None:
        """Move everything into the float64 sums."""
        self.gram_a.flush()
        self.gram_b.flush()

    def state(self) -> dict[str, Any]:
        """The sums, for a checkpoint."""
        self.flush()
        crosses = {"cross": self.cross, "negative": self.negative}
        return {
            "n": self.n,
            "trace": self.trace,
            "sum_a": self.sum_a,
            "sum_b": self.sum_b,
            "gram_a": self.gram_a.total,
            "gram_b": self.gram_b.total,
            **{name: cross.total for name, cross in crosses.items() if cross is not None},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the sums of a checkpoint."""
        device = self.sum_a.device
        self.n, self.trace = state["n"], state["trace"]
        self.sum_a, self.sum_b = state["sum_a"].to(device), state["sum_b"].to(device)
        self.gram_a.total, self.gram_b.total = state["gram_a"].to(device), state["gram_b"].to(device)
        for name in ("cross", "negative"):
            if name in state:
                cross = CrossSum(self.features.rank, device)
                cross.total = state[name].to(device)
                setattr(self, name, cross)

    def result(self) -> Moments:
        """The moments of everything added so far."""
        gram, V, n = self.gram_a.result(), self.views.n_views, self.n
        if self.cross is not None:
            negative = None if self.negative is None else self.negative.total
            return Moments(
                n, self.sum_a, self.sum_b, gram, self.gram_b.result(), self.cross.total, negative, self.trace
            )
        if V == 1:
            return Moments(n, self.sum_a, self.sum_a, gram, gram, trace=self.trace)
        other = self.gram_b.result()
        if self.expected is not None:
            S = other + gram / (V - 1)
            return Moments(n, self.sum_a, self.sum_a, S, S, other, trace=self.trace)
        S = gram / V
        return Moments(n, self.sum_a, self.sum_a, S, S, (other - gram) / (V * (V - 1)), trace=self.trace)
