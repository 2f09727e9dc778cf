"""The sum that every explanation takes apart, and the landmarks that it goes over.

    f(x) = gamma + sum_l k(x, x_l) a_l                       coefficients a_l, landmarks x_l

The same landmarks serve any coefficients, so that a method can be asked what it says of other ones, A' = F W' with a
random W': see `krepes.explain.faithfulness`.

Rows are read block by block: where a few landmarks of every row are kept, no n x m array is ever held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.linalg import RELATIVE_CUT
from krepes.base.rows import Rows, SparseRows, dense, take_rows
from krepes.base.validation import check_count
from krepes.embedding import KernelEmbedding
from krepes.machines.labelled_machine import LabelledMachine

KNOWN = 500  # kept rows that tell whether a machine in cells was fitted on some data
# z(x) = gamma + sum_l k(x, x_l) a_l; of a machine z is its scores
Explained = KernelEmbedding | LabelledMachine
Values = Callable[[Tensor], Tensor]  # kernel values (b, p m) -> values of the landmarks (b, m)


def all_values(model: Explained, X: Any, values: Values) -> np.ndarray:
    """Values of all landmarks for all rows, (n, m); or whatever else a function of kernel values gives."""
    return checked(model)._mapped(lambda rows: values(model.features_.kernel_block(rows)), X)


def n_shown(model: Explained, n_top: int) -> int:
    """n_top, checked; at most the number of landmarks."""
    check_count("n_top", n_top)
    return min(int(n_top), n_landmarks(model))


def in_cells(model: object) -> bool:
    """Whether a model is a machine whose rows are compared in cells."""
    return isinstance(model, LabelledMachine) and model.local_ is not None and model.local_.in_cells


def checked(model: Explained) -> Explained:
    """The model, if it can be explained."""
    if not isinstance(model, Explained):
        raise TypeError(
            f"model is a {type(model).__name__}; expected a KernelEmbedding, kernel machine or Gaussian process."
        )
    if in_cells(model):
        raise ValueError(
            "This machine is in cells, and has no landmarks to be explained by: row_weights(X) of a ridge machine has "
            "the rows that predictions are made of. Give local=False for landmarks."
        )
    return model


def n_landmarks(model: Explained) -> int:
    """The number m of landmarks. A landmark with p views counts once."""
    return len(checked(model).landmarks_) // model.views_per_landmark_


def landmark_rows(model: Explained) -> np.ndarray | None:
    """The training rows that the m landmarks are."""
    rows = checked(model).landmark_indices_
    return None if rows is None else rows[: n_landmarks(model)]


def all_inputs(model: Explained, X: Any) -> Rows:
    """All rows at once, in the model's input space."""
    model.check_input(X)
    reader = model.space_.reader(X)
    return reader.take(np.arange(reader.n_rows)).inputs[0]


def landmarks_are_rows_of(model: Explained, X: Any) -> bool:
    """Whether the landmarks are rows of X. If so, the labels of X give the labels of the landmarks."""
    if isinstance(model, LabelledMachine) and in_cells(model):
        assert model.total_ is not None
        kept = model.total_.kept.take(np.arange(min(KNOWN, len(model.total_.kept.rows))))
        rows, landmarks = kept.rows.numpy(), kept.inputs
    else:
        rows, landmarks = landmark_rows(model), model.landmarks_
    reader = model.space_.reader(X)
    if rows is None or model.views_per_landmark_ > 1 or rows.max() >= reader.n_rows:
        return False
    order = np.argsort(rows)
    try:
        found = reader.take(rows[order]).inputs[0]
    except ValueError:  # other rows, which this model cannot take
        return False
    landmarks = take_rows(landmarks, order)
    if isinstance(found, SparseRows):
        return found.equals(landmarks)
    if not isinstance(found, Tensor):
        return all(a is b or repr(a) == repr(b) for a, b in zip(found, landmarks))
    return torch.allclose(found, dense(landmarks).to(found), rtol=1e-4, atol=1e-6)


def over_views(M: Tensor, p: int) -> Tensor:
    """Sums over the p views of every landmark: (..., p m) -> (..., m). Views of one landmark are m apart."""
    return M if p == 1 else M.unflatten(-1, (p, -1)).sum(-2)


