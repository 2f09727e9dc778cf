"""The moment pass: from blocks of rows to the moments of their features.

    rows -> views -> K_bm -> Phi = K_bm F -> sums of w phi phi^T

Each block is projected before it enters the sums: summing kernel values and projecting afterwards would
save a product and lose the small directions in float32. Four kinds of pass:

    rows      one view per sample                         S
    views     V exchangeable views per sample             S, S_+            V + 1 Gram products
    exact     the expected feature psi and V - 1 views    S_+ = mean psi psi^T,
                                                          S = S_+ + mean (phi - psi)(phi - psi)^T
    pairs     anchors, positives, maybe negatives         S_11, S_22, S_12, S_1n

With exact views S - S_+ is positive semi-definite by construction, however few views were sampled. A row of weight w
counts w times: its features enter Gram sums times sqrt(w).
Memory O(r^2) for the sums and O(b (m + V r)) for a block.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.rows import Rows, dense
from krepes.features.space import FeatureSpace
from krepes.moments.moments import OUTER_BYTES, Moments, OuterSum


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Running sums; which of them are used depends on the kind of pass."""

    n: float
    trace: float  # of k(x, x)
    sum_1: Tensor
    sum_2: Tensor
    outer_1: OuterSum
    outer_2: OuterSum
    cross: Tensor | None = None  # of anchors and positives, (r, r), float64
    negative: Tensor | None = None  # of anchors and negatives

    def counted(self, n: float, trace: float, total: Tensor) -> MomentSums:
        return replace(self, n=self.n + n, trace=self.trace + trace, sum_1=self.sum_1 + total)


