"""The landmarks with the largest values for every row, block by block: no n x m array is ever held.

Cost beyond the kernel values: one product and one selection per block; memory O(b m + n k).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.rows import SparseRows, dense, take_rows
from krepes.base.validation import check_count
from krepes.embedding import KernelEmbedding
from krepes.machines.labelled_machine import LabelledMachine

# z(x) = gamma + sum_l k(x, x_l) a_l; of a machine z is its scores
Explained = KernelEmbedding | LabelledMachine
Values = Callable[[Tensor], Tensor]  # kernel values (b, p m) -> values of the landmarks (b, m)


@dataclass(frozen=True)
class TopLandmarks:
    """For every row, the k landmarks that matter most, by some measure, first.

    Attributes
    ----------
    landmarks : ndarray of shape (n, k)
        Positions among the landmarks, 0 .. m - 1.
    values : ndarray of shape (n, k)
    rows : ndarray of shape (n, k) or None
        The rows of the training data that these landmarks are; None if landmarks were given as points.
    """

    landmarks: np.ndarray
    values: np.ndarray
    rows: np.ndarray | None


def all_values(model: Explained, X: Any, values: Values) -> np.ndarray:
    """Values of all landmarks for all rows, (n, m); or whatever else a function of kernel values gives."""
    if X is None:
        raise TypeError("X is None; expected rows, in any form that the model takes.")
    return checked(model)._mapped(lambda rows: values(model.features_.kernel_block(rows)), X)


def largest_values(model: Explained, X: Any, values: Values, n_top: int) -> TopLandmarks:
    """The n_top landmarks of every row with the largest absolute values; or all, if there are fewer."""
    return top_landmarks_with(model, X, values, values, n_top)[0]


def top_landmarks_with(
    model: Explained, X: Any, values: Values, others: Values, n_top: int
) -> tuple[TopLandmarks, np.ndarray]:
    """The landmarks with the largest `values`, and the `others` of the same landmarks, (n, k)."""
    k = n_shown(model, n_top)

    def selected(K: Tensor) -> Tensor:
        V = values(K)
        best = V.abs().topk(k, dim=1).indices
        beside = V if others is values else others(K)
        return torch.cat([best.double(), V.gather(1, best).double(), beside.gather(1, best).double()], dim=1)

    landmarks, kept, beside = np.split(all_values(model, X, selected), 3, axis=1)
    places = landmarks.astype(np.int64)
    return TopLandmarks(places, kept, rows_at(model, places)), beside


def n_shown(model: Explained, n_top: int) -> int:
    """n_top, checked; at most the number of landmarks."""
    check_count("n_top", n_top)
    return min(int(n_top), n_landmarks(model))


def checked(model: Explained) -> Explained:
    """The model, if it can be explained."""
    if not isinstance(model, Explained):
        raise TypeError(
            f"model is a {type(model).__name__}; expected a fitted KernelEmbedding, or a kernel ridge machine or "
            "Gaussian process."
        )
    return model


def n_landmarks(model: Explained) -> int:
    """The number m of landmarks. A landmark with p views counts once."""
    return len(checked(model).landmarks_) // model.views_per_landmark_


def landmark_rows(model: Explained) -> np.ndarray | None:
    """The training rows that the m landmarks are."""
    rows = checked(model).landmark_indices_
    return None if rows is None else rows[: n_landmarks(model)]


def rows_at(model: Explained, places: np.ndarray) -> np.ndarray | None:
    """The training rows that landmarks are, by their places among all; -1 stays -1."""
    rows = landmark_rows(model)
    return None if rows is None else np.where(places >= 0, rows[places], -1)


def landmarks_are_rows_of(model: Explained, X: Any) -> bool:
    """Whether the landmarks are rows of X. If so, the labels of X give the labels of the landmarks."""
    rows = landmark_rows(model)
    if X is None:
        raise TypeError("X is None; expected rows, in any form that the model takes.")
    reader = model.space_.reader(X)
    if rows is None or model.views_per_landmark_ > 1 or rows.max() >= reader.n_rows:
        return False
    order = np.argsort(rows)
    try:
        found = reader.take(rows[order]).inputs[0]
    except ValueError:  # other rows, which this model cannot take
        return False
    landmarks = take_rows(model.landmarks_, order)
    if isinstance(found, SparseRows):
        return found.equals(landmarks)
    if not isinstance(found, Tensor):
        return all(a is b or repr(a) == repr(b) for a, b in zip(found, landmarks))
    return torch.allclose(found, dense(landmarks).to(found), rtol=1e-4, atol=1e-6)


def over_views(M: Tensor, p: int) -> Tensor:
    """Sums over the p views of every landmark: (..., p m) -> (..., m). Views of one landmark are m apart."""
    return M if p == 1 else M.unflatten(-1, (p, -1)).sum(-2)


def row_norms(A: Tensor) -> Tensor:
    """|a| of every row of A, of numbers whose squares may overflow."""
    largest = A.abs().max().clamp(min=torch.finfo(A.dtype).smallest_normal)
    return (A / largest).norm(dim=1) * largest


def in_range(factors: Tensor, model: Explained, what: str) -> Tensor:
    """Factors of kernel values in their dtype, refused where that cannot hold them."""
    size, kept = factors.abs().max(), factors.to(model.space_.dtype)
    if not torch.isfinite(kept).all() or (size > 0 and not kept.any()):
        raise ValueError(
            f"{what} go up to {size.item():.3g}, out of the range of {model.space_.dtype}: bring the direction "
            "to unit length, the rows to unit scale, or fit with dtype='float64'."
        )
    return kept


def coefficient_tensor(model: Explained, dtype: torch.dtype) -> Tensor:
    """A, (p m, h), where kernel values are computed."""
    model = checked(model)
    A = model.dual_coef_ if isinstance(model, LabelledMachine) else model.coefficients_
    return torch.from_numpy(np.ascontiguousarray(A)).to(model.space_.device, dtype)