def in_range(factors: Tensor, model: Explained, what: str) -> Tensor:
    """Factors of kernel values in their dtype, refused where that cannot hold them."""
    size, kept = factors.abs().max(), factors.to(model.space_.dtype)
    if not torch.isfinite(kept).all() or (size > 0 and not kept.any()):
        raise ValueError(
            f"{what} go up to {size.item():.3g}, out of the range of {kept.dtype}: give a direction of another length, "
            "or fit with dtype='float64'."
        )
    return kept


def coefficient_tensor(model: Explained, dtype: torch.dtype) -> Tensor:
    """A, (p m, h), where kernel values are computed."""
    model = checked(model)
    A = model.dual_coef_ if isinstance(model, LabelledMachine) else model.coefficients_
    return torch.from_numpy(np.ascontiguousarray(A)).to(model.space_.device, dtype)


@dataclass(frozen=True, eq=False)
class Expansion:
    """Coefficients on m landmarks, with p views each, and what follows from them alone; float64.

    Attributes
    ----------
    A : Tensor of shape (p m, h)
    gamma : Tensor of shape (h,)
    K : Tensor of shape (p m, p m)
        Kernel values between the landmarks.
    F : Tensor of shape (p m, r)
    n_views : int
    cut : float
        Eigenvalues of K below this share of the largest count as zero.
    """

    A: Tensor
    gamma: Tensor
    K: Tensor
    F: Tensor
    n_views: int
    cut: float

    @classmethod
    def of(cls, model: Explained) -> Expansion:
        A, landmarks = coefficient_tensor(model, torch.float64), model.landmarks_
        wide = landmarks.double() if isinstance(landmarks, Tensor | SparseRows) else landmarks
        K = model.kernel_(wide).double()
        gamma, cut = torch.from_numpy(model.intercept_).to(A), RELATIVE_CUT[model.space_.dtype]
        return cls(A, gamma, K, model.features_.F, model.views_per_landmark_, cut)

    def at(self, K: Tensor) -> Tensor:
        """f, from kernel values (b, p m): (b, h)."""
        return K @ self.A + self.gamma

    @cached_property
    def values(self) -> Tensor:
        """f at every view of a landmark, (p m, h)."""
        return self.at(self.K)

    @cached_property
    def at_landmarks(self) -> Tensor:
        """z_l, (m, h); the mean over the views of a landmark."""
        return self.values.unflatten(0, (self.n_views, -1)).mean(0)

    @cached_property
    def centre(self) -> Tensor:
        """The mean of the landmarks' representations, (h,)."""
        return self.at_landmarks.mean(0)

    def similarity(self, K: Tensor) -> Tensor:
        """k(x, x_l) / sqrt(k(x_l, x_l)), the mean over the views of a landmark, (b, m); ordered as the cosine."""
        sizes = self.K.diagonal().clamp(min=0).sqrt()
        return over_views(K / torch.where(sizes > 0, sizes, torch.inf), self.n_views) / self.n_views

    @cached_property
    def sizes(self) -> Tensor:
        """|z_l - centre|, (m,)."""
        return (self.at_landmarks - self.centre).norm(dim=1)

    @cached_property
    def directions(self) -> Tensor:
        """(z_l - centre) / |z_l - centre|, (m, h); zero where a landmark lies at the centre."""
        sizes = torch.where(self.sizes > 0, self.sizes, torch.inf)
        return (self.at_landmarks - self.centre) / sizes[:, None]

    @cached_property
    def damping(self) -> float:
        """eps, below which eigenvalues of K count as zero."""
        return self.cut * torch.linalg.matrix_norm(self.K, 2).item()

    def random(self, generator: torch.Generator) -> Expansion:
        """The same norms in the kernel's space, other directions: A' = F W' with W' normal, columns as long as W's."""
        W = torch.randn(self.F.shape[1], self.A.shape[1], dtype=torch.float64, generator=generator).to(self.F)
        # |w_j|, because A^T K A = W^T W
        sizes = (self.A * (self.K @ self.A)).sum(0).clamp(min=0).sqrt()
        return replace(self, A=(self.F @ (W / W.norm(dim=0) * sizes)).to(self.A))
