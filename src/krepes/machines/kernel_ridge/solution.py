"""What a ridge machine sums, and what it is solved to: coefficients, fits without each fold, held-out predictions.

    RidgeTotal = {fold: NormalSums} + KeptRows, and in cells all rows

With `class_weight="balanced"` the sums are kept by fold and class, because the weight of a class is known only when
all rows were seen. Memory: k * 8 r^2 bytes for k folds, times the number of classes where they are balanced.

    f(x) = A^T k_x + b,        A = F W

`predict`, probabilities and conformal intervals need nothing else, so that a file may come without the sums. Here
it follows from the sums, directly; `conjugate_solver` serves where there are too many landmarks for sums.

How well rows that were left out are predicted:

    accuracy  = sum of w over rows that are predicted right / sum w         beside it, the share of the largest class
    R^2       = 1 - sum w (y - prediction)^2 / sum w (y - mean y)^2         beside it, 0 of the mean

Up to 200 rows, `nested_folds` chooses kernel, metric and penalty without them. With more, these were chosen with the
rows, so that the score is a little too good (1 point at 300 rows of noise). Rows that were kept apart tell the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.blocks import Block
from krepes.base.split import ByFold, Key, Parts, Split
from krepes.base.storage.codec import Bounds, Shape
from krepes.features.space import FeatureSpace
from krepes.machines.cells.all_rows import AllRows
from krepes.machines.cells.cell_model import CellModel
from krepes.machines.cells.local_plan import LocalPlan
from krepes.machines.kept_rows import (
    KeepRows,
    KeptRows,
    SumsAndRows,
    SumsAndRowsPass,
    placed_blocks,
)
from krepes.machines.normal_equations import NormalEquations
from krepes.machines.targets import Classes, Targets
from krepes.regression.calibration import temperature
from krepes.regression.ridge_algebra import FoldErrors, LeaveOneOut, NormalSums, PenaltyErrors, penalty_grid

HOW = {
    "nested folds": "choosing and fitting without each fold",
    "leave one out": "leaving out one row at a time",
    "folds": "leaving out folds",
}
FEW_ROWS = 2000  # up to which single rows are left out instead of folds


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
    rows: AllRows | None = None

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
        self,
        space: FeatureSpace,
        targets: Targets,
        n_folds: int,
        n_kept: int,
        by_class: bool = False,
        plan: LocalPlan | None = None,
    ):
        self.n_keys = n_folds * (targets.n_outputs if by_class else 1)
        folds = ByFold(n_folds, space.seed)
        by = ByFoldAndClass(folds, targets.n_outputs) if by_class else folds
        equations = Split(NormalEquations(space, targets), by, self.n_keys)
        keeping = KeepRows(n_kept, space.seed, space.kernel)
        settings: list[Any] = [n_folds, n_kept, by_class]
        super().__init__(space, equations, targets, keeping, settings, plan)

    def check_total(self, total: RidgeTotal) -> None:
        if not all(type(key) is int and 0 <= key < self.n_keys for key in total.equations):
            raise ValueError("The file is damaged: this model has no such folds or classes.")
        super().check_total(total)


@dataclass(frozen=True)
class HeldOutScore:
    """A score on rows that were left out. `str(score)` is one line.

    Attributes
    ----------
    metric : "accuracy" or "r2"
    value : float
    floor : float
        What a constant would have: the share of the largest class, or 0.
    n_rows : int
    by : "nested folds", "leave one out" or "folds"
        With up to 200 rows, each fold is predicted with a kernel, metric and penalty chosen from the other rows.
    error : float
        The standard error of the value.
    """

    metric: str
    value: float
    floor: float
    n_rows: int
    by: str
    error: float

    def __str__(self) -> str:
        rows = f"{self.n_rows:,} rows, {HOW[self.by]}"
        if self.metric == "r2":
            return f"R² {self.value:.3f} ± {self.error:.3f} ({rows})"
        found = f"accuracy {100 * self.value:.1f} ± {100 * self.error:.1f} %"
        return f"{found}; the largest class has {100 * self.floor:.1f} % ({rows})"


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Predictions of kept rows by fits that have not seen them.

    Attributes
    ----------
    rows : Tensor of shape (k,)
        Global indices.
    folds : Tensor of shape (k,), int64
        Place, among the folds of the solution, of the fold that each row is in.
    y : ndarray of shape (k, ...)
        Encoded targets.
    weight : Tensor of shape (k,)
    predictions : Tensor of shape (k, c)
        By leaving out single rows where the sample is complete, by folds elsewhere.
    by_folds : Tensor of shape (k, c)
        By the fit without the row's fold.
    nested : Tensor of shape (k, c) or None
        By machines whose kernel, metric and penalty were chosen without the row's fold, too.
    """

    stays_on_cpu: ClassVar[bool] = True

    rows: Annotated[Tensor, Shape("n", dtype="int64")]
    folds: Annotated[Tensor, Shape("n", dtype="int64"), Bounds(least=0)]
    y: Annotated[np.ndarray, Shape("n", ..., dtype=("float64", "int64"))]
    weight: Annotated[Tensor, Shape("n"), Bounds(above=0)]
    predictions: Annotated[Tensor, Shape("n", "c")]
    by_folds: Annotated[Tensor, Shape("n", "c")]
    nested: Annotated[Tensor | None, Shape("n", "c")] = None


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """A solved machine.

    Attributes
    ----------
    A : Tensor of shape (m, c)
    b : Tensor of shape (c,)
    penalty : float
    errors : PenaltyErrors
    folds : list of int
    fold_A, fold_b : Tensors of shape (k, m, c) and (k, c)
        The fits without each fold.
    held_out : HeldOutPredictions
    iterations : int or None
        Of conjugate gradients; None where it was solved directly.
    cells : CellModel or None
        What is added to A^T k_x + b in cells, times their share.
    """

    A: Annotated[Tensor, Shape("m", "c")]
    b: Annotated[Tensor, Shape("c")]
    penalty: Annotated[float, Bounds(above=0)]
    errors: PenaltyErrors
    folds: list[int]
    fold_A: Annotated[Tensor, Shape("k", "m", "c")]  # noqa: N815
    fold_b: Annotated[Tensor, Shape("k", "c")]
    held_out: HeldOutPredictions
    iterations: int | None = None
    cells: CellModel | None = None

    @cached_property
    def temperature(self) -> float:
        """Of classes: the temperature under which held-out scores are most likely."""
        codes = np.asarray(self.held_out.y)
        return temperature(self.held_out.predictions.numpy(), codes, doubt=1 / (len(codes) + 2))

    def score(self, targets: Targets) -> HeldOutScore:
        """Of the predictions of rows that were not fitted; no data are read."""
        held, by = self.held_out, "nested folds"
        if held.nested is None:
            held, by = replace(held, nested=held.predictions), self.errors.by
        assert held.nested is not None
        predicted, w = held.nested.double().cpu().numpy(), held.weight.double().cpu().numpy()
        w = w / w.sum()
        if isinstance(targets, Classes):
            right, floor = predicted.argmax(axis=1) == held.y, np.bincount(held.y, weights=w).max()
            value, parts = float(w @ right), right - w @ right
            return HeldOutScore("accuracy", value, float(floor), len(w), by, _error(w, parts))
        Y = targets.matrix(held.y).numpy()
        left, spread = (np.square(part).sum(1) for part in (Y - predicted, Y - w @ Y))
        if not w @ spread > 0:
            return HeldOutScore("r2", 0.0, 0.0, len(w), by, 0.0)
        value = 1 - float(w @ left / (w @ spread))
        parts = (left - (1 - value) * spread) / (w @ spread)  # the ratio, to first order
        return HeldOutScore("r2", value, 0.0, len(w), by, _error(w, parts))

    def check_restored(self) -> None:
        k, held = len(self.folds), self.held_out.folds
        if not k or self.folds != sorted(set(self.folds)) or len(self.fold_A) != k or bool((held >= k).any()):
            raise ValueError("The file is damaged: the folds of the solution do not fit.")


