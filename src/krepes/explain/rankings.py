"""The landmarks that explain a row, most important first, and what each of them accounts for.

Three ways to rank them; each gives every landmark a number:

    contributions    k(x, x_l) a_l . v,   v = (z - c) / |z - c|^2       the part of the way to z that its term makes
    re_expansion     parts of z in a sum of few landmarks              `krepes.explain.re_expansion`
    kernel           k(x, x_l) / sqrt(k(x_l, x_l))                     how alike; ignores what was learned

Contributions proved most faithful (`krepes.explain.faithfulness`; docs/explain.md has the figures) and are the
default. Beside the ranking stand shares, whatever it is:

    1 = constant + sum over all landmarks of share_l,      share_l = u_l(x) (z_l - c) . v

A share is the part of the way from the centre c to z that the landmark's own representation z_l makes: see
`krepes.explain.expansion`. It is signed and exact; what is not shown is `others`. Cost O(n m (h + r)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.validation import check_choice
from krepes.explain.expansion import Expansion
from krepes.explain.re_expansion import sparse_weights
from krepes.explain.top_landmarks import Explained, TopLandmarks, Values, all_values, n_shown, rows_at

DEFAULT = "contributions"
N_TERMS = 5  # of a re-expansion


@dataclass(frozen=True)
class RowExplanations(TopLandmarks):
    """The landmarks that explain n rows, and what each of them accounts for.

    Attributes
    ----------
    landmarks, rows : as in `TopLandmarks`
    values : ndarray of shape (n, k)
        Of the ranking, largest first.
    by : str
        The ranking.
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
    by : "auto", "contributions", "re_expansion" or "kernel", default="auto"
        How landmarks are ranked; "auto" is "contributions".
    n_top : int, default=5

    Returns
    -------
    RowExplanations
        `values` belong to the ranking; `shares`, `others` and `constant` add up to 1 for every row.

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = KernelEmbedding(2, n_landmarks=10, random_state=0, dtype="float64").fit(X)
    >>> top = top_landmarks(model, X[:4], n_top=3)
    >>> top.by, top.rows.shape, bool(np.allclose(top.shares.sum(1) + top.others + top.constant, 1))
    ('contributions', (4, 3), True)
    """
    k, expansion, name = n_shown(model, n_top), Expansion.of(model), ranking_name(by)
    values, shares = RANKINGS[name](expansion), own_shares(expansion)

    def selected(K: Tensor) -> Tensor:
        K = K.double()
        best, parts = values(K).topk(k, dim=1), shares(K)
        shown = parts.gather(1, best.indices)
        others = parts.sum(1) - shown.sum(1)
        missing = 1 - expansion.landmarks.interpolation(K).sum(1)
        constant = missing * (expansion.own_position(K) @ (expansion.gamma - expansion.centre))
        rest = torch.stack([others, constant], dim=1)
        return torch.cat([best.indices.double(), best.values, shown, rest], dim=1)

    landmarks, kept, shown, rest = np.split(all_values(model, X, selected), [k, 2 * k, 3 * k], axis=1)
    places = landmarks.astype(np.int64)
    return RowExplanations(places, kept, rows_at(model, places), name, shown, rest[:, 0], rest[:, 1])


def own_contributions(expansion: Expansion) -> Values:
    """k_x -> the share of the way from the centre to z that a landmark's term makes."""
    return lambda K: expansion.terms_along(K.double(), expansion.own_position(K.double()))


def own_shares(expansion: Expansion) -> Values:
    """k_x -> the share of the way from the centre to z that a landmark's own representation makes."""
    centre = expansion.centre
    return lambda K: expansion.values_along(K.double(), expansion.own_position(K.double()), centre)


def few_landmarks(expansion: Expansion) -> Values:
    """k_x -> the parts of z in a sum of few landmarks; the other landmarks follow by kernel value."""
    atoms = expansion.at_landmarks - expansion.centre

    def parts(K: Tensor) -> Tensor:
        K = K.double()
        shares = sparse_weights(expansion, K, N_TERMS)[0] * (expansion.own_position(K) @ atoms.mT)
        s = expansion.similarity(K)
        return torch.where(shares > 0, shares, 1e-9 * s / s.abs().max().clamp(min=1e-300))

    return parts


def kernel_values(expansion: Expansion) -> Values:
    """k_x -> normalised kernel values."""
    return lambda K: expansion.similarity(K.double())


RANKINGS: dict[str, Callable[[Expansion], Values]] = {
    "contributions": own_contributions,
    "re_expansion": few_landmarks,
    "kernel": kernel_values,
}


def ranking_name(by: str) -> str:
    """The name of a ranking; "auto" is `DEFAULT`."""
    check_choice("by", by, ("auto", *RANKINGS))
    return DEFAULT if by == "auto" else by
