"""The pass of a ridge machine: normal equations by fold, and a sample of the rows.

    RidgeTotal = {fold: NormalSums} + KeptRows

With `class_weight="balanced"` the sums are kept by fold and class, because the weight of a class is known only when
all rows were seen. Memory: k * 8 r^2 bytes for k folds, times the number of classes where they are balanced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krepes.base.accumulator import Accumulator
from krepes.base.blocks import Block
from krepes.base.codec import State, decode
from krepes.base.packing import digest
from krepes.base.split import ByFold, Key, Parts, Split
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeepRows, KeptRows
from krepes.machines.normal_equations import NormalEquations
from krepes.machines.targets import Targets
from krepes.regression.normal_sums import NormalSums


class ByFoldAndClass:
    """Keys fold * c + class, for targets that are codes of c classes."""

    def __init__(self, folds: ByFold, n_classes: int):
        self.folds, self.n_classes = folds, n_classes

    def __call__(self, block: Block) -> np.ndarray:
        assert block.y is not None
        return self.folds(block) * self.n_classes + block.y


@dataclass(frozen=True, eq=False)
class RidgeTotal:
    """Sums by fold, or by fold and class, and the kept rows."""

    parts: Parts[NormalSums]
    kept: KeptRows

    @property
    def n(self) -> float:
        return self.parts.n

    def __add__(self, other: RidgeTotal) -> RidgeTotal:
        return RidgeTotal(self.parts + other.parts, self.kept + other.kept)

    def __sub__(self, other: RidgeTotal) -> RidgeTotal:
        return RidgeTotal(self.parts - other.parts, self.kept - other.kept)

    def __mul__(self, factor: float) -> RidgeTotal:
        return RidgeTotal(self.parts * factor, self.kept * factor)

    def by_fold(self, class_weight: np.ndarray | None) -> Parts[NormalSums]:
        """Sums by fold, in order; those that are by class, too, are added up with the weights of the classes, (c,)."""
        ordered = sorted(self.parts.items())
        if class_weight is None:
            return Parts(dict(ordered))
        folds: dict[Key, NormalSums] = {}
        for key, sums in ordered:
            fold, code = divmod(int(key), len(class_weight))
            weighted = sums * float(class_weight[code])
            folds[fold] = folds[fold] + weighted if fold in folds else weighted
        return Parts(folds)

    def class_counts(self, n_classes: int) -> np.ndarray:
        """The weight of all rows of every class, where sums are by class."""
        counts = np.zeros(n_classes)
        for key, sums in self.parts.items():
            counts[int(key) % n_classes] += sums.n
        return counts


class RidgePass(Accumulator[tuple, RidgeTotal]):
    """Sums normal equations by fold, and keeps a sample of the rows."""

    def __init__(
        self, space: FeatureSpace, targets: Targets, n_folds: int, n_kept: int, by_class: bool = False
    ):
        by, n_keys = ByFold(n_folds, space.seed), n_folds
        if by_class:
            by, n_keys = ByFoldAndClass(by, targets.n_outputs), n_folds * targets.n_outputs  # type: ignore[assignment]
        self.space, self.targets = space, targets
        self.equations = Split(NormalEquations(space, targets), by, n_keys)
        self.keeping = KeepRows(n_kept, space.seed, space.kernel)
        self.settings = digest([n_folds, n_kept, by_class])
        super().__init__()

    def zero(self) -> tuple:
        return self.equations.zero(), self.keeping.zero()

    def plus(self, sums: tuple, block: Block) -> tuple:
        return self.equations.plus(sums[0], block), self.keeping.plus(sums[1], block)

    def joined(self, first: tuple, second: tuple) -> tuple:
        return self.equations.joined(first[0], second[0]), self.keeping.joined(first[1], second[1])

    def settled(self, sums: tuple) -> tuple:
        return self.equations.settled(sums[0]), sums[1]

    def value(self, sums: tuple) -> RidgeTotal:
        return RidgeTotal(self.equations.value(sums[0]), self.keeping.value(sums[1]))

    def sums_state(self, sums: tuple) -> State:
        return {"equations": self.equations.sums_state(sums[0]), "kept": self.keeping.sums_state(sums[1])}

    def sums_from(self, state: State) -> tuple:
        return self.equations.sums_from(state["equations"]), self.keeping.sums_from(state["kept"])

    def value_from(self, state: State) -> RidgeTotal:
        total = decode(RidgeTotal, state, self.space.device, **self.equations.accumulator.sizes)
        if not all(type(key) is int and 0 <= key < self.equations.n_keys for key in total.parts):
            raise ValueError("The sums are damaged: they are of folds or classes that there are not.")
        inputs, landmarks = total.kept.inputs, self.space.landmarks
        alike = type(inputs) is type(landmarks) and (
            isinstance(inputs, list) or inputs.shape[1:] == landmarks.shape[1:]  # type: ignore[union-attr]
        )
        if not alike or not self.targets.are_encoded(total.kept.y):
            raise ValueError("The kept rows are damaged: rows or classes are not of this model.")
        return total

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
        return self.equations.fingerprint() | {"settings": self.settings}
