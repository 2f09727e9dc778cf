"""What a novelty detector sums and is solved to, and its conformal p-values: how novel a row is among held-out rows.

    p(x) = (1 + #{calibration rows at least as novel as x}) / (n + 1),      alarm where p(x) <= rate      [vovk]

If x and the n calibration rows are exchangeable, P(p <= rate) <= rate, whatever the score and the data are. Without
ties it is exactly k / (n + 1), k = floor(rate (n + 1)): the attainable level. With k = 0, which is n < 19 for a rate of
5 %, no row can raise an alarm. Of m new rows, the number of alarms then is Beta-binomial(m, k, n + 1 - k).

Which rows calibrate follows from their global index alone, so that parts of the data, blocks and workers agree: of
every 20 rows one after the other, `share` of them, at places that are drawn at random.

A stream of rows in batches is monitored: each is scored before anything is learned from it.

    chance = P(at least this many alarms among the rows of a batch),      alarms ~ Beta-binomial(m, k, n + 1 - k)

for m rows that are as the n calibration rows. A single alarm is expected once in 1 / rate rows; a batch with a small
chance says that the stream has changed.

The sums are normal equations without targets, of features phi(x) = F^T k_x / sqrt(k(x, x)) with |phi| <= 1. A row is
learned or calibrates by its global index (`calibrates`), so that no score has seen the rows that it is compared with.
Calibration rows are kept as they are, because all of them get other scores when rows are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from scipy.stats import hypergeom
from torch import Tensor

from krepes.base.blocks import Block, rows_within
from krepes.base.random_streams import uniform
from krepes.base.storage.codec import Shape
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeepRows, KeptRows, SumsAndRows, SumsAndRowsPass, placed_blocks
from krepes.machines.normal_equations import NormalEquations, unit_features
from krepes.machines.novelty.scores import NoveltyScore
from krepes.regression.ridge_algebra import NormalSums

STRETCH = 20  # rows, of which the same number calibrates
_CALIBRATION = 31  # purpose of a random stream
# Of their size: scores that differ by less, rounding may have made differ.
TIES = {torch.float64: 1e-9, torch.float32: 1e-5}
BLOCK_BYTES = 64 * 2**20


def calibrates(rows: Tensor, share: float) -> np.ndarray:
    """Which rows are held out, by their global indices: (b,) -> (b,), bool.

    >>> held = calibrates(torch.arange(200), 0.3)
    >>> int(held.sum()), held.reshape(10, 20).sum(axis=1).tolist() == [6] * 10
    (60, True)
    """
    number = round(share * STRETCH)
    stretch, place = rows // STRETCH, rows % STRETCH
    draws = uniform(stretch, STRETCH, 0, _CALIBRATION)  # (b, 20)
    own = draws.gather(1, place[:, None])
    before = torch.arange(STRETCH)[None, :] < place[:, None]
    rank = ((draws < own) | ((draws == own) & before)).sum(1)
    return (rank < number).numpy()


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of the rows that were held out, lowest first; low scores are novel.

    >>> held = Calibration.of(np.arange(19.0), ties=0.0)
    >>> held.p_values(np.array([-5.0, 0.0, 20.0])).tolist()            # 1/20, 2/20, 20/20
    [0.05, 0.1, 1.0]
    >>> held.threshold(0.05, lowest=-9.0), held.threshold(0.04, lowest=-9.0) < -9
    (0.0, True)
    """

    scores: Annotated[np.ndarray, Shape("n")]

    def check_restored(self) -> None:
        if (np.diff(self.scores) < 0).any():
            raise ValueError("The file is damaged: the scores of its calibration rows are not in order.")

    @classmethod
    def of(cls, scores: np.ndarray, ties: np.ndarray | float) -> Calibration:
        """From scores in any order; those that a new row's may equal, to rounding, count as at least as novel."""
        return cls(np.sort(scores - ties))

    @property
    def n(self) -> int:
        return len(self.scores)

    def p_values(self, scores: np.ndarray) -> np.ndarray:
        return (1 + np.searchsorted(self.scores, scores, side="right")) / (self.n + 1)

    def rank(self, rate: float) -> int:
        """k = floor(rate (n + 1)); rounding must not lower it."""
        return math.floor(round(rate * (self.n + 1), 9))

    def attainable(self, rate: float) -> float:
        """The false-alarm rate that is attained: the largest multiple of 1 / (n + 1) up to `rate`."""
        return self.rank(rate) / (self.n + 1)

    def threshold(self, rate: float, lowest: float) -> float:
        """Scores below it have p <= rate; below the lowest possible score where no alarm is possible."""
        k = self.rank(rate)
        return float(self.scores[k - 1]) if k else float(np.nextafter(lowest, -np.inf))

    def chance(self, n_alarms: int, n_rows: int, rate: float) -> float:
        """P(at least `n_alarms` alarms among `n_rows` exchangeable rows).

        The tail of the Beta-binomial, as that of a hypergeometric law, which has its small numbers right: a alarms or
        more are a new rows or more among the a + k - 1 most novel of all.

        >>> held = Calibration(np.zeros(19))
        >>> round(held.chance(1, 1, 0.05), 9), held.chance(0, 5, 0.05)
        (0.05, 1.0)
        """
        k = self.rank(rate)
        if k == 0 or n_alarms == 0:
            return 1.0
        return min(1.0, float(hypergeom.sf(n_alarms - 1, self.n + n_rows, n_rows, n_alarms + k - 1)))

    @staticmethod
    def needed(rate: float) -> int:
        """Calibration rows without which no alarm is possible.

        >>> Calibration.needed(0.05), Calibration.needed(0.1)
        (19, 9)
        """
        return math.ceil(round(1 / rate, 9)) - 1


@dataclass(frozen=True, eq=False)
class Reading:
    """What a detector says of one batch of a stream; print it.

    Attributes
    ----------
    first_row : int
        How many rows of the stream came before.
    scores, p_values : ndarrays of shape (b,)
    alarms : ndarray of shape (b,), bool
    chance : float
        The probability of at least this many alarms in a batch of rows as those that were learned.
    n_rows, n_alarms : int
        Of the stream so far, this batch included.
    """

    first_row: int
    scores: np.ndarray
    p_values: np.ndarray
    alarms: np.ndarray
    chance: float
    n_rows: int
    n_alarms: int

    @classmethod
    def of(cls, scores: np.ndarray, held: Calibration, rate: float, before: Reading | None) -> Reading:
        """Of the scores of a batch, by the calibration rows as they are now, and the reading before."""
        alarms = scores < held.threshold(rate, -np.inf)
        first, alarmed = (0, 0) if before is None else (before.n_rows, before.n_alarms)
        n_alarms = int(alarms.sum())
        chance = held.chance(n_alarms, len(scores), rate)
        counts = first + len(scores), alarmed + n_alarms
        return cls(first, scores, held.p_values(scores), alarms, chance, *counts)

    @property
    def alarm_rate(self) -> float:
        """The share of alarms in the stream so far."""
        return self.n_alarms / max(1, self.n_rows)

    def __str__(self) -> str:
        last = self.first_row + len(self.scores) - 1
        return (
            f"rows {self.first_row:,} to {last:,}: {int(self.alarms.sum()):,} alarms, which happen by chance with "
            f"probability {self.chance:.2g}; {100 * self.alarm_rate:.1f} % alarms so far"
        )


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
            space, NormalEquations(space, None), None, KeepRows(n_kept, space.seed), [share, n_kept]
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
