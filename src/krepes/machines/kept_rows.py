"""A sample of the rows that a model has seen, kept with it, for what needs single predictions.

Every row draws a number from its global index alone; the rows with the smallest numbers are kept. So the sample is
uniform, does not depend on blocks or workers, and samples of two parts of the data together are the sample of both.
While all rows fit, it is all of them. Memory: at most `most` rows and 256 MB of inputs.

A machine's pass sums normal equations, and keeps such a sample beside them: leave-one-out errors, calibration and
conformal intervals need single rows.

    Total = equations + kept rows, and in cells all rows
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.accumulator import Accumulator, SumOfValues, Value
from krepes.base.blocks import Block, row_blocks
from krepes.base.random_streams import uniform
from krepes.base.reporting import named_few
from krepes.base.rows import Rows, SparseRows, concat_rows, slice_rows, take_rows
from krepes.base.storage.codec import FLOATS, Bounds, Count, Shape, State, decode, encode
from krepes.base.storage.packing import digest
from krepes.features.space import FeatureSpace
from krepes.kernels import Kernel
from krepes.machines.cells.all_rows import AllRows, KeepAllRows
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.targets import Targets

MOST_BYTES = 256 * 2**20
SAME = 1e-5  # relative difference up to which two numbers may be the same number
_KEPT = 29  # purpose of a random stream
E = TypeVar("E", bound=Value)


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Rows with the smallest draws, in order of their draws.

    Attributes
    ----------
    seen : int
        How many rows it is a sample of; rows of weight zero are not counted.
    rows : Tensor of shape (k,), int64
        Global indices.
    inputs : Tensor of shape (k, ...), SparseRows or list
        In the model's input space.
    y : ndarray of shape (k, ...)
        Encoded targets.
    weight : Tensor of shape (k,), float64
    draws : Tensor of shape (k,)
    most : int
    """

    stays_on_cpu: ClassVar[bool] = True

    seen: Count
    rows: Annotated[Tensor, Shape("k", dtype="int64"), Bounds(least=0)]
    inputs: Annotated[np.ndarray | Tensor | SparseRows | list, Shape("k", ..., dtype=FLOATS)]
    y: Annotated[np.ndarray, Shape("k", ..., dtype=("float64", "int64"))]
    weight: Annotated[Tensor, Shape("k"), Bounds(above=0)]
    draws: Annotated[Tensor, Shape("k", dtype="float32")]
    most: Count

    def check_restored(self) -> None:
        if not 1 <= len(self.rows) <= self.seen:
            raise ValueError(f"The file is damaged: {len(self.rows)} rows are kept of {self.seen}.")

    @property
    def n(self) -> float:
        return self.weight.sum().item()

    @property
    def complete(self) -> bool:
        """Whether these are all rows that were seen."""
        return len(self.rows) == self.seen

    def take(self, places: np.ndarray) -> KeptRows:
        index = torch.from_numpy(places)
        return replace(
            self,
            rows=self.rows[index],
            inputs=take_rows(self.inputs, places),
            y=self.y[places],
            weight=self.weight[index],
            draws=self.draws[index],
        )

    def block(self) -> Block:
        return Block(self.rows, (self.inputs,), self.y, self.weight.numpy())

    def __add__(self, other: KeptRows) -> KeptRows:
        both = KeptRows(
            self.seen + other.seen,
            torch.cat([self.rows, other.rows]),
            concat_rows([self.inputs, other.inputs]),
            np.concatenate([self.y, other.y]),
            torch.cat([self.weight, other.weight]),
            torch.cat([self.draws, other.draws]),
            min(self.most, other.most),
        )
        return both._smallest()

    def _smallest(self) -> KeptRows:
        order = np.lexsort((self.rows.numpy(), self.draws.numpy()))[: self.most]
        if len(order) == len(self.rows) and (np.diff(order) > 0).all():
            return self
        return self.take(order)

    def __sub__(self, other: KeptRows) -> KeptRows:
        """Without the rows of another sample; as many fewer were seen.

        Where some rows were not kept, those with the next draws are not known: the sample stays smaller.
        """
        kept = np.flatnonzero(~np.isin(self.rows.numpy(), other.rows.numpy()))
        return replace(
            self.take(kept),
            seen=self.seen - other.seen,
            most=self.most if self.complete else len(kept),
        )

    def __mul__(self, factor: float) -> KeptRows:
        """Rows that count `factor` times; those that then weigh nothing are as if they had not been seen."""
        scaled = replace(self, weight=self.weight * factor)
        counting = np.flatnonzero(scaled.weight.numpy() > 0)
        gone = len(self.rows) - len(counting)
        return scaled if not gone else replace(scaled.take(counting), seen=self.seen - gone)

    def check_holds(self, gone: KeptRows) -> None:
        """Refuse rows that would have been kept, and were not, or not with these values."""
        known = np.isin(gone.rows.numpy(), self.rows.numpy())
        if not self.complete:
            known |= (gone.draws >= self.draws.max()).numpy()
        never = gone.rows.numpy()[~known]
        if len(never):
            raise ValueError(
                f"{named_few('row', np.sort(never).tolist())}: never added to this model, or forgotten before."
            )
        rows = self.rows.numpy(), gone.rows.numpy()
        common, mine, theirs = np.intersect1d(*rows, assume_unique=True, return_indices=True)
        first, second = self.take(mine), gone.take(theirs)
        different = ~(
            _same_inputs(first, second)
            & _same(first.y, second.y)
            & _same(first.weight.numpy(), second.weight.numpy())
        )
        if different.any():
            raise ValueError(
                f"{named_few('row', common[different].tolist())}: X, y or sample_weight is not what was added under "
                "this index."
            )


