"""One pass over rows and targets that sums the normal equations of ridge regression.

The sums are `NormalSums`. Memory O(r^2 + r c) for r features and c outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.rows import Rows
from krepes.base.storage.codec import State, decode, encode
from krepes.features.space import FeatureSpace
from krepes.machines.targets import Targets
from krepes.moments.moments import OUTER_BYTES, OuterSum
from krepes.regression.ridge_algebra import NormalSums


def unit_features(space: FeatureSpace, X: Rows) -> Tensor:
    """Features of k(x, y) / sqrt(k(x, x) k(y, y)), (b, r), with |phi| <= 1; zero where k(x, x) is."""
    Phi = space.features(X)
    diagonal = space.kernel.diag(X).to(Phi.dtype)
    scale = torch.where(diagonal > 0, diagonal.rsqrt(), torch.zeros_like(diagonal))
    return Phi.mul_(scale[:, None])


@dataclass(frozen=True, eq=False)
class RunningSums:
    """`NormalSums` while they grow: the outer product waits in the precision of the features."""

    rest: NormalSums  # all but the outer product, which is empty there
    outer: OuterSum


class NormalEquations(Accumulator[RunningSums, NormalSums]):
    """Sums the normal equations of the features of a space and the targets of the rows.

    Without targets there are no outputs, and features belong to the normalised kernel.
    """

    def __init__(self, space: FeatureSpace, targets: Targets | None):
        self.space, self.targets = space, targets
        self.n_outputs = 0 if targets is None else targets.n_outputs
        super().__init__()

    def zero(self) -> RunningSums:
        r, c, device = self.space.rank, self.n_outputs, self.space.device

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64, device=device)

        rest = NormalSums(0.0, 0.0, zeros(r), zeros(c), zeros(0, 0), zeros(r, c), zeros(c))
        return RunningSums(rest, OuterSum.zero(r, device))

    def plus(self, sums: RunningSums, block: Block) -> RunningSums:
        X, space = block.inputs[0], self.space
        if self.targets is None:
            Phi, Y = unit_features(space, X), torch.zeros(len(block), 0, dtype=torch.float64)
        else:
            Phi, Y = space.features(X), self.targets.matrix(block.y)
        Y, diagonal = Y.to(space.device), space.kernel.diag(X).double()
        w = None if block.weight is None else torch.from_numpy(block.weight).to(space.device)
        weighted = Y if w is None else w[:, None] * Y
        rest = NormalSums(
            float(len(block)) if w is None else w.sum().item(),
            (diagonal.sum() if w is None else w @ diagonal).item(),
            Phi.sum(0, dtype=torch.float64) if w is None else w @ Phi.double(),
            weighted.sum(0),
            sums.rest.outer,
            (Phi.mT @ weighted.to(Phi.dtype)).double(),
            (weighted * Y).sum(0),
        )
        rooted = Phi if w is None else Phi.mul_(w.sqrt().to(Phi.dtype)[:, None])
        return RunningSums(sums.rest + rest, sums.outer.plus(rooted))

    def settled(self, sums: RunningSums) -> RunningSums:
        return replace(sums, outer=sums.outer.flushed())

    def joined(self, first: RunningSums, second: RunningSums) -> RunningSums:
        return RunningSums(first.rest + second.rest, first.outer + second.outer)

    def value(self, sums: RunningSums) -> NormalSums:
        return replace(sums.rest, outer=sums.outer.result())

    def sums_state(self, sums: RunningSums) -> State:
        return encode(self.value(sums))

    def sums_from(self, state: State) -> RunningSums:
        whole = decode(NormalSums, state, self.device, **self.sizes)
        return RunningSums(replace(whole, outer=whole.outer.new_zeros(0, 0)), OuterSum(whole.outer))

    @property
    def sizes(self) -> dict[str, int]:
        return {"r": self.space.rank, "c": self.n_outputs}

    @property
    def device(self) -> torch.device:
        return self.space.device

    @property
    def bytes_per_row(self) -> int:
        return self.space.bytes_per_row + 16 * self.n_outputs

    @property
    def bytes_of_sums(self) -> int:
        return OUTER_BYTES * self.space.rank**2 + 8 * self.space.rank * self.n_outputs

    def fingerprint(self) -> dict[str, str]:
        targets = {} if self.targets is None else self.targets.fingerprint()
        return self.space.fingerprint() | self.space.seed_fingerprint() | targets
