"""What is solved from the sums of a novelty detector: the score, and the scores of the calibration rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from krepes.base.blocks import rows_within
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeptRows, placed_blocks
from krepes.machines.normal_equations import unit_features
from krepes.machines.novelty.calibration import TIES, Calibration
from krepes.machines.novelty.novelty_pass import NoveltyTotal
from krepes.machines.novelty.scores import NoveltyScore

BLOCK_BYTES = 64 * 2**20


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