def _error(share: np.ndarray, parts: np.ndarray) -> float:
    """The standard error of a weighted mean of independent parts; shares sum to 1."""
    return float(np.sqrt(np.square(share * parts).sum()))


def kept_features(space: FeatureSpace, kept: KeptRows) -> Tensor:
    """phi of the kept rows, (k, r), float64."""
    return torch.cat([space.features(rows).double() for _, rows in placed_blocks(kept.inputs, space.device)])


def folds_of(space: FeatureSpace, kept: KeptRows, n_folds: int) -> np.ndarray:
    """The fold of every kept row, (k,)."""
    return ByFold(n_folds, space.seed)(kept.block())


def unseen_errors(
    space: FeatureSpace, targets: Targets, rows: AllRows, solution: RidgeSolution, n_folds: int
) -> Callable[[Tensor], Tensor]:
    """What the fit without the fold of a row leaves over of its target: places (k,) -> (k, c)."""
    fold_A, fold_b = solution.fold_A, solution.fold_b
    fold_of_row = ByFold(n_folds, space.seed)(Block(rows.rows, (rows.inputs,)))
    which = places_of(fold_of_row, solution.folds)

    def residuals(places: Tensor) -> Tensor:
        found, fits = targets.matrix(rows.y[places.numpy()]), which[places]
        for part, X in placed_blocks(rows.inputs[places], space.device):
            K, of_row = space.features.kernel_block(X).double(), fits[part]
            for fit in of_row.unique().tolist():
                inside = of_row == fit
                found[part][inside] -= (K[inside.to(K.device)] @ fold_A[fit] + fold_b[fit]).cpu()
        return found

    return residuals


