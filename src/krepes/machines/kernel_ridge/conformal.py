"""Conformal prediction: intervals and sets of classes that hold the target with a given confidence.

For n rows that were kept, scores s_i say how badly row i is predicted by the fit without its fold S(i). With
k = ceil(confidence (n + 1)),

    interval    the k-th smallest of f_S(i)(x) + s_i, and of s_i - f_S(i)(x) with its sign turned          [barber, CV+]
                s_i = |y_i - f_S(i)(x_i)|
    set         classes c for which fewer than k rows have s_i < -log p_c(x | without S(i))      [vovk, cross-conformal]
                s_i = -log p of the class of the row, which ranks rows as 1 - p does

Scores of rows that no fit has seen are the case of a single fold, whose fit is the whole machine: split conformal
prediction, with the k-th smallest score itself as the bound. Where k > n no bound follows from so few rows.

If rows are exchangeable, split conformal prediction covers at least `confidence` of new rows. With the machine's own
rows at least 2 confidence - 1 - O(n^(-1/2)) is certain, and about `confidence` is usual. Up to 100 rows, what was
chosen with them makes such bounds too narrow (.87 of 40 rows at 0.9): each row's score then comes from a machine that
chose its kernel, metric and penalty without the row's fold, and bounds are about the whole fit.

A machine in cells has the errors of single rows left out, and a row that is left out changes its own cells alone: the
interval is f(x) plus and minus the k-th smallest of them [barber, jackknife+, whose other fits are all f].

Cost: scores are sorted once; then O(log n) per fold, class and row, and 60 times that for the bound of an interval, in
blocks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax
from torch import Tensor

from krepes.base.reporting import warn
from krepes.base.rows import Rows
from krepes.base.validation import check_same_rows, check_share
from krepes.machines.kernel_ridge.machine import RidgeMachine
from krepes.machines.targets import Quantities, checked_predictions, targets_in

Calibration = tuple[Any, Any]  # rows and their targets

FEW_ROWS = 100  # up to which nothing was chosen with the rows that bounds follow from
HALVINGS = 60  # of the range in which a bound lies: to the last digit


@dataclass(frozen=True, eq=False)
class HeldScores:
    """Scores of rows that some fits have not seen, sorted for every fit.

    >>> held = HeldScores.of(np.array([3.0, 1.0, 2.0]), np.array([0, 1, 0]), 2)
    >>> held.rank(0.5), held.below(np.array([[2.5, 0.5], [4.0, 4.0]])).tolist()
    (2, [1, 3])
    >>> held.bound(np.array([[10.0, 20.0]]), 2).tolist()          # of 12, 13 and 21
    [13.0]
    """

    by_fit: list[np.ndarray]

    @classmethod
    def of(cls, scores: np.ndarray, fits: np.ndarray, n_fits: int) -> HeldScores:
        """From the score of every row, and which fit has not seen it."""
        return cls([np.sort(scores[fits == fit]) for fit in range(n_fits)])

    @property
    def n(self) -> int:
        return sum(map(len, self.by_fit))

    def rank(self, confidence: float) -> int:
        """k = ceil(confidence (n + 1)); rounding must not raise it."""
        return math.ceil(round(confidence * (self.n + 1), 9))

    def below(self, scores: np.ndarray) -> np.ndarray:
        """How many rows have a lower score than a new row, whose scores differ by fit: (..., fits) -> (...)."""
        found = (np.searchsorted(held, scores[..., fit]) for fit, held in enumerate(self.by_fit))
        return np.asarray(sum(found))

    def bound(self, predictions: np.ndarray, rank: int) -> np.ndarray:
        """The rank-th smallest of prediction + score over all rows, for new rows: (b, fits) -> (b,)."""
        if rank > self.n:
            return np.full(len(predictions), np.inf)
        used = [fit for fit, held in enumerate(self.by_fit) if len(held)]
        centers = predictions[:, used]
        low = centers.min(axis=1) + min(self.by_fit[fit][0] for fit in used)
        high = centers.max(axis=1) + max(self.by_fit[fit][-1] for fit in used)
        low -= np.spacing(np.abs(low)) * 4  # because a sum is rounded
        for _ in range(HALVINGS):
            middle = low + (high - low) / 2
            counts = sum(
                np.searchsorted(self.by_fit[fit], middle - centers[:, i], side="right")
                for i, fit in enumerate(used)
            )
            reached = counts >= rank
            high, low = np.where(reached, middle, high), np.where(reached, low, middle)
        return high


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Fits, and predictions of rows by a fit that has not seen them.

    Attributes
    ----------
    A, b : Tensors of shape (fits, m, c) and (fits, c)
    y : ndarray of shape (n, ...)
        Encoded targets.
    predictions : ndarray of shape (n, c)
    fits : ndarray of shape (n,), int64
        Which fit has not seen the row.
    """

    A: Tensor
    b: Tensor
    y: np.ndarray
    predictions: np.ndarray
    fits: np.ndarray

    @classmethod
    def of(cls, machine: RidgeMachine, calibration: Calibration | None) -> HeldRows:
        """Rows kept with the machine, and its fits without their folds; or rows that are given, and the whole fit.

        Few rows are predicted by machines that chose everything without them, and compared with the whole fit.
        """
        few = len(machine._solved().held_out.y) <= FEW_ROWS
        if calibration is None and few:
            machine._nest()
        found = machine._solved()
        whole, held = (found.A[None], found.b[None]), found.held_out
        if calibration is None and few and held.nested is not None:
            return cls(*whole, held.y, held.nested.numpy(), np.zeros(len(held.y), dtype=np.int64))
        if calibration is None:
            if len(found.folds) < 2 and found.cells is None:
                raise ValueError(
                    "All rows of this model are in one fold, so that no fit was made without them: give more rows, or "
                    "calibration=(X, y)."
                )
            if found.cells is not None:
                single = held.predictions.numpy()
                return cls(*whole, held.y, single, np.zeros(len(held.y), dtype=np.int64))
            return cls(found.fold_A, found.fold_b, held.y, held.by_folds.numpy(), held.folds.numpy())
        if not (isinstance(calibration, tuple | list) and len(calibration) == 2):
            raise ValueError("calibration= takes a pair (X, y): rows that the model was not fitted on.")
        X, named = calibration
        n = machine.space_.open(X).n_rows  # errors of X before errors of y
        y, missing = targets_in(X, named, type(machine).__name__)
        if missing is not None:
            raise ValueError(f"{named!r} is missing in {missing.sum():,} calibration rows: leave them out.")
        y = machine.targets_.encoded(y)
        check_same_rows(len(y), n, "y", "X of calibration=")
        predictions = np.concatenate(list(_predictions(machine, X, *whole)))[:, 0]
        return cls(*whole, y, predictions, np.zeros(len(y), dtype=np.int64))

    def scores(self, values: np.ndarray) -> HeldScores:
        """Sorted, from the score of every row."""
        return HeldScores.of(values, self.fits, len(self.b))


