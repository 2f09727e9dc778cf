"""Accumulators: what one pass over the data learns is a sum over blocks of rows.

    sums_0 = zero(),   sums_k = plus(sums_(k-1), block_k),   result = value(sums)

A subclass writes pure functions of its running sums. The sums themselves are replaced, in one assignment, when
everything has been computed, so an exception in the middle of a block (memory that ran out) adds nothing and the block
can be tried again in halves. That is the whole point of the split between `plus` and `add`.

Results are values: immutable dataclasses, with `+` (often `-` and `* float`) and a number of samples `n`. So passes
over parts of the data add up to a pass over all of it, on one machine or on many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, get_args, get_origin

import torch
from torch import Tensor

from krepes.base.blocks import Block
from krepes.base.storage.codec import CPU, StateReader, encode


class Addend(Protocol):
    """What a pass over some rows results in."""

    @property
    def n(self) -> float: ...

    def __add__(self, other: Self, /) -> Self: ...


class Value(Addend, Protocol):
    """A result from which rows can be taken away again, or weighted."""

    def __sub__(self, other: Self, /) -> Self: ...

    def __mul__(self, factor: float, /) -> Self: ...


class FieldSums:
    """A dataclass whose fields are sums: it adds up field by field."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def _by_field(self, of_field: Callable[[str], Any]) -> Self:
        return type(self)(**{name: of_field(name) for name in self.__dataclass_fields__})

    def __add__(self, other: Self) -> Self:
        return self._by_field(lambda name: getattr(self, name) + getattr(other, name))

    def __sub__(self, other: Self) -> Self:
        return self._by_field(lambda name: getattr(self, name) - getattr(other, name))

    def __mul__(self, factor: float) -> Self:
        return self._by_field(lambda name: getattr(self, name) * factor)


S = TypeVar("S")  # running sums
R = TypeVar("R")  # what a pass results in
T = TypeVar("T", bound=Value)  # where results of parts add up
A = TypeVar("A", bound=Addend)


class Accumulator(ABC, Generic[S, R]):
    """A sum over blocks.

    Attributes
    ----------
    sums : S
        The sums of the blocks added so far. They are never changed in place.
    """

    sums: S

    # What a subclass writes

    @abstractmethod
    def zero(self) -> S:
        """The sums before any rows are added."""

    @abstractmethod
    def plus(self, sums: S, block: Block) -> S:
        """The sums with a block added; `sums` stays as it is."""

    @abstractmethod
    def joined(self, first: S, second: S) -> S:
        """The sums of two sets of rows together."""

    @abstractmethod
    def value(self, sums: S) -> R:
        """The result of these sums."""

    # What it may change

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the named axes of its sums and results, which a file must agree with."""
        return {}

    @property
    def device(self) -> torch.device:
        """Where its sums are."""
        return CPU

    def sums_state(self, sums: S) -> object:
        """Sums as tensors and plain values, for a checkpoint."""
        return encode(sums)

    def sums_from(self, state: Any) -> S:
        """The inverse of `sums_state`."""
        return StateReader(self.device, self.sizes).read(state, _declared(type(self))[0], "The sums")

    def value_from(self, state: Any) -> R:
        """A result out of a model file, where it is as `encode` wrote it."""
        value = StateReader(self.device, self.sizes).read(state, _declared(type(self))[1], "The sums")
        if not value.n > 0:
            raise ValueError("The file is damaged: its sums are over no rows.")
        return value

    def settled(self, sums: S) -> S:
        """Sums in the form in which they are stored; a sum that buffers in low precision empties its buffer."""
        return sums

    @property
    def bytes_per_row(self) -> int:
        """Memory that `plus` takes for one row of a block: decides how large blocks are."""
        return 0

    @property
    def n_parts(self) -> int:
        """About how many equal parts it divides a block into: blocks may be this many times larger."""
        return 1

    @property
    def bytes_of_sums(self) -> int:
        """Memory of the sums, whatever the number of rows; of rows that are kept, nothing is known beforehand."""
        return _tensor_bytes(self.sums_state(self.zero()))

    @property
    def rows_at_once(self) -> int | None:
        """Rows in a block, if the result depends on it; None leaves it to the engine."""
        return None

    def fingerprint(self) -> dict[str, str]:
        """Hashes, by name, of everything besides the rows that the sums depend on."""
        return {}

    # What it then has

    def __init__(self) -> None:
        self.sums = self.zero()

    def empty(self) -> Self:
        """The same accumulator with no rows added: for another worker."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        copy.sums = copy.zero()
        return copy

    def add(self, block: Block) -> None:
        """Add a block. If an exception is raised, nothing was added."""
        if not isinstance(block, Block):
            raise TypeError(
                f"{type(self).__name__}.add got a {type(block).__name__}; expected a krepes.base.blocks.Block. Arrays "
                "are for `update`, if it has one."
            )
        self.sums = self.plus(self.sums, block)

    def flush(self) -> None:
        """Bring the sums into the form in which they are stored. Called at the end of batches, for the same bits."""
        self.sums = self.settled(self.sums)

    def merge(self, other: Self) -> Self:
        """Add the rows that another has seen; returns self."""
        self.sums = self.joined(self.sums, other.sums)
        return self

    def result(self) -> R:
        """The value of everything added so far."""
        return self.value(self.settled(self.sums))

    def state(self) -> Any:
        """Tensors and plain values, for a checkpoint."""
        self.flush()
        return self.sums_state(self.sums)

    def restore(self, state: Any) -> None:
        """Continue from a state."""
        self.sums = self.sums_from(state)


class SumOfValues(Accumulator[A | None, A]):
    """An accumulator whose running sums are the result itself, or None before the first rows.

    A subclass names the dataclass of its values, SumOfValues[...], and says what a block is worth, `of(block, before)`.
    """

    @abstractmethod
    def of(self, block: Block, before: A | None) -> A:
        """The value of a block alone; `before`, the value so far, has what both must share."""

    def zero(self) -> A | None:
        return None

    def plus(self, sums: A | None, block: Block) -> A | None:
        value = self.of(block, sums)
        return value if sums is None else sums + value

    def joined(self, first: A | None, second: A | None) -> A | None:
        if first is None or second is None:
            return second if first is None else first
        return first + second

    def value(self, sums: A | None) -> A:
        if sums is None:
            raise ValueError("No rows were given yet.")
        return sums


def _declared(cls: type) -> tuple[Any, Any]:
    """The types of sums and result, as the bases of a class say: Accumulator[S, R] or SumOfValues[T]."""
    for base in cls.__mro__:
        for form in vars(base).get("__orig_bases__", ()):
            kinds = get_args(form)
            if get_origin(form) is SumOfValues:
                return kinds[0] | None, kinds[0]
            if get_origin(form) is Accumulator and not isinstance(kinds[1], TypeVar):
                return kinds[0], kinds[1]
    raise TypeError(
        f"{cls.__name__} does not say what it sums: derive it from SumOfValues[...], with a dataclass."
    )


def _tensor_bytes(state: object) -> int:
    """Bytes of the tensors in a state."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return sum(map(_tensor_bytes, parts))
