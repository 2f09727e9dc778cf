"""The pass of a ridge machine: normal equations by fold, and a sample of the rows.

    RidgeTotal = {fold: NormalSums} + KeptRows

With `class_weight="balanced"` the sums are kept by fold and class, because the weight of a class is known only when
all rows were seen. Memory: k * 8 r^2 bytes for k folds, times the number of classes where they are balanced.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krepes.base.blocks import Block
from krepes.base.split import ByFold, Key, Parts, Split
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeepRows, KeptRows
from krepes.machines.normal_equations import NormalEquations
from krepes.machines.sums_and_rows import SumsAndRows, SumsAndRowsPass
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
class RidgeTotal(SumsAndRows[Parts[NormalSums]]):
    """Sums by fold, or by fold and class, and the kept rows."""

    equations: Parts[NormalSums]
    kept: KeptRows

    def by_fold(self, class_weight: np.ndarray | None) -> Parts[NormalSums]:
        """Sums by fold, in order; sums by class, too, are added up with the weights of the classes, (c,)."""
        ordered = sorted(self.equations.items())
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
        for key, sums in self.equations.items():
            counts[int(key) % n_classes] += sums.n
        return counts


class RidgePass(SumsAndRowsPass[RidgeTotal]):
    """Sums normal equations by fold, and keeps a sample of the rows."""

    total = RidgeTotal

    def __init__(
        self, space: FeatureSpace, targets: Targets, n_folds: int, n_kept: int, by_class: bool = False
    ):
        self.targets, self.n_keys = targets, n_folds * (targets.n_outputs if by_class else 1)
        folds = ByFold(n_folds, space.seed)
        by = ByFoldAndClass(folds, targets.n_outputs) if by_class else folds
        equations = Split(NormalEquations(space, targets), by, self.n_keys)
        keeping = KeepRows(n_kept, space.seed, space.kernel)
        super().__init__(space, equations, targets.n_outputs, keeping, [n_folds, n_kept, by_class])

    def check_total(self, total: RidgeTotal) -> None:
        if not all(type(key) is int and 0 <= key < self.n_keys for key in total.equations):
            raise ValueError("The file is damaged: this model has no such folds or classes.")
        if not self.targets.are_encoded(total.kept.y):
            raise ValueError("The file is damaged: the targets of its kept rows are not of this model.")