class KeepRows(SumOfValues[KeptRows]):
    """Keeps a uniform sample of the rows it is given, in the form in which a kernel on objects stores them."""

    def __init__(self, most: int, seed: int, kernel: Kernel | None = None):
        self.most, self.seed, self.kernel = most, seed, kernel
        super().__init__()

    def of(self, block: Block, before: KeptRows | None) -> KeptRows:
        most = before.most if before is not None else self._affordable(block.inputs[0])
        if block.weight is not None and not block.weight.all():  # rows that do not count
            block = block.take(np.flatnonzero(block.weight))
        inputs = block.inputs[0]
        if isinstance(inputs, Tensor):
            inputs = inputs.clone().cpu()
        weight = np.ones(len(block)) if block.weight is None else block.weight.copy()
        assert block.y is not None
        draws, seen = uniform(block.rows, 1, self.seed, _KEPT)[:, 0], len(block)
        if before is not None and len(before.rows) == most:  # most rows of a long pass are not kept
            few = (draws <= before.draws[-1]).nonzero()[:, 0].numpy()
            block, weight, draws = block.take(few), weight[few], draws[few]
            inputs = take_rows(inputs, few)
        value = KeptRows(
            seen, block.rows.clone(), inputs, np.array(block.y), torch.from_numpy(weight), draws, most
        )._smallest()
        return value if self.kernel is None else replace(value, inputs=self.kernel.storable(value.inputs))

    def _affordable(self, inputs: Rows) -> int:
        if not isinstance(inputs, Tensor | SparseRows) or len(inputs) == 0:
            return self.most
        return max(1, min(self.most, MOST_BYTES * len(inputs) // max(1, inputs.nbytes)))


def placed_blocks(inputs: Rows, device: torch.device, block: int = 2048) -> Iterator[tuple[slice, Rows]]:
    """Rows block by block, on a device."""
    for part in row_blocks(len(inputs), block):
        rows = slice_rows(inputs, part.start, part.stop)
        yield part, rows.to(device) if isinstance(rows, Tensor) else rows


def _same(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether rows of numbers are the same, (n,)."""
    if not len(first):
        return np.ones(0, dtype=bool)
    first, second = (np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in (first, second))
    size = np.abs(first).max(axis=1, keepdims=True)
    return (np.abs(first - second) <= SAME * size).all(axis=1)


def _same_inputs(first: KeptRows, second: KeptRows) -> np.ndarray:
    if isinstance(first.inputs, Tensor) and isinstance(second.inputs, Tensor):
        return _same(first.inputs.numpy(), second.inputs.numpy())
    if isinstance(first.inputs, SparseRows) and isinstance(second.inputs, SparseRows):
        one, other = first.inputs.csr, second.inputs.csr
        size, apart = (abs(part).max(axis=1).toarray().reshape(-1) for part in (one, one - other))
        return apart <= SAME * size
    return np.array(
        [not isinstance(a, str | int | float) or a == b for a, b in zip(first.inputs, second.inputs)],
        dtype=bool,
    )


@dataclass(frozen=True, eq=False)
class SumsAndRows(Generic[E]):
    """Sums over rows, and kept rows; None where there are none yet. A machine in cells has all rows."""

    equations: E
    kept: KeptRows | None
    rows: AllRows | None = None

    @property
    def n(self) -> float:
        return self.equations.n

    def __add__(self, other: Self) -> Self:
        mine, theirs = self.kept, other.kept
        kept = mine + theirs if mine is not None and theirs is not None else mine or theirs
        rows = self.rows + other.rows if self.rows is not None and other.rows is not None else None
        return type(self)(self.equations + other.equations, kept, rows)

    def __sub__(self, other: Self) -> Self:
        kept = self.kept if self.kept is None or other.kept is None else self.kept - other.kept
        left = kept if kept is not None and len(kept.rows) else None
        rows = self.rows - other.rows if self.rows is not None and other.rows is not None else None
        return type(self)(self.equations - other.equations, left, rows)

    def __mul__(self, factor: float) -> Self:
        kept = None if self.kept is None else self.kept * factor
        rows = None if self.rows is None else self.rows * factor
        return replace(self, equations=self.equations * factor, kept=kept, rows=rows)

    def check_holds(self, gone: Self) -> None:
        """Refuse rows that were never added, or not with these values, as far as rows are kept."""
        if self.kept is not None and gone.kept is not None:
            self.kept.check_holds(gone.kept)
        if self.rows is not None and gone.rows is not None:
            common = torch.isin(self.rows.rows, gone.rows.rows).nonzero()[:, 0]
            _as_kept(self.rows.take(common)).check_holds(_as_kept(gone.rows))


def _as_kept(rows: AllRows) -> KeptRows:
    n = len(rows)
    return KeptRows(n, rows.rows, rows.inputs, rows.y, rows.weight, torch.zeros(n), n)


V = TypeVar("V", bound=SumsAndRows)
Running = tuple[Any, Any, Any]  # sums, kept rows or None, and pieces of all rows


class SumsAndRowsPass(Accumulator[Running, V]):
    """Sums rows, and keeps a sample of them; in cells, also all of them.

    Parameters
    ----------
    space : FeatureSpace
    equations : Accumulator
    targets : Targets or None
    keeping : KeepRows
    settings : list
        Further numbers that the sums depend on.
    plan : LocalPlan or None
        Of the cells; None where all rows are not needed.
    """

    total: type[V]

    def __init__(
        self,
        space: FeatureSpace,
        equations: Accumulator,
        targets: Targets | None,
        keeping: KeepRows,
        settings: list,
        plan: LocalPlan | None = None,
    ):
        self.space, self.equations, self.targets, self.keeping = space, equations, targets, keeping
        self.plan, self.all_rows = plan, KeepAllRows()
        self.settings = digest(settings)
        super().__init__()

    def divided(self, block: Block) -> tuple[Block, Block]:
        """The rows to sum, and the rows to keep."""
        return block, block

    def check_total(self, total: V) -> None:
        """Refuse a total, from a file, that is not of this model."""
        for each in (total.kept, total.rows):
            if each is not None and self.targets is not None and not self.targets.are_encoded(each.y):
                raise ValueError("The file is damaged: the targets of its rows are not of this model.")

    def zero(self) -> Running:
        return self.equations.zero(), self.keeping.zero(), self.all_rows.zero()

    def plus(self, sums: Running, block: Block) -> Running:
        summed, kept, rows = sums
        to_sum, to_keep = self.divided(block)
        return (
            self.equations.plus(summed, to_sum) if len(to_sum) else summed,
            self.keeping.plus(kept, to_keep) if len(to_keep) else kept,
            self.all_rows.plus(rows, block) if self.plan is not None else rows,
        )

    def joined(self, first: Running, second: Running) -> Running:
        return (
            self.equations.joined(first[0], second[0]),
            self.keeping.joined(first[1], second[1]),
            self.all_rows.joined(first[2], second[2]),
        )

    def settled(self, sums: Running) -> Running:
        return self.equations.settled(sums[0]), sums[1], self.all_rows.settled(sums[2])

    def value(self, sums: Running) -> V:
        return self.total(self.equations.value(sums[0]), sums[1], self.all_rows.value(sums[2]))

    def sums_state(self, sums: Running) -> State:
        kept = {"equations": self.equations.sums_state(sums[0]), "kept": self.keeping.sums_state(sums[1])}
        return kept | self.all_rows.sums_state(sums[2])

    def sums_from(self, state: State) -> Running:
        return (
            self.equations.sums_from(state["equations"]),
            self.keeping.sums_from(state["kept"]),
            self.all_rows.sums_from(state),
        )

    def value_from(self, state: State) -> V:
        total = decode(self.total, state, self.space.device, **self.sizes)
        if total.kept is not None and not alike(total.kept.inputs, self.space.landmarks):
            raise ValueError("The file is damaged: its kept rows are not rows of this model.")
        if (total.rows is None) == (self.plan is not None):
            raise ValueError("The file is damaged: rows of cells are there without cells, or missing.")
        if total.rows is not None and not alike(total.rows.inputs, self.space.landmarks):
            raise ValueError("The file is damaged: the rows of its cells are not of this model.")
        self.check_total(total)
        return total

    @property
    def sizes(self) -> dict[str, int]:
        return {"r": self.space.rank, "c": 0 if self.targets is None else self.targets.n_outputs}

    @property
    def device(self) -> torch.device:
        return self.space.device

    @property
    def bytes_per_row(self) -> int:
        return self.equations.bytes_per_row

    @property
    def bytes_of_sums(self) -> int:
        return self.equations.bytes_of_sums

    @property
    def n_parts(self) -> int:
        return self.equations.n_parts

    def fingerprint(self) -> dict[str, str]:
        cells = {} if self.plan is None else {"cells": digest(encode(self.plan))}
        return self.equations.fingerprint() | {"settings": self.settings} | cells


def alike(inputs: Rows, landmarks: Rows) -> bool:
    """Whether rows are in the input space of the landmarks."""
    if type(inputs) is not type(landmarks):
        return False
    return isinstance(inputs, list) or inputs.shape[1:] == landmarks.shape[1:]  # type: ignore[union-attr]
