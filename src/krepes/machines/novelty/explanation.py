"""Why a row is novel: the landmarks it is nearest to, which are real rows, and the columns in which it deviates.

    nearest       landmarks z with the largest k(x, z) / sqrt(k(x, x) k(z, z))
    deviation     of column j, with z the nearest landmark:   ( [s(x with z_j) - s(x)] + [s(z) - s(z with x_j)] ) / 2

The first bracket is what the score gains when the column is repaired, the second what it costs a normal row to have the
column of this one: the last and the first step of the Shapley value. Columns far off in a row that is far off in others
too gain nothing by the first alone. Cost: 2 d scores for every row of d columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from krepes.base.display import displayed
from krepes.base.rows import Rows, dense
from krepes.features.space import FeatureSpace
from krepes.machines.normal_equations import unit_features
from krepes.machines.novelty.calibration import NoveltySolution

SHOWN_ROWS = 20


@displayed
@dataclass(frozen=True, eq=False)
class NoveltyExplanation:
    """Of n rows: how novel they are and why; print it.

    Attributes
    ----------
    scores, p_values : ndarrays of shape (n,)
    landmarks : ndarray of shape (n, k)
        The nearest landmarks, the nearest first: places among the landmarks.
    landmark_rows : ndarray of shape (n, k) or None
        Which rows of the training data they are; None where landmarks were given as points.
    similarities : ndarray of shape (n, k)
        To these, in [0, 1].
    columns : list of str or None
        Names of columns; None for images and objects.
    deviations : ndarray of shape (n, d) or None
        How much of the score each column costs; large is a reason for an alarm.
    """

    scores: np.ndarray
    p_values: np.ndarray
    landmarks: np.ndarray
    landmark_rows: np.ndarray | None
    similarities: np.ndarray
    columns: list[str] | None
    deviations: np.ndarray | None

    def top_columns(self, row: int, n: int = 3) -> list[tuple[str, float]]:
        """The columns that deviate most in a row, with their deviations; only those that cost anything."""
        if self.columns is None or self.deviations is None:
            return []
        found = self.deviations[row]
        order = np.argsort(-found, kind="stable")[:n]
        return [(self.columns[j], float(found[j])) for j in order if found[j] > 0]

    def words(self, row: int) -> str:
        """One row in words."""
        known = self.landmarks if self.landmark_rows is None else self.landmark_rows
        kind = "landmark" if self.landmark_rows is None else "row"
        near = ", ".join(
            f"{kind} {place} ({similarity:.2f})"
            for place, similarity in zip(known[row], self.similarities[row])
        )
        text = f"row {row}: p = {self.p_values[row]:.3g}, score {self.scores[row]:.3g}. Nearest: {near}."
        top = self.top_columns(row)
        if top:
            text += " Deviates in " + ", ".join(f"{name} ({value:.2g})" for name, value in top) + "."
        return text

    def __str__(self) -> str:
        n = len(self.scores)
        lines = [self.words(row) for row in range(min(n, SHOWN_ROWS))]
        return "\n".join([*lines, f"... and {n - SHOWN_ROWS:,} more rows."] if n > SHOWN_ROWS else lines)


def explained(
    found: NoveltySolution,
    space: FeatureSpace,
    n_nearest: int,
    names: list[str] | None,
    mapped: Callable[[Callable[[Rows], Tensor]], np.ndarray],
) -> NoveltyExplanation:
    """The explanation of the rows that `mapped` reads: it gives a function of them, (n, ...).

    `names` name the columns; None if rows have no names.
    """

    def score(rows: Rows) -> Tensor:
        return found.score(unit_features(space, rows))

    def of(rows: Rows) -> Tensor:
        places, similarities = nearest_landmarks(space, rows, n_nearest)
        parts = [score(rows)[:, None], places.double(), similarities]
        if names is not None:
            nearest = dense(space.landmarks)[places[:, 0]]
            groups = space.inputs.groups or [[j] for j in range(nearest.shape[1])]
            parts.append(column_deviations(score, dense(rows), nearest, groups))
        return torch.cat(parts, dim=1)

    k = min(n_nearest, len(space.landmarks))
    scores, places, similarities, deviations = np.split(mapped(of), [1, 1 + k, 1 + 2 * k], axis=1)
    landmarks, known = places.astype(np.int64), space.landmark_rows
    return NoveltyExplanation(
        scores[:, 0],
        found.calibration.p_values(scores[:, 0]),
        landmarks,
        None if known is None else known[landmarks],
        similarities,
        names,
        None if names is None else deviations,
    )


def nearest_landmarks(space: FeatureSpace, rows: Rows, n: int) -> tuple[Tensor, Tensor]:
    """Places and normalised similarities of the n nearest landmarks, (b, n) each."""
    K = space.features.kernel_block(rows).double()
    own, theirs = (space.kernel.diag(part).double().clamp(min=1e-300) for part in (rows, space.landmarks))
    found = (K / (own[:, None] * theirs).sqrt()).topk(min(n, K.shape[1]), dim=1)
    return found.indices, found.values.clamp(0, 1)


def column_deviations(
    score: Callable[[Tensor], Tensor],
    rows: Tensor,  # shape: (b, d), encoded
    nearest: Tensor,  # shape: (b, d)
    groups: Sequence[Sequence[int]],
) -> Tensor:
    """How much each column, a group of encoded ones, costs: (b, groups)."""
    base, normal = score(rows), score(nearest)
    found = []
    for columns in groups:
        places = torch.tensor(list(columns), device=rows.device)
        repaired, spoiled = rows.clone(), nearest.clone()
        repaired[:, places], spoiled[:, places] = nearest[:, places], rows[:, places]
        found.append((score(repaired) - base + normal - score(spoiled)) / 2)
    return torch.stack(found, dim=1)
