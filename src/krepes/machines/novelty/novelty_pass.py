"""The pass of a novelty detector: sums over the rows that are learned, and the rows that calibrate.

    NoveltyTotal = OneClassSums of the one + KeptRows of the others

A row is one or the other by its global index (`calibrates`), so that no score has seen the rows that it is compared
with. Calibration rows are kept as they are, because all of them get other scores when rows are added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.codec import State, decode
from krepes.base.packing import digest
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeepRows, KeptRows
from krepes.machines.novelty.calibration import calibrates
from krepes.machines.novelty.one_class_sums import OneClassSums, unit_features
from krepes.moments.outer_sum import OUTER_BYTES, OuterSum


@dataclass(frozen=True, eq=False)
class NoveltyTotal:
    """Sums, and calibration rows; None where there were none yet."""

    sums: OneClassSums
    kept: KeptRows | None

    @property
    def n(self) -> float:
        return self.sums.n + (0 if self.kept is None else self.kept.seen)

    def __add__(self, other: NoveltyTotal) -> NoveltyTotal:
        if self.kept is None or other.kept is None:
            kept = other.kept if self.kept is None else self.kept
        else:
            kept = self.kept + other.kept
        return NoveltyTotal(self.sums + other.sums, kept)

    def __sub__(self, other: NoveltyTotal) -> NoveltyTotal:
        kept = self.kept
        if kept is not None and other.kept is not None:
            kept = kept - other.kept
        return NoveltyTotal(self.sums - other.sums, kept if kept is not None and len(kept.rows) else None)

    def __mul__(self, factor: float) -> NoveltyTotal:
        return NoveltyTotal(self.sums * factor, None if self.kept is None else self.kept * factor)


Running = tuple[float, Tensor, OuterSum, KeptRows | None]  # sum of weights, sum phi, sum phi phi^T, kept rows


class NoveltyPass(Accumulator[Running, NoveltyTotal]):
    """Sums the features of rows that are learned, and keeps a sample of those that calibrate.

    Parameters
    ----------
    space : FeatureSpace
    share : float
        Of rows that calibrate.
    n_kept : int
    """

    def __init__(self, space: FeatureSpace, share: float, n_kept: int):
        self.space, self.share = space, share
        self.keeping = KeepRows(n_kept, space.seed)
        self.settings = digest([share, n_kept])
        super().__init__()

    def zero(self) -> Running:
        r, device = self.space.rank, self.space.device
        return 0.0, torch.zeros(r, dtype=torch.float64, device=device), OuterSum.zero(r, device), None

    def plus(self, sums: Running, block: Block) -> Running:
        n, sum_phi, outer, kept = sums
        held = calibrates(block.rows, self.share)
        if block.weight is not None:
            held = held & (block.weight > 0)
        if held.any():
            part = replace(block.take(np.flatnonzero(held)), y=np.ones(int(held.sum())))
            kept = self.keeping.plus(kept, part)
        learned = block.take(np.flatnonzero(~held)) if held.any() else block
        if not len(learned):
            return n, sum_phi, outer, kept
        Phi = unit_features(self.space, learned.inputs[0])
        if learned.weight is None:
            n, sum_phi = n + len(learned), sum_phi + Phi.sum(0, dtype=torch.float64)
        else:
            w = torch.from_numpy(learned.weight).to(Phi.device)
            n, sum_phi = n + w.sum().item(), sum_phi + w @ Phi.double()
            Phi = Phi.mul_(w.sqrt().to(Phi.dtype)[:, None])
        return n, sum_phi, outer.plus(Phi), kept

    def settled(self, sums: Running) -> Running:
        return *sums[:2], sums[2].flushed(), sums[3]

    def joined(self, first: Running, second: Running) -> Running:
        kept = self.keeping.joined(first[3], second[3])
        return first[0] + second[0], first[1] + second[1], first[2] + second[2], kept

    def value(self, sums: Running) -> NoveltyTotal:
        n, sum_phi, outer, kept = sums
        return NoveltyTotal(OneClassSums(n, sum_phi, outer.result()), kept)

    def value_from(self, state: State) -> NoveltyTotal:
        total = decode(NoveltyTotal, state, self.device, **self.sizes)
        kept, landmarks = total.kept, self.space.landmarks
        if kept is None:
            return total
        inputs = kept.inputs
        alike = type(inputs) is type(landmarks) and (
            isinstance(inputs, list) or inputs.shape[1:] == landmarks.shape[1:]  # type: ignore[union-attr]
        )
        if not alike or not calibrates(kept.rows, self.share).all():
            raise ValueError("The kept rows are damaged: they are not calibration rows of this model.")
        return total

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
        return OUTER_BYTES * self.space.rank**2

    def fingerprint(self) -> dict[str, str]:
        return self.space.fingerprint() | self.space.seed_fingerprint() | {"settings": self.settings}
