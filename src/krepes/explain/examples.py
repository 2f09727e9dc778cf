"""The real rows that a row is made of: near rows whose outputs point the same way, in parts that never cancel.

    p_l = s_l max(0, cos(z - c, z_l - c))          s_l the normalised kernel value, z_l the output of landmark l
    z - c = sum over the k largest p_l of w_l (z_l - c) + rest,          w_l >= 0,      w_l |z_l - c| = t s_l p_l
    1 = sum of shares + unexplained,          share_l = w_l (z_l - c) . (z - c) / |z - c|^2 = t p_l^2 / |z - c|

c is the mean of the landmarks' outputs. A landmark must be like the row (s) and lie on the same side of everything that
was learned (cos). t is fitted by least squares, so that what is left is orthogonal to the sum: the shares add up to the
part of |z - c|^2 that these rows explain, and none is negative. What the model itself adds up, k(x, x_l) a_l, are large
terms of either sign that cancel (`krepes.explain.attribution`); a full non-negative least squares fit explains a
little more, with rows that change from one model to the next (docs/explain.md has the table). Cost O(n m h).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.explain.attribution import as_direction
from krepes.explain.expansion import Expansion, Explained, Values, all_values, landmark_rows, n_shown

CANCELS = 2.0  # parts without sign, over their sum, from which it must be said


@dataclass(frozen=True, eq=False)
class Examples:
    """The landmarks that n rows are made of, the largest share first.

    Attributes
    ----------
    landmarks : ndarray of shape (n, k)
        Positions among the landmarks, 0 .. m - 1.
    rows : ndarray of shape (n, k) or None
        The rows of the training data that these are; None if landmarks were given as points.
    shares : ndarray of shape (n, k)
        The part of the way from the centre to z that each makes; none is negative.
    unexplained : ndarray of shape (n,)
        What is left: it adds up with the shares to 1.
    weights : ndarray of shape (n, k)
        w, of the landmarks' own outputs.
    similarity : ndarray of shape (n, k)
        k(x, x_l) / sqrt(k(x_l, x_l)).
    """

    landmarks: np.ndarray
    rows: np.ndarray | None
    shares: np.ndarray
    unexplained: np.ndarray
    weights: np.ndarray
    similarity: np.ndarray

    def words(self, row: int) -> str:
        """One row in words.

        >>> shares, none = np.array([[0.6, 0.3]]), np.zeros((1, 2))
        >>> Examples(np.array([[4, 2]]), np.array([[40, 7]]), shares, np.array([0.1]), none, none).words(0)
        'row 0: 60 % row 40, 30 % row 7; 10 % unexplained.'
        """
        kind, names = ("landmark", self.landmarks) if self.rows is None else ("row", self.rows)
        parts = [f"{100 * s:.0f} % {kind} {name}" for s, name in zip(self.shares[row], names[row]) if s > 0]
        return (
            f"row {row}: {', '.join([*parts]) or 'nothing'}; {100 * self.unexplained[row]:.0f} % unexplained."
        )

    def __str__(self) -> str:
        return "\n".join(map(self.words, range(min(20, len(self.shares)))))


def examples(model: Explained, X: Any, n_top: int = 8) -> Examples:
    """The landmarks that every row is made of.

    Examples
    --------
    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = KernelEmbedding(2, n_landmarks=10, random_state=0, dtype="float64").fit(X)
    >>> found = examples(model, X[:4], n_top=3)
    >>> bool(np.allclose(found.shares.sum(1) + found.unexplained, 1)), bool((found.shares >= 0).all())
    (True, True)
    """
    k, expansion = n_shown(model, n_top), Expansion.of(model)
    parts = np.split(all_values(model, X, lambda K: torch.cat(made_of(expansion, K, k), dim=1)), 4, axis=1)
    places, known = parts[0].astype(np.int64), landmark_rows(model)
    shares, weights, similarity = parts[1:]
    return Examples(
        places, None if known is None else known[places], shares, 1 - shares.sum(1), weights, similarity
    )


def agreement(expansion: Expansion) -> Values:
    """k_x -> p^2, (b, m): the measure by which landmarks are chosen, to which shares are proportional."""
    return lambda K: _alike(expansion, K.double())[2].square()


def _alike(expansion: Expansion, K: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """z - c (b, h), similarity (b, m), and p (b, m)."""
    own, similarity = expansion.at(K) - expansion.centre, expansion.similarity(K)
    lengths = own.norm(dim=1, keepdim=True)
    cosine = (own / torch.where(lengths > 0, lengths, torch.inf)) @ expansion.directions.mT
    return own, similarity, similarity.clamp(min=0) * cosine.clamp(min=0)


def made_of(expansion: Expansion, K: Tensor, k: int) -> list[Tensor]:
    """Places, shares, weights and similarities of the k landmarks that rows are made of, (b, k) each."""
    own, similarity, p = _alike(expansion, K.double())
    best = p.topk(k, dim=1)
    near = similarity.gather(1, best.indices)
    steps, units = near.clamp(min=0) * best.values, expansion.directions[best.indices]  # (b, k), (b, k, h)
    along = (steps[:, None] @ units)[:, 0]
    squares = along.square().sum(1)
    steps = steps * ((along * own).sum(1) / torch.where(squares > 0, squares, torch.inf))[:, None]
    lengths = own.square().sum(1, keepdim=True)
    shares = steps * (units @ own[:, :, None])[:, :, 0] / torch.where(lengths > 0, lengths, torch.inf)
    sizes = expansion.sizes[best.indices]
    weights = steps / torch.where(sizes > 0, sizes, torch.inf)
    return [best.indices.double(), shares, weights, near]


@dataclass(frozen=True, eq=False)
class PartsAlong:
    """What landmarks add along a direction v: value = constant + sum of parts + unexplained.

    Attributes
    ----------
    landmarks, parts : ndarrays of shape (n, k)
        w_l (z_l - c) . v.
    constant : float
        c . v.
    unexplained : ndarray of shape (n,)
    """

    landmarks: np.ndarray
    parts: np.ndarray
    constant: float
    unexplained: np.ndarray


def parts_along(model: Explained, X: Any, directions: list[Any], n_top: int = 8) -> list[PartsAlong]:
    """The examples of every row along several directions (see `attribution`), in one pass."""
    k, expansion = n_shown(model, n_top), Expansion.of(model)
    V = torch.stack([as_direction(model, direction).to(expansion.A) for direction in directions], dim=1)
    at_landmarks = (expansion.at_landmarks - expansion.centre) @ V  # (m, q)
    constants = (expansion.centre @ V).tolist()

    def along(K: Tensor) -> Tensor:
        places, _, weights, _ = made_of(expansion, K, k)
        parts = weights[:, :, None] * at_landmarks[places.long()]  # (b, k, q)
        rest = (expansion.at(K.double()) - expansion.centre) @ V - parts.sum(1)
        return torch.cat([places, rest, parts.mT.flatten(1)], dim=1)

    q = len(directions)
    places, rest, parts = np.split(all_values(model, X, along), [k, k + q], axis=1)
    each = parts.reshape(len(parts), q, k)
    return [PartsAlong(places.astype(np.int64), each[:, j], constants[j], rest[:, j]) for j in range(q)]


def cancels(parts: np.ndarray) -> bool:
    """Whether parts of either sign are more than twice as large as their sum.

    >>> cancels(np.array([3.0, -2.0])), cancels(np.array([3.0, -0.5]))
    (True, False)
    """
    return float(np.abs(parts).sum()) > CANCELS * abs(float(parts.sum()))
