"""What a novelty detector sums, and what is solved from it: the score, and the scores of the calibration rows.

The sums are normal equations without targets, of features phi(x) = F^T k_x / sqrt(k(x, x)) with |phi| <= 1. A row is
learned or calibrates by its global index (`calibrates`), so that no score has seen the rows that it is compared with.
Calibration rows are kept as they are, because all of them get other scores when rows are added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from krepes.base.blocks import Block, rows_within
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeepRows, KeptRows, SumsAndRows, SumsAndRowsPass, placed_blocks
from krepes.machines.normal_equations import NormalEquations, unit_features
from krepes.machines.novelty.calibration import TIES, Calibration, calibrates
from krepes.machines.novelty.scores import NoveltyScore
from krepes.regression.ridge_algebra import NormalSums

BLOCK_BYTES = 64 * 2**20


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


@dataclass(frozen=True, eq=False)
class NoveltySolution:
    """A score, and what it gives to rows that it has not seen."""

    score: NoveltyScore
    calibration: Calibration

    @classmethod
    def of(
        cls, total: NoveltyTotal, space: FeatureSpace, score: type[NoveltyScore], penalty: float
    ) -> NoveltySolution:
        if not total.equations.n > 0:
            raise ValueError(
                "All rows that this model has seen so far calibrate it, and there are none to learn from: add more."
            )
        solved = score.solved(total.equations, penalty)
        held = np.empty(0) if total.kept is None else _scores_of(total.kept, space, solved)
        ties = TIES[space.dtype] * solved.rounding(torch.from_numpy(held)).numpy()
        return cls(solved, Calibration.of(held, ties))


def _scores_of(kept: KeptRows, space: FeatureSpace, score: NoveltyScore) -> np.ndarray:
    """Of the calibration rows, (k,)."""
    size = rows_within(BLOCK_BYTES, max(1, space.bytes_per_row))
    blocks = placed_blocks(kept.inputs, space.device, size)
    return torch.cat([score(unit_features(space, rows)) for _, rows in blocks]).cpu().numpy()
