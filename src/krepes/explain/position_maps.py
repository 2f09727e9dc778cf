"""Where in a picture a score comes from, exactly: for kernels on patches, features are sums over positions.

    z(I).v = c + sum over positions p of map_p(I)           c: what a blank picture, without patches, has

Nothing is covered up or changed in the picture. For `Patches(kernel="linear")` map_p is what the patch at p adds to
the pooled features, times v; for other kernels on top, see `Patches.contributions`. The similarity of two pictures is
such a score, too, and has a map on each of them: which patches match.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from krepes.base.rows import Rows, dense
from krepes.base.validation import as_row_indices
from krepes.explain.attribution import as_direction
from krepes.explain.concept import Concept
from krepes.explain.expansion import Explained, all_inputs, checked, coefficient_tensor, in_range
from krepes.kernels import Patches


@dataclass(frozen=True)
class PositionMaps:
    """What every position of n pictures adds to a score.

    Attributes
    ----------
    values : ndarray of shape (n, h, w)
        Positions of the last layer of patches: pixels, for pictures of up to 64 pixels and one layer.
    blank : float or ndarray of shape (n,)
        The score of a picture without patches.
    """

    values: np.ndarray
    blank: float | np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """The scores that the maps add up to, (n,)."""
        return self.values.sum((1, 2)) + self.blank


def position_maps(model: Explained, X: Any, direction: ArrayLike | Concept) -> PositionMaps:
    """Where in pictures `transform(X) @ direction`, or the score of a machine along it, comes from.

    Parameters
    ----------
    model : KernelEmbedding or a kernel machine, fitted with kernel=Patches(...)
    X : pictures, in any form that the model takes
    direction : array of shape (h,), int (a component, or an output) or fitted Concept

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from krepes import KernelEmbedding
    >>> X = load_digits().images[:100]
    >>> model = KernelEmbedding(4, kernel=Patches(16), n_landmarks=30, random_state=0).fit(X)
    >>> maps = position_maps(model, X[:5], direction=0)
    >>> maps.values.shape, bool(np.allclose(maps.scores, model.transform(X[:5])[:, 0], atol=1e-4))
    ((5, 8, 8), True)
    """
    v = as_direction(checked(model), direction)
    A = coefficient_tensor(model, torch.float64) @ v
    in_range(A, model, "Coefficients along the direction")
    kernel, landmarks = _patches(model), dense(model.landmarks_)
    values = model._mapped(lambda rows: kernel.contributions(rows, landmarks, A).double(), X)
    blank = (_of_blank(kernel, landmarks) @ A).item()
    return PositionMaps(values, blank + float(model.intercept_ @ v.numpy()))


def own_maps(model: Explained, X: Any) -> PositionMaps:
    """Where in each picture the length |z - gamma| of its own representation comes from."""
    kernel, landmarks, A = _patches(model), dense(model.landmarks_), coefficient_tensor(model, torch.float64)

    def parts(rows: Rows) -> Tensor:
        Z = model.features_.kernel_block(rows).double() @ A
        along = A @ torch.nn.functional.normalize(Z, dim=1).mT  # (m, b)
        maps = kernel.contributions(rows, landmarks, along).double()
        blank = _of_blank(kernel, landmarks) @ along
        return torch.cat([maps.flatten(1), blank.mT, torch.tensor([maps.shape[1:]]).expand(len(maps), -1)], 1)

    found = checked(model)._mapped(parts, X)
    grid = found[0, -2:].astype(int)
    return PositionMaps(found[:, :-3].reshape(-1, *grid), found[:, -3])


def matching_maps(model: Explained, X: Any, landmarks: ArrayLike) -> tuple[PositionMaps, PositionMaps]:
    """Which parts of a picture and of a landmark match: k(x_i, l_i) as a sum over positions of each.

    Parameters
    ----------
    model : as in `position_maps`
    X : n pictures
    landmarks : n positions among the landmarks of the model
    """
    kernel = _patches(model)
    every = dense(model.landmarks_)
    different, where = np.unique(np.asarray(landmarks), return_inverse=True)  # one may be named twice
    chosen = every[torch.from_numpy(as_row_indices(different, len(every), "landmarks")[where.ravel()])]
    rows = dense(all_inputs(model, X))
    if len(rows) != len(chosen):
        raise ValueError(
            f"X has {len(rows)} pictures and landmarks= names {len(chosen)}; expected one for each."
        )
    own = torch.eye(len(rows), dtype=torch.float64)
    sides = []
    for left, right in ((rows, chosen), (chosen, rows)):
        values = kernel.contributions(left, right, own).double().numpy()
        sides.append(PositionMaps(values, _of_blank(kernel, right)[0].numpy()))
    return sides[0], sides[1]


def _patches(model: Explained) -> Patches:
    kernel = checked(model).kernel_
    if not isinstance(kernel, Patches):
        raise TypeError(
            f"{kernel} compares whole pictures, which are no sum over positions: fit with kernel='patches', or ask the "
            "report, which covers up parts of a picture."
        )
    return kernel


def _of_blank(kernel: Patches, landmarks: Tensor) -> Tensor:
    """k of a picture without patches and every landmark, (1, m)."""
    return kernel.top(kernel.blank_like(landmarks), kernel.features(landmarks).double()).double()
