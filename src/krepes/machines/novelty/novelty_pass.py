"""The pass of a novelty detector: sums over the rows that are learned, and the rows that calibrate.

The sums are normal equations without targets, of features phi(x) = F^T k_x / sqrt(k(x, x)) with |phi| <= 1. A row is
learned or calibrates by its global index (`calibrates`), so that no score has seen the rows that it is compared with.
Calibration rows are kept as they are, because all of them get other scores when rows are added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from krepes.base.blocks import Block
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeepRows, KeptRows
from krepes.machines.normal_equations import NormalEquations
from krepes.machines.novelty.calibration import calibrates
from krepes.machines.sums_and_rows import SumsAndRows, SumsAndRowsPass
from krepes.regression.normal_sums import NormalSums


@dataclass(frozen=True, eq=False)
class NoveltyTotal(SumsAndRows[NormalSums]):
    """Sums over learned rows, and calibration rows."""

    equations: NormalSums
    kept: KeptRows | None

    @property
    def n(self) -> float:
        return self.equations.n + (0 if self.kept is None else self.kept.seen)


class NoveltyPass(SumsAndRowsPass[NoveltyTotal]):
    """Sums the features of rows that are learned, and keeps a sample of those that calibrate.

    Parameters
    ----------
    space : FeatureSpace
    share : float
        Of rows that calibrate.
    n_kept : int
    """

    total = NoveltyTotal

    def __init__(self, space: FeatureSpace, share: float, n_kept: int):
        self.share = share
        super().__init__(
            space, NormalEquations(space, None), 0, KeepRows(n_kept, space.seed), [share, n_kept]
        )

    def divided(self, block: Block) -> tuple[Block, Block]:
        held = calibrates(block.rows, self.share)
        if block.weight is not None:
            held = held & (block.weight > 0)
        learned = block.take(np.flatnonzero(~held)) if held.any() else block
        return learned, replace(block.take(np.flatnonzero(held)), y=np.ones(int(held.sum())))

    def check_total(self, total: NoveltyTotal) -> None:
        if total.kept is not None and not calibrates(total.kept.rows, self.share).all():
            raise ValueError("The file is damaged: its kept rows are not calibration rows of this model.")