def places_of(folds: np.ndarray, keys: Sequence[int]) -> Tensor:
    """Which of the fits without a fold has not seen the rows of these folds, (k,)."""
    return torch.from_numpy(np.searchsorted(keys, folds)).clamp(max=len(keys) - 1)


def penalty_errors(
    folds: Parts[NormalSums],
    Phi: Tensor,  # (k, r), features of the kept rows
    Y: Tensor,  # (k, c)
    weight: Tensor,  # (k,)
    complete: bool,  # whether all rows are kept
    penalty: float | str,  # a number, or "auto"
    dtype: torch.dtype,  # of the features: smaller penalties are rounding
    intercept: bool,
) -> tuple[PenaltyErrors, LeaveOneOut | None]:
    """Errors on rows that were not fitted: single rows left out where all of a few are at hand, else folds."""
    penalties = penalty_grid(folds.total, dtype) if penalty == "auto" else np.array([float(penalty)])
    if complete and (len(Phi) <= FEW_ROWS or len(folds) < 2):
        left_out = LeaveOneOut.of_features(Phi, Y.to(Phi), weight.to(Phi), intercept)
        return left_out.search(penalties), left_out
    if len(folds) < 2:  # a row or two, all in one fold: nothing to choose by
        return PenaltyErrors(penalties[len(penalties) // 2 :][:1], np.zeros(1), "folds"), None
    return FoldErrors(folds, intercept).search(penalties), None


@dataclass(frozen=True, eq=False)
class Fits:
    """A machine fitted on features: to all rows, and to those outside each fold.

    Attributes
    ----------
    errors : PenaltyErrors
        The best of these penalties is that of the fits.
    W : Tensor of shape (r, c)
    b : Tensor of shape (c,)
    without : dict of fold -> (W, b)
    left_out : Tensor of shape (k, c) or None
        Predictions of the kept rows by fits to all others, where these are known.
    """

    errors: PenaltyErrors
    W: Tensor
    b: Tensor
    without: dict[int, tuple[Tensor, Tensor]]
    left_out: Tensor | None = None

    @classmethod
    def by_ridge(
        cls,
        folds: Parts[NormalSums],
        Phi: Tensor,
        Y: Tensor,
        weight: Tensor,
        complete: bool,
        penalty: float | str,
        dtype: torch.dtype,
        intercept: bool,
    ) -> Fits:
        """Ridge regression; parameters as for `penalty_errors`."""
        errors, left_out = penalty_errors(folds, Phi, Y, weight, complete, penalty, dtype, intercept)
        total, best = folds.total, errors.best
        W, b = total.solution(best, intercept)
        without = {0: (W, b)}
        if len(folds) > 1:
            without = {int(key): (total - sums).solution(best, intercept) for key, sums in folds.items()}
        return cls(errors, W, b, without, None if left_out is None else left_out.predictions(best).cpu())

    def solution(
        self, space: FeatureSpace, kept: KeptRows, Phi: Tensor, weight: Tensor, fold_of_row: np.ndarray
    ) -> RidgeSolution:
        """Coefficients of the landmarks, and what the fits predict for kept rows that they have not seen."""
        keys = list(self.without)
        places = places_of(fold_of_row, keys)
        by_folds = torch.empty(len(Phi), len(self.b), dtype=torch.float64)
        for place, (fold_W, fold_b) in enumerate(self.without.values()):
            inside = places == place
            by_folds[inside] = (Phi[inside.to(Phi.device)] @ fold_W + fold_b).cpu()
        F, single = space.features.F, by_folds if self.left_out is None else self.left_out
        return RidgeSolution(
            F @ self.W,
            self.b,
            self.errors.best,
            self.errors,
            keys,
            torch.stack([F @ fold_W for fold_W, _ in self.without.values()]),
            torch.stack([fold_b for _, fold_b in self.without.values()]),
            HeldOutPredictions(kept.rows, places, kept.y, weight, single, by_folds),
        )
