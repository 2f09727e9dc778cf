"""The landmarks that explain a row, by the measure that proved most faithful, and what each of them accounts for.

    1 = constant + sum over all landmarks of share_l,      share_l = u_l(x) (z_l - c) . v,      v = (z - c) / |z - c|^2

A share is the part of the way from the centre c to z that the landmark's own representation z_l makes: see
`krepes.explain.expansion`. It is signed and exact; what is not shown is `others`. Cost O(n m (h + r)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.explain.expansion import Expansion
from krepes.explain.rankings import method_name, own_shares, ranking
from krepes.explain.top_landmarks import Explained, TopLandmarks, blocks_of, landmark_rows, n_shown


@dataclass(frozen=True)
class RowExplanations(TopLandmarks):
    """The landmarks that explain n rows, and what each of them accounts for.

    Attributes
    ----------
    landmarks, rows : as in `TopLandmarks`
    values : ndarray of shape (n, k)
        Of the measure, largest first.
    by : str
        The measure.
    shares : ndarray of shape (n, k)
        The share of the way from the centre to z that each of these landmarks makes, signed.
    others, constant : ndarray of shape (n,)
        The shares of all other landmarks together, and of the constant gamma. With `shares` they add up to 1.
    """

    by: str
    shares: np.ndarray
    others: np.ndarray
    constant: np.ndarray


def top_landmarks(model: Explained, X: Any, by: str = "auto", n_top: int = 5) -> RowExplanations:
    """The landmarks that explain every row, most important first.

    Parameters
    ----------
    model : KernelEmbedding, or a kernel ridge machine or Gaussian process
    X : rows, in any form that the model takes
    by : str, default="auto"
        The measure: "auto" is "contributions". Others: support, shares, learned, groups, re_expansion, leave_out,
        influence, kernel; see `krepes.explain.rankings`.
    n_top : int, default=5

    Returns
    -------
    RowExplanations
        `values` are those of the measure; `shares`, `others` and `constant` add up to 1 for every row.

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = KernelEmbedding(2, n_landmarks=10, random_state=0, dtype="float64").fit(X)
    >>> top = top_landmarks(model, X[:4], n_top=3)
    >>> top.by, top.rows.shape, bool(np.allclose(top.shares.sum(1) + top.others + top.constant, 1))
    ('contributions', (4, 3), True)
    """
    k, expansion = n_shown(model, n_top), Expansion.of(model)
    values, shares = ranking(expansion, by), own_shares(expansion)

    def selected(K: Tensor) -> Tensor:
        best, parts = values(K).double().topk(k, dim=1), shares(K)
        shown = parts.gather(1, best.indices)
        others = parts.sum(1) - shown.sum(1)
        return torch.cat([best.indices.double(), best.values, shown, others[:, None], constant(K)], dim=1)

    def constant(K: Tensor) -> Tensor:
        K = K.double()
        missing = 1 - expansion.landmarks.interpolation(K).sum(1, keepdim=True)
        return missing * (expansion.own_position(K) @ (expansion.gamma - expansion.centre))[:, None]

    found = np.concatenate([block.cpu().numpy() for block in blocks_of(model, X, selected)])
    landmarks, kept, shown, rest = np.split(found, [k, 2 * k, 3 * k], axis=1)
    indices, places = landmark_rows(model), landmarks.astype(np.int64)
    rows = None if indices is None else indices[places]
    return RowExplanations(places, kept, rows, method_name(by), shown, rest[:, 0], rest[:, 1])