class MomentPass(Accumulator[MomentSums, Moments]):
    """Accumulates the moments of the features of a space.

    Parameters
    ----------
    space : FeatureSpace
        Its views decide the kind of pass; blocks with positives are pairs.
    """

    def __init__(self, space: FeatureSpace):
        self.space, self.features, self.views = space, space.features, space.views
        super().__init__()

    def zero(self) -> MomentSums:
        r, device = self.features.rank, self.space.device
        nothing = torch.zeros(r, dtype=torch.float64, device=device)
        return MomentSums(0, 0.0, nothing, nothing, OuterSum.zero(r, device), OuterSum.zero(r, device))

    def plus(self, sums: MomentSums, block: Block) -> MomentSums:
        weights = _Weights.of(block, self.space.device)
        if len(block.inputs) > 1:
            return self._pairs(sums, block.inputs, weights)
        if self.views.n_views == 1:
            return self._rows(sums, block.inputs[0], weights)
        if self.space.exact_views:
            return self._exact(sums, block, weights)
        return self._views(sums, self.views(block.inputs[0], block.rows, self.space.seed), weights)

    def _rows(self, sums: MomentSums, X: Rows, weights: _Weights) -> MomentSums:
        Phi = self.features(X)
        counted = sums.counted(weights.n, self._trace(X, weights), weights.sum(Phi))
        return replace(counted, outer_1=sums.outer_1.plus(weights.rooted(Phi)))

    def _views(self, sums: MomentSums, views: tuple[Rows, ...], weights: _Weights) -> MomentSums:
        Phis = [weights.rooted(self.features(view)) for view in views]
        trace = sum(self._trace(view, weights) for view in views) / len(views)
        outer_1 = sums.outer_1.plus(*Phis)
        total = Phis[0]
        for Phi in Phis[1:]:
            total.add_(Phi)  # Phis[0] is not needed any more
        counted = sums.counted(weights.n, trace, weights.sum_of_rooted(total) / len(views))
        return replace(counted, outer_1=outer_1, outer_2=sums.outer_2.plus(total))

    def _exact(self, sums: MomentSums, block: Block, weights: _Weights) -> MomentSums:
        X, space = dense(block.inputs[0]), self.space
        Psi = self.features.project(space.expected(X))
        views = [
            self.views.drawn(X, block.rows, space.seed, index) for index in range(self.views.n_views - 1)
        ]
        differences = [weights.rooted(self.features(view).sub_(Psi)) for view in views]
        trace = sum(self._trace(view, weights) for view in views) / len(views)
        counted = sums.counted(weights.n, trace, weights.sum(Psi))
        outer_1, outer_2 = sums.outer_1.plus(*differences), sums.outer_2.plus(weights.rooted(Psi))
        return replace(counted, outer_1=outer_1, outer_2=outer_2)

    def _pairs(self, sums: MomentSums, inputs: tuple[Rows, ...], weights: _Weights) -> MomentSums:
        X, positives, *negatives = inputs
        Phi1, Phi2 = self.features(X), self.features(positives)
        trace = (self._trace(X, weights) + self._trace(positives, weights)) / 2
        counted = sums.counted(weights.n, trace, weights.sum(Phi1))
        sum_2 = sums.sum_2 + weights.sum(Phi2)
        Phi1, Phi2 = weights.rooted(Phi1), weights.rooted(Phi2)
        negative = sums.negative
        if negatives:
            negative = _plus_product(negative, Phi1, weights.rooted(self.features(negatives[0])))
        return replace(
            counted,
            sum_2=sum_2,
            outer_1=sums.outer_1.plus(Phi1),
            outer_2=sums.outer_2.plus(Phi2),
            cross=_plus_product(sums.cross, Phi1, Phi2),
            negative=negative,
        )

    def _trace(self, X: Rows, weights: _Weights) -> float:
        return weights.sum(self.features.kernel.diag(X)).item()

    def settled(self, sums: MomentSums) -> MomentSums:
        return replace(sums, outer_1=sums.outer_1.flushed(), outer_2=sums.outer_2.flushed())

    def joined(self, first: MomentSums, second: MomentSums) -> MomentSums:
        if first.n == 0 or second.n == 0:
            return first if second.n == 0 else second
        if (first.cross is None) != (second.cross is None) or (first.negative is None) != (
            second.negative is None
        ):
            raise ValueError("Sums of pairs (or triplets) and of single rows cannot be merged.")
        pairs = {each.name: (getattr(first, each.name), getattr(second, each.name)) for each in fields(first)}
        sums: dict[str, Any] = {name: None if a is None else a + b for name, (a, b) in pairs.items()}
        return MomentSums(**sums)

    def value(self, sums: MomentSums) -> Moments:
        outer, V, n, trace = sums.outer_1.result(), self.views.n_views, sums.n, sums.trace
        if sums.cross is not None:
            outer_2 = sums.outer_2.result()
            return Moments(n, sums.sum_1, sums.sum_2, outer, outer_2, sums.cross, sums.negative, trace)
        if V == 1:
            return Moments(n, sums.sum_1, sums.sum_1, outer, outer, trace=trace)
        other = sums.outer_2.result()
        if self.space.exact_views:
            S = other + outer / (V - 1)
            return Moments(n, sums.sum_1, sums.sum_1, S, S, other, trace=trace)
        S = outer / V
        return Moments(n, sums.sum_1, sums.sum_1, S, S, (other - outer) / (V * (V - 1)), trace=trace)

    @property
    def sizes(self) -> dict[str, int]:
        return {"r": self.space.rank}

    @property
    def device(self) -> torch.device:
        return self.space.device

    @property
    def bytes_per_row(self) -> int:
        return self.space.bytes_per_row

    @property
    def bytes_of_sums(self) -> int:
        return 2 * OUTER_BYTES * self.space.rank**2

    def fingerprint(self) -> dict[str, str]:
        return self.space.fingerprint() | self.space.seed_fingerprint()


@dataclass(frozen=True, eq=False)
class _Weights:
    """How often every row of a block counts; None is once."""

    n: float
    weight: Tensor | None = None  # (b,), float64

    @classmethod
    def of(cls, block: Block, device: torch.device) -> _Weights:
        if block.weight is None:
            return cls(len(block))
        weight = torch.from_numpy(block.weight).to(device, torch.float64)
        return cls(weight.sum().item(), weight)

    def rooted(self, Phi: Tensor) -> Tensor:
        """sqrt(w) phi: what Gram products of weighted rows are made of. Overwrites Phi."""
        return Phi if self.weight is None else Phi.mul_(self.weight.sqrt().to(Phi.dtype)[:, None])

    def sum(self, values: Tensor) -> Tensor:
        """The weighted sum over rows, float64."""
        if self.weight is None:
            return values.sum(0, dtype=torch.float64)
        return self.weight @ values.double()

    def sum_of_rooted(self, values: Tensor) -> Tensor:
        """The weighted sum over rows of what was already multiplied by sqrt(w)."""
        return self.sum(values) if self.weight is None else self.weight.sqrt() @ values.double()


def _plus_product(total: Tensor | None, X: Tensor, Y: Tensor) -> Tensor:
    """A float64 total plus X^T Y, which is a product in the dtype of X and Y."""
    product = X.mT @ Y
    return product.double() if total is None else total + product
