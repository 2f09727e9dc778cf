"""Several sums over the same blocks, in one read.

    SideBySide([a, b]):   value = (value of a, value of b)

Rows are read and encoded once. Memory: that of all accumulators together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic

from krepes.base.accumulator import Accumulator, T
from krepes.base.blocks import Block
from krepes.base.model_file import State, digest
from krepes.base.schema import check_entries


class Several(Sequence[T], Generic[T]):
    """Values side by side, which add up one by one.

    >>> (Several([1.0, 2.0]) + Several([10.0, 20.0]))[1]
    22.0
    """

    def __init__(self, values: Sequence[T]):
        self._values = tuple(values)

    def __getitem__(self, index: int) -> T:  # type: ignore[override]
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[T]:
        return iter(self._values)

    @property
    def n(self) -> float:
        return self._values[0].n

    def __add__(self, other: Several[T]) -> Several[T]:
        return Several([mine + theirs for mine, theirs in zip(self, other, strict=True)])

    def __sub__(self, other: Several[T]) -> Several[T]:
        return Several([mine - theirs for mine, theirs in zip(self, other, strict=True)])

    def __mul__(self, factor: float) -> Several[T]:
        return Several([value * factor for value in self])

    def state(self) -> State:
        return {"values": [value.state() for value in self]}


class SideBySide(Accumulator[tuple, Several[T]]):
    """Several accumulators that see the same blocks.

    Parameters
    ----------
    accumulators : sequence of Accumulators
        At least one; their own sums are not used.

    Examples
    --------
    >>> import torch
    >>> from krepes.features import FeatureSpace
    >>> from krepes.kernels import Linear
    >>> from krepes.moments import MomentPass
    >>> spaces = [FeatureSpace.on(Linear(), torch.full((1, 1), sign)) for sign in (1.0, -1.0)]  # phi(x) = x and -x
    >>> both = SideBySide([MomentPass(space) for space in spaces])
    >>> both.add(Block(torch.arange(2), (torch.tensor([[1.0], [3.0]]),)))
    >>> [float(value.mean_1) for value in both.result()]
    [2.0, -2.0]
    """

    def __init__(self, accumulators: Sequence[Accumulator[Any, T]]):
        self.accumulators = list(accumulators)
        super().__init__()

    def zero(self) -> tuple:
        return tuple(each.zero() for each in self.accumulators)

    def plus(self, sums: tuple, block: Block) -> tuple:
        return tuple(each.plus(mine, block) for each, mine in zip(self.accumulators, sums))

    def joined(self, first: tuple, second: tuple) -> tuple:
        return tuple(each.joined(a, b) for each, a, b in zip(self.accumulators, first, second))

    def settled(self, sums: tuple) -> tuple:
        return tuple(each.settled(mine) for each, mine in zip(self.accumulators, sums))

    def value(self, sums: tuple) -> Several[T]:
        return Several([each.value(mine) for each, mine in zip(self.accumulators, sums)])

    def sums_state(self, sums: tuple) -> State:
        return {"sums": [each.sums_state(mine) for each, mine in zip(self.accumulators, sums)]}

    def sums_from(self, state: State) -> tuple:
        return tuple(each.sums_from(part) for each, part in zip(self.accumulators, state["sums"]))

    def value_from(self, state: State) -> Several[T]:
        check_entries("The sums", state, {"values": list}, optional=set())
        if len(state["values"]) != len(self.accumulators):
            raise ValueError("The sums are damaged: there must be as many as accumulators.")
        return Several([each.value_from(part) for each, part in zip(self.accumulators, state["values"])])

    @property
    def bytes_per_row(self) -> int:
        return max(each.bytes_per_row for each in self.accumulators)

    @property
    def bytes_of_sums(self) -> int:
        return sum(each.bytes_of_sums for each in self.accumulators)

    @property
    def n_parts(self) -> int:
        return max(each.n_parts for each in self.accumulators)

    def fingerprint(self) -> dict[str, str]:
        return {"side by side": digest([sorted(each.fingerprint().items()) for each in self.accumulators])}
