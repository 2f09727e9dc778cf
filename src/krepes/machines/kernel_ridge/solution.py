"""What a ridge machine is solved to: coefficients, the fits without each fold, and predictions of rows not fitted.

    f(x) = A^T k_x + b,        A = F W

It is all that `predict`, probabilities and conformal intervals need, so that a file may come without the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from krepes.base.codec import Bounds, Shape
from krepes.base.split import ByFold
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeptRows
from krepes.regression.calibration import temperature
from krepes.regression.penalty_choice import PenaltyErrors


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
    """

    stays_on_cpu: ClassVar[bool] = True

    rows: Annotated[Tensor, Shape("n", dtype="int64")]
    folds: Annotated[Tensor, Shape("n", dtype="int64"), Bounds(least=0)]
    y: Annotated[np.ndarray, Shape("n", ..., dtype=("float64", "int64"))]
    weight: Annotated[Tensor, Shape("n"), Bounds(above=0)]
    predictions: Annotated[Tensor, Shape("n", "c")]
    by_folds: Annotated[Tensor, Shape("n", "c")]


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

    def places(self, folds: np.ndarray) -> Tensor:
        """Which of the fits has not seen the rows of these folds, (k,)."""
        keys = list(self.without)
        return torch.from_numpy(np.searchsorted(keys, folds)).clamp(max=len(keys) - 1)


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

    @cached_property
    def temperature(self) -> float:
        """Of classes: the temperature under which held-out scores are most likely."""
        codes = np.asarray(self.held_out.y)
        return temperature(self.held_out.predictions.numpy(), codes, doubt=1 / (len(codes) + 2))

    def check_restored(self) -> None:
        k, held = len(self.folds), self.held_out.folds
        if not k or self.folds != sorted(set(self.folds)) or len(self.fold_A) != k or bool((held >= k).any()):
            raise ValueError("The file is damaged: the folds of the solution do not fit.")


def kept_features(space: FeatureSpace, kept: KeptRows, block: int = 2048) -> Tensor:
    """phi of the kept rows, (k, r), float64."""
    inputs = kept.inputs
    parts = []
    for start in range(0, len(inputs), block):
        rows = inputs[start : start + block]
        parts.append(space.features(rows.to(space.device) if isinstance(rows, Tensor) else rows).double())
    return torch.cat(parts)


def predictions_by_folds(
    space: FeatureSpace,
    kept: KeptRows,
    fold_A: Tensor,  # (k, m, c)
    fold_b: Tensor,  # (k, c)
    places: Tensor,  # (n,)
    block: int = 2048,
) -> Tensor:
    """What each kept row is predicted to be by the fit without its fold, (n, c)."""
    found = []
    for start in range(0, len(kept.rows), block):
        rows, where = kept.inputs[start : start + block], places[start : start + block].to(space.device)
        rows = rows.to(space.device) if isinstance(rows, Tensor) else rows
        scores = torch.einsum("bm,kmc->kbc", space.features.kernel_block(rows).double(), fold_A)
        found.append(scores[where, torch.arange(len(where), device=where.device)] + fold_b[where])
    return torch.cat(found).cpu()


def folds_of(space: FeatureSpace, kept: KeptRows, n_folds: int) -> np.ndarray:
    """The fold of every kept row, (k,)."""
    return ByFold(n_folds, space.seed)(kept.block())