def intervals(
    machine: RidgeMachine, X: Any, confidence: float, calibration: Calibration | None
) -> np.ndarray:
    """Lower and upper bounds of quantities, (n, c, 2)."""
    check_share("confidence", confidence)
    targets = machine.targets_
    assert isinstance(targets, Quantities)
    rows = HeldRows.of(machine, calibration)
    scores = [rows.scores(column) for column in np.abs(rows.y - rows.predictions).T]
    rank = scores[0].rank(confidence)
    _warn_of_few(len(rows.y), rank, confidence, "every interval is infinite")
    blocks = []
    for block in _predictions(machine, X, rows.A, rows.b):
        bounds = [
            np.stack([-held.bound(-block[:, :, c], rank), held.bound(block[:, :, c], rank)], axis=-1)
            for c, held in enumerate(scores)
        ]
        blocks.append(np.stack(bounds, axis=1))
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.concatenate(blocks) * targets.scale[:, None] + targets.shift[:, None]
    return found if rank > len(rows.y) else checked_predictions(found)


def sets(
    machine: RidgeMachine, X: Any, confidence: float, calibration: Calibration | None, temperature: float
) -> np.ndarray:
    """Which classes are in the set of a row, (n, c), bool."""
    check_share("confidence", confidence)
    rows = HeldRows.of(machine, calibration)
    surprise = -log_softmax(rows.predictions / temperature, axis=1)
    scores = rows.scores(surprise[np.arange(len(rows.y)), rows.y])
    rank = scores.rank(confidence)
    _warn_of_few(len(rows.y), rank, confidence, "every set has all classes")
    blocks = [
        scores.below(-log_softmax(block / temperature, axis=2).swapaxes(1, 2)) < rank
        for block in _predictions(machine, X, rows.A, rows.b)
    ]
    return np.concatenate(blocks)


def _predictions(machine: RidgeMachine, X: Any, A: Tensor, b: Tensor) -> Iterator[np.ndarray]:
    """f(x) of several fits, (rows, fits, c) for blocks of rows, in the units of the encoded targets.

    Of a machine in cells there is one: without a row of another cell it predicts the same.
    """
    machine.check_input(X)
    space = machine.space_
    if machine._solved().cells is not None:
        yield from (checked_predictions(scores)[:, None] for scores in machine._score_blocks(X))
        return
    k, m, c = A.shape
    beside = A.to(space.dtype).permute(1, 0, 2).reshape(m, k * c)

    def score(rows: Rows) -> Tensor:
        return space.features.kernel_block(rows).to(space.dtype) @ beside

    for Z in machine.map_rows(score, X):
        yield checked_predictions(Z.double().reshape(-1, k, c).add_(b.double()).cpu().numpy())


def _warn_of_few(n: int, rank: int, confidence: float, outcome: str) -> None:
    if rank > n:
        needed = math.ceil(round(confidence / (1 - confidence), 9))
        warn(
            f"confidence={confidence:g} needs at least {needed:,} held-out rows, and there are {n:,}: {outcome}."
        )
