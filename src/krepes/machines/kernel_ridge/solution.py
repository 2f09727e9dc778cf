"""What a ridge machine is solved to: coefficients, the fits without each fold, and predictions of rows not fitted.

    f(x) = A^T k_x + b,        A = F W

It is all that `predict`, probabilities and conformal intervals need, so that a file may come without the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from krepes.base.codec import State
from krepes.base.schema import check_entries
from krepes.base.split import ByFold
from krepes.features.space import FeatureSpace
from krepes.machines.kept_rows import KeptRows
from krepes.machines.targets import Targets
from krepes.regression.calibration import temperature
from krepes.regression.penalty_choice import PenaltyErrors

STATE = {
    "A": Tensor,
    "b": Tensor,
    "penalty": float,
    "penalties": np.ndarray,
    "errors": np.ndarray,
    "by": str,
    "folds": list[int],
    "fold_A": Tensor,
    "fold_b": Tensor,
    "held_rows": Tensor,
    "held_folds": Tensor,
    "held_y": np.ndarray,
    "held_weight": Tensor,
    "held_predictions": Tensor,
    "held_by_folds": Tensor,
    "iterations": int | None,
}


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

    rows: Tensor
    folds: Tensor
    y: np.ndarray
    weight: Tensor
    predictions: Tensor
    by_folds: Tensor


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

    A: Tensor
    b: Tensor
    penalty: float
    errors: PenaltyErrors
    folds: list[int]
    fold_A: Tensor  # noqa: N815
    fold_b: Tensor
    held_out: HeldOutPredictions
    iterations: int | None = None

    @cached_property
    def temperature(self) -> float:
        """Of classes: the temperature under which held-out scores are most likely."""
        codes = np.asarray(self.held_out.y)
        return temperature(self.held_out.predictions.numpy(), codes, doubt=1 / (len(codes) + 2))

    def state(self) -> State:
        held = {f"held_{name}": value for name, value in vars(self.held_out).items()}
        return {
            "A": self.A,
            "b": self.b,
            "penalty": self.penalty,
            "penalties": self.errors.penalties,
            "errors": self.errors.errors,
            "by": self.errors.by,
            "folds": self.folds,
            "fold_A": self.fold_A,
            "fold_b": self.fold_b,
            "iterations": self.iterations,
            **held,
        }

    @classmethod
    def from_state(cls, state: State, space: FeatureSpace, targets: Targets) -> RidgeSolution:
        check_entries("The solution", state, STATE, optional=set())
        m, c, k = len(space.landmarks), targets.n_outputs, len(state["folds"])
        n = len(state["held_rows"])
        shapes = {
            "A": (m, c), "b": (c,), "fold_A": (k, m, c), "fold_b": (k, c), "held_folds": (n,),
            "held_weight": (n,), "held_predictions": (n, c), "held_by_folds": (n, c),
        }  # fmt: skip
        for name, shape in shapes.items():
            if tuple(state[name].shape) != shape:
                raise ValueError(
                    f"The model file is damaged: {name} has shape {tuple(state[name].shape)}, not {shape}."
                )
        folds, held_y = state["held_folds"], state["held_y"]
        problems = {
            "its folds": k == 0 or state["folds"] != sorted(set(state["folds"])),
            "the folds of its rows": folds.dtype != torch.int64 or bool(((folds < 0) | (folds >= k)).any()),
            "its penalties": state["penalty"] <= 0 or state["penalties"].shape != state["errors"].shape,
            "its targets": len(held_y) != n or not targets.are_encoded(held_y),
            "its weights": not bool((state["held_weight"] > 0).all()),
        }
        wrong = [name for name, broken in problems.items() if broken]
        if wrong:
            raise ValueError(f"The solution is damaged: {', '.join(wrong)} cannot be what was written.")
        held = (state[f"held_{name}"] for name in HeldOutPredictions.__dataclass_fields__)
        where = space.device
        return cls(
            state["A"].to(where),
            state["b"].to(where),
            state["penalty"],
            PenaltyErrors(state["penalties"], state["errors"], state["by"]),
            state["folds"],
            state["fold_A"].to(where),
            state["fold_b"].to(where),
            HeldOutPredictions(*held),
            state["iterations"],
        )


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
