"""One value per key of a row: folds, groups, classes and windows alike.

    Split(accumulator, by):   value_k = accumulator over the rows with by(row) = k

The parts of all keys add up to the value of all rows, so cross-validation is a subtraction: `parts.total - parts[k]`.
Memory: one accumulator for every key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Generic

import numpy as np

from krepes.base.accumulator import Accumulator, S, T
from krepes.base.blocks import Block
from krepes.base.code_identity import code_identity
from krepes.base.random_streams import uniform
from krepes.base.storage.codec import State, decode, encode

Key = int | float | str | bool
ROUNDING = 1e-10  # of the weight of a part; less than that is not a row
By = Callable[[Block], np.ndarray]  # a block -> the keys of its rows, (b,)


class Parts(Mapping[Key, T], Generic[T]):
    """Values by key, which add up; missing keys are zero.

    Attributes
    ----------
    n : float
        Samples in all parts.
    """

    def __init__(self, values: Mapping[Key, T]):
        self._values = dict(values)

    def __getitem__(self, key: Key) -> T:
        return self._values[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def n(self) -> float:
        return sum(value.n for value in self._values.values())

    @property
    def total(self) -> T:
        """The value of all rows."""
        if not self._values:
            raise ValueError("No rows were added: there is no total.")
        return reduce(add, self._values.values())

    def __add__(self, other: Parts[T]) -> Parts[T]:
        common = {key: self[key] + other[key] for key in self if key in other}
        return Parts({**self, **other, **common})

    def __sub__(self, other: Parts[T]) -> Parts[T]:
        """Parts that lose all their rows are left out; an error where one would lose more than it has."""
        unknown = [key for key in other if key not in self]
        if unknown:
            raise ValueError(f"Cannot subtract: there are no rows with the keys {unknown[:5]}.")
        if any(other[key].n > (1 + ROUNDING) * self[key].n for key in other):
            raise ValueError(
                "These rows cannot all have been added: one of the folds or groups has fewer rows than are to be taken "
                "away. Check rows= and sample_weight=."
            )
        return Parts(
            {
                key: value - other[key] if key in other else value
                for key, value in self.items()
                if key not in other or other[key].n < (1 - ROUNDING) * value.n
            }
        )

    def __mul__(self, factor: float) -> Parts[T]:
        return Parts({key: value * factor for key, value in self.items()})

    def state(self) -> State:
        keys = list(self)
        return {"keys": keys, "parts": [encode(self[key]) for key in keys]}

    @classmethod
    def from_state(cls, state: State, read: Callable[[Any], T]) -> Parts[T]:
        """The inverse of `state`; `read` gives the value of a part."""
        stored = decode(StoredParts, state)
        if not stored.keys or not len(set(stored.keys)) == len(stored.keys) == len(stored.parts):
            raise ValueError("The file is damaged: its sums need one part for every key.")
        parts = Parts({key: read(part) for key, part in zip(stored.keys, stored.parts)})
        if not all(part.n > 0 for part in parts.values()):
            raise ValueError("The file is damaged: one of its parts is over no rows.")
        return parts


@dataclass(frozen=True)
class StoredParts:
    """What a file holds of `Parts`."""

    keys: list[Key]
    parts: list[Any]


class Split(Accumulator[dict[Key, S], Parts[T]]):
    """One sum for every key.

    Parameters
    ----------
    accumulator : Accumulator
        What each part is; its own sums are not used.
    by : callable(Block) -> ndarray of shape (b,)
        The key of every row: numbers or text.
    n_keys : int, default=1
        How many keys there are, where they have about the same number of rows: blocks are then larger, so that their
        parts are not too small for fast products.

    Examples
    --------
    >>> import torch
    >>> from krepes.features import FeatureSpace
    >>> from krepes.kernels import Linear
    >>> from krepes.features import MomentPass
    >>> split = Split(MomentPass(FeatureSpace.on(Linear(), torch.ones(1, 1))), by=by_target)      # phi(x) = x
    >>> split.add(Block(torch.arange(3), (torch.tensor([[1.0], [3.0], [8.0]]),), y=np.array(["a", "a", "b"])))
    >>> {key: float(part.mean_1) for key, part in split.result().items()}
    {'a': 2.0, 'b': 8.0}
    """

    def __init__(self, accumulator: Accumulator[S, T], by: By, n_keys: int = 1):
        self.accumulator, self.by, self.n_keys = accumulator, by, n_keys
        super().__init__()

    def zero(self) -> dict[Key, S]:
        return {}

    def plus(self, sums: dict[Key, S], block: Block) -> dict[Key, S]:
        keys = np.asarray(self.by(block))
        if keys.shape != (len(block),):
            raise ValueError(f"A key is needed for every row: got shape {keys.shape} for {len(block)} rows.")
        new = dict(sums)
        for key in np.unique(keys).tolist():
            part = block.take(np.flatnonzero(keys == key))
            new[key] = self.accumulator.plus(new[key] if key in new else self.accumulator.zero(), part)
        return new

    def settled(self, sums: dict[Key, S]) -> dict[Key, S]:
        return {key: self.accumulator.settled(part) for key, part in sums.items()}

    def joined(self, first: dict[Key, S], second: dict[Key, S]) -> dict[Key, S]:
        both = {key: self.accumulator.joined(first[key], second[key]) for key in first if key in second}
        return first | second | both

    def value(self, sums: dict[Key, S]) -> Parts[T]:
        values = {key: self.accumulator.value(part) for key, part in sums.items()}
        return Parts({key: value for key, value in values.items() if value.n > 0})  # rows may weigh nothing

    def sums_state(self, sums: dict[Key, S]) -> State:
        return {"keys": list(sums), "parts": [self.accumulator.sums_state(part) for part in sums.values()]}

    def sums_from(self, state: State) -> dict[Key, S]:
        return {key: self.accumulator.sums_from(part) for key, part in zip(state["keys"], state["parts"])}

    def value_from(self, state: State) -> Parts[T]:
        return Parts.from_state(state, self.accumulator.value_from)

    @property
    def bytes_per_row(self) -> int:
        return self.accumulator.bytes_per_row

    @property
    def bytes_of_sums(self) -> int:
        return self.n_keys * self.accumulator.bytes_of_sums

    @property
    def n_parts(self) -> int:
        return self.n_keys * self.accumulator.n_parts

    def fingerprint(self) -> dict[str, str]:
        return self.accumulator.fingerprint() | {"split": code_identity(self.by)}


def by_target(block: Block) -> np.ndarray:
    """The targets themselves: one part per class."""
    return _known(block.y, "targets (y)")


def by_group(block: Block) -> np.ndarray:
    """The groups that came with the rows."""
    return _known(block.group, "groups")


class ByFold:
    """Folds 0 .. k - 1, drawn for every row from its global index: the same for any blocks and workers.

    >>> import torch
    >>> rows = torch.arange(1000)
    >>> counts = np.bincount(ByFold(4, seed=0)(Block(rows, (rows,))))
    >>> len(counts), bool((abs(counts - 250) < 60).all())
    (4, True)
    """

    def __init__(self, n_folds: int, seed: int = 0):
        self.n_folds, self.seed = n_folds, seed

    def __call__(self, block: Block) -> np.ndarray:
        draws = uniform(block.rows, 1, self.seed, _FOLDS)[:, 0]
        return (draws * self.n_folds).long().clamp_(max=self.n_folds - 1).numpy()


_FOLDS = 23  # purpose of a random stream


def _known(values: np.ndarray | None, name: str) -> np.ndarray:
    if values is None:
        raise ValueError(f"These rows come without {name}.")
    return values
