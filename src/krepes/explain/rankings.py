"""The landmarks that explain a row, most important first, and what each of them accounts for.

Three ways to rank them; each gives every landmark a number:

    contributions    k(x, x_l) a_l . v,   v = (z - c) / |z - c|^2       the part of the way to z that its term makes
    re_expansion     parts of z in a sum of few landmarks              as below
    kernel           k(x, x_l) / sqrt(k(x_l, x_l))                     how alike; ignores what was learned

Contributions proved most faithful (`krepes.explain.faithfulness`; docs/explain.md has the figures) and are the
default. Beside the ranking stand shares, whatever it is:

    1 = constant + sum over all landmarks of share_l,      share_l = u_l(x) (z_l - c) . v

A share is the part of the way from the centre c to z that the landmark's own representation z_l makes: see
`krepes.explain.expansion`. It is signed and exact; what is not shown is `others`. Cost O(n m (h + r)).

A row in few landmarks: "this row is 0.6 of A and 0.3 of B, with an error of 12 %".

    z - c = sum over few l of w_l (z_l - c) + rest,      w_l >= 0,      error = |rest| / |z - c|

z_l is the representation of landmark l, c the mean of them. The landmarks are chosen one by one, each the one whose
direction is nearest to what is left, and all weights are fitted again after every choice: orthogonal matching pursuit
[pati] with weights >= 0. What the model itself adds up, k(x, x_l) a_l, are large terms that cancel; these weights do
not cancel, and the error says what they leave out. Cost O(n k (m h + k^2)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from krepes.base.validation import check_choice
from krepes.explain.expansion import Expansion, Explained, TopLandmarks, Values, all_values, n_shown, rows_at

SWEEPS = 200  # of coordinate descent over a handful of weights
DEFAULT = "contributions"
N_TERMS = 5  # of a re-expansion


@dataclass(frozen=True)
class ReExpansion:
    """Rows as sums of few landmarks.

    Attributes
    ----------
    landmarks : ndarray of shape (n, k)
        Positions among the landmarks, largest weight first; -1 where fewer are needed.
    weights : ndarray of shape (n, k)
        Not negative; 0 where fewer are needed.
    error : ndarray of shape (n,)
        What the sum misses, relative to the row's distance from the centre.
    rows : ndarray of shape (n, k) or None
        The rows of the training data that these landmarks are; None if landmarks were given as points.
    """

    landmarks: np.ndarray
    weights: np.ndarray
    error: np.ndarray
    rows: np.ndarray | None

    def words(self, row: int) -> str:
        """The sum in words.

        >>> found = ReExpansion(np.array([[4, 2]]), np.array([[0.6, 0.3]]), np.array([0.12]), np.array([[40, 7]]))
        >>> found.words(0)
        'This row is 0.60 of row 40 and 0.30 of row 7 (error 12 %).'
        """
        names = self.landmarks if self.rows is None else self.rows
        kind = "landmark" if self.rows is None else "row"
        parts = [
            f"{weight:.2f} of {kind} {name:,}"
            for name, weight in zip(names[row], self.weights[row])
            if weight > 0
        ]
        if not parts:
            return (
                "This row lies at the centre, or away from every landmark: no sum of landmarks comes nearer."
            )
        listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        return f"This row is {listed} (error {100 * self.error[row]:.0f} %)."


def re_expansion(model: Explained, X: Any, n_top: int = 5) -> ReExpansion:
    """Rows as sums of at most n_top landmarks, with the error of each sum.

    Examples
    --------
    A landmark is itself:

    >>> from krepes import KernelEmbedding
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = KernelEmbedding(4, n_landmarks=10, random_state=0, dtype="float64").fit(X)
    >>> rows = model.landmark_indices_[:1]
    >>> found = re_expansion(model, X[rows], n_top=1)
    >>> bool(found.rows[0, 0] == rows[0]), bool(found.error[0] < 1e-6)
    (True, True)
    """
    k, expansion = n_shown(model, n_top), Expansion.of(model)

    def fitted(K: Tensor) -> Tensor:
        weights, error = sparse_weights(expansion, K.double(), k)
        best = weights.topk(k, dim=1)
        return torch.cat([best.indices.double(), best.values, error[:, None]], dim=1)

    landmarks, weights, error = np.split(all_values(model, X, fitted), [k, 2 * k], axis=1)
    places = np.where(weights > 0, landmarks, -1).astype(np.int64)
    return ReExpansion(places, weights, error[:, 0], rows_at(model, places))


def sparse_weights(expansion: Expansion, K: Tensor, n_terms: int) -> tuple[Tensor, Tensor]:
    """Weights (b, m), at most n_terms of them positive in a row, and errors (b,)."""
    atoms = expansion.at_landmarks - expansion.centre  # (m, h)
    own = expansion.at(K) - expansion.centre  # (b, h)
    sizes = atoms.norm(dim=1)
    unit = atoms / torch.where(sizes > 0, sizes, torch.inf)[:, None]
    rest, chosen = own, torch.empty(len(K), 0, dtype=torch.int64, device=K.device)
    weights = own.new_zeros(len(K), 0)
    for _ in range(min(n_terms, len(atoms))):
        along = (rest @ unit.mT).scatter(1, chosen, -torch.inf)
        chosen = torch.cat([chosen, along.argmax(1, keepdim=True)], dim=1)
        some = atoms[chosen]  # (b, k, h)
        start = torch.cat([weights, weights.new_zeros(len(K), 1)], dim=1)
        weights = non_negative(some @ some.mT, (some @ own[:, :, None])[:, :, 0], start)
        rest = own - (weights[:, None] @ some)[:, 0]
    lengths = own.norm(dim=1)
    error = torch.where(lengths > 0, rest.norm(dim=1) / torch.where(lengths > 0, lengths, 1.0), 0.0)
    return own.new_zeros(len(K), len(atoms)).scatter(1, chosen, weights), error


def non_negative(G: Tensor, c: Tensor, start: Tensor) -> Tensor:
    """min over w >= 0 of w^T G w / 2 - c^T w for every row: G (b, k, k), c and start (b, k)."""
    w, diagonal = start.clone(), G.diagonal(dim1=1, dim2=2)
    for _ in range(SWEEPS):
        before = w.clone()
        for j in range(w.shape[1]):
            slope = (G[:, j] * w).sum(1) - c[:, j]
            step = slope / torch.where(diagonal[:, j] > 0, diagonal[:, j], torch.inf)
            w[:, j] = (w[:, j] - step).clamp(min=0)
        if (w - before).abs().max() <= 1e-12 * w.abs().max():
            break
    return w


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
