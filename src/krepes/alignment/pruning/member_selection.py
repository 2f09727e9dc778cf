"""Which members of an ensemble to keep, and with which weights: from their predictions and a target.

The default, "shrunk", is in `shrunk_weights`, with "forward", "best" and "first", which are its equal weights in three
orders. The other methods are published. With f_k the (n, c) predictions of member k and Y the (n, c) target, columns
centred (c is 1 for numbers, the number of classes for labels):

    alignment   mu = argmax over mu >= 0 of CKA(sum_k mu_k f_k f_k^T, Y Y^T), then stacking of the f_k with mu_k > 0
                M_kl = |f_k^T f_l|_F^2,  a_k = |f_k^T Y|_F^2                                     [tang, Eq. 4.3, 4.7]
    stacking    min over b >= 0 of |Y - sum_k b_k f_k|_F^2                              [wolpert; tang, Eq. 4.8]
    r2          the one member of largest <f_k, Y>^2 / (|f_k|^2 |Y|^2) with <f_k, Y> > 0             [tang, Eq. 4.9]

Where a member has no prediction for a row (it was trained on it), products are means over the rows that both have; the
eigenvalues of these matrices are then clipped at zero, because pairwise means need not be positive semi-definite.

This differs from [tang, Ch. 4] in: centred columns, for which an intercept is fitted (10-NN on Friedman: error 5.1, 6.6
without); in (4.7) and (4.8) the square of the norm, with which the objective grows without bound as b -> 0, is the
norm, and that is non-negative least squares; (4.9) is a ratio of linear functions of mu and has its optimum at one
member, not at all of them; members that fall as the target rises are left out first. The argument for extra sparsity,
(4.10), is reversed: tr A >= |A|_F.

Cost O(n p^2 c^2) for p members, then O(p^3); memory O(n p c + p^2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from krepes.alignment.pruning.ensemble_members import MemberOutputs
from krepes.alignment.pruning.shrunk_weights import EQUAL, STRENGTHS, shrunk_choice
from krepes.alignment.similarity.nonnegative_minimum import CUT, nonnegative_minimum

PUBLISHED = ("alignment", "stacking", "r2")
METHODS = ("shrunk", "forward", "best", "first", *PUBLISHED)
CONSTANT = 1e-12  # the spread of a member's predictions relative to their size: below it is rounding
BLOCK_BYTES = 2**27


class TooFewRowsError(ValueError):
    """Two members have no row in common that both may be judged by."""


@dataclass(frozen=True)
class Products:
    """Means of products of centred predictions, scaled to unit mean square, with each other and with the target.

    Attributes
    ----------
    cross : (p, p), <f_k, f_l>: correlations.
    target : (p,), <f_k, Y>: correlations with the target.
    cross_squares, target_squares : |f_k^T f_l|_F^2 and |f_k^T Y|_F^2 as cosines: alignments.
    means, sizes : (p, c) and (p,), what was subtracted and divided by; a size of 0 is a constant member.
    counts : (p,), rows that each member has.
    target_mean, target_size : the same of Y, in the rows that any member has.
    """

    cross: np.ndarray
    target: np.ndarray
    cross_squares: np.ndarray
    target_squares: np.ndarray
    means: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray
    target_mean: np.ndarray
    target_size: float


@dataclass(frozen=True)
class Selection:
    """Weights of members, and why.

    Attributes
    ----------
    weights : (p,), non-negative, of the predictions as given; zero where a member is dropped.
    intercept : (c,)
    alone : (p,), what each explains of the target's variance alone, rescaled (R^2; 0 if it runs against the target,
        NaN if it has no row).
    alignment : (p,), centred alignment of each with the target.
    reasons : why each was kept or dropped.
    optimality : largest violation of the optimality conditions of the steps, relative.
    strength : how strongly weights were shrunk towards equal ones; inf for the plain mean of the kept members.
    errors : {size: squared error on rows left out, relative to that of the mean of all}; empty if none was compared.
    """

    weights: np.ndarray
    intercept: np.ndarray
    alone: np.ndarray
    alignment: np.ndarray
    reasons: list[str]
    optimality: float
    strength: float = 0.0
    errors: dict[int, float] = field(default_factory=dict)


def select_members(given: MemberOutputs, method: str = "shrunk", n_members: int | None = None) -> Selection:
    """Choose members and fit their weights.

    >>> y = np.array([[1.0], [2.0], [4.0], [5.0]])
    >>> constant, half = np.ones((4, 1)), y / 2 - 1
    >>> found = select_members(MemberOutputs(np.stack([constant, half], axis=1), y))
    >>> found.weights.round(12).tolist(), found.intercept.round(12).tolist()
    ([0.0, 2.0], [2.0])
    """
    found = products(given)
    if not (found.sizes > 0).any():
        raise ValueError("Every member predicts a constant: there is nothing to choose from.")
    if not (found.target > 0).any():
        raise ValueError("No member's predictions rise with the target: none is worth keeping.")
    strength, errors = 0.0, {}
    if method in PUBLISHED:
        chosen, weights, optimality = _aligned(found, method, n_members, given.usable is not None)
        intercept = found.target_mean - weights @ found.means
    else:
        order, strengths = ("forward", STRENGTHS) if method == "shrunk" else (method, EQUAL)
        choice = shrunk_choice(given, order, n_members, strengths)
        weights, intercept, optimality = choice.weights, choice.intercept, choice.optimality
        chosen, strength, errors = weights > 0, choice.strength, choice.errors
    return Selection(
        weights,
        intercept,
        np.where(found.counts > 0, np.square(np.maximum(found.target, 0.0)), np.nan),
        np.where(found.sizes > 0, found.target_squares, np.nan),
        _reasons(given, found, chosen, weights > 0, method),
        optimality,
        strength,
        errors,
    )


def _aligned(
    found: Products, method: str, n_members: int | None, gaps: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Members that the first step chooses, weights of all, and the violation of optimality."""
    cross, correlations = found.cross, found.target
    squares, alignments = found.cross_squares, found.target_squares
    if gaps:
        cross, correlations = _clipped(cross, correlations)
        squares, alignments = _clipped(squares, alignments)
    chosen, first = found.sizes > 0, 0.0
    if method == "alignment":
        rising = chosen & (found.target > 0)  # because f f^T is also the kernel of -f
        v = np.zeros(len(chosen))
        v[rising], first = nonnegative_minimum(squares[np.ix_(rising, rising)], alignments[rising])
        chosen = _largest(v, n_members)
    elif method == "r2":
        chosen = np.arange(len(chosen)) == np.argmax(found.target)
    scaled = np.zeros(len(chosen))
    scaled[chosen], second = nonnegative_minimum(cross[np.ix_(chosen, chosen)], correlations[chosen])
    if n_members is not None and (scaled > 0).sum() > n_members:
        chosen = _largest(scaled, n_members)
        scaled = np.zeros(len(chosen))
        scaled[chosen], second = nonnegative_minimum(cross[np.ix_(chosen, chosen)], correlations[chosen])
    weights = scaled * found.target_size / np.where(found.sizes > 0, found.sizes, 1.0)
    return chosen, weights, max(first, second)


def _largest(v: np.ndarray, n: int | None) -> np.ndarray:
    """Which entries are positive, and among the n largest."""
    if n is None or n >= len(v):
        return v > 0
    chosen = np.zeros(len(v), dtype=bool)
    chosen[np.argsort(-v, kind="stable")[:n]] = True
    return chosen & (v > 0)


def products(given: MemberOutputs) -> Products:
    """All that the choice depends on, in O(n p^2 c^2)."""
    seen, both = given.seen, _rows_of_pairs(given)
    counts = np.maximum(seen.sum(axis=0), 1)
    Y = given.target[seen.any(axis=1)]
    Y_largest = np.abs(Y).max()
    target_mean = Y.mean(axis=0)
    target_size = _root_mean_square(Y - target_mean)
    if not target_size > CONSTANT * Y_largest:
        raise ValueError("The target is the same in every row: there is nothing to predict.")
    Y = (given.target - target_mean) / target_size
    F, means, sizes = _standardised(given, counts)

    with_target = np.tensordot(F, Y, axes=(0, 0)) / counts[:, None, None]  # (p, c, c)
    own = _target_moments(Y, seen, counts)
    varies = np.trace(own, axis1=1, axis2=2) > CONSTANT  # a member's rows may all be of one class
    spreads = np.sqrt(np.where(varies, np.trace(own, axis1=1, axis2=2), np.inf))
    correlations = np.trace(with_target, axis1=1, axis2=2) / spreads
    cross, squares = _pairs(F, both)
    lengths = np.sqrt(np.where(sizes > 0, squares.diagonal(), 1.0))
    squares = squares / np.outer(lengths, lengths)
    norms = np.where(varies, np.linalg.norm(own, axis=(1, 2)), np.inf)
    alignments = np.square(with_target).sum(axis=(1, 2)) / lengths / norms
    rows = seen.sum(axis=0)
    return Products(cross, correlations, squares, alignments, means, sizes, rows, target_mean, target_size)


def _rows_of_pairs(given: MemberOutputs) -> np.ndarray:
    """How many rows each pair of members has in common, at least one; 1 for a member without rows."""
    both, known = given.seen.T @ given.seen, given.seen.max(axis=0) > 0
    if not known.any():
        raise TooFewRowsError(
            "No member has a row that it was not trained on: there is nothing to judge members by."
        )
    apart = np.argwhere((both == 0) & np.outer(known, known))
    if len(apart):
        k, other = (given.name(int(place)) for place in apart[0])
        raise TooFewRowsError(
            f"No row is unseen by both members {k} and {other}: give more rows, or held-out rows with "
            'predictions="given".'
        )
    return np.maximum(both, 1)


def _root_mean_square(Y: np.ndarray) -> float:
    largest = np.abs(Y).max()
    return float(largest * np.sqrt(np.square(Y / largest).sum(axis=1).mean())) if largest > 0 else 0.0


def _standardised(given: MemberOutputs, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions with mean 0 and mean square 1 in the rows that each member has, 0 elsewhere; means and sizes."""
    F = given.filled
    largest = np.abs(F).max(axis=(0, 2))
    scale = np.where(largest > 0, largest, 1.0)  # because squares of large numbers overflow
    F /= scale[:, None]
    means = F.sum(axis=0) / counts[:, None]
    F -= means
    F *= given.seen[:, :, None]
    sizes = np.sqrt(np.square(F).sum(axis=(0, 2)) / counts)
    sizes = np.where(sizes > CONSTANT, sizes, 0.0)
    F *= np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)[:, None]
    return F, means * scale[:, None], sizes * scale


def _target_moments(Y: np.ndarray, seen: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Second moments of the target in the rows that each member has, centred there."""
    c = Y.shape[1]
    means = seen.T @ Y / counts[:, None]
    second = seen.T @ (Y[:, :, None] * Y[:, None, :]).reshape(len(Y), c * c) / counts[:, None]
    return second.reshape(-1, c, c) - means[:, :, None] * means[:, None, :]


def _pairs(F: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """<f_k, f_l> and |f_k^T f_l|_F^2 of all pairs, as means over the rows that both have."""
    n, p, c = F.shape
    columns = F.reshape(n, p * c)
    cross, squares = np.empty((p, p)), np.empty((p, p))
    step = max(1, BLOCK_BYTES // (8 * p * c * c))
    for start in range(0, p, step):
        part = slice(start, min(start + step, p))
        G = np.tensordot(F[:, part], columns, axes=(0, 0)).reshape(-1, c, p, c)
        G = G / both[part][:, None, :, None]
        cross[part] = np.einsum("kclc->kl", G)
        squares[part] = np.square(G).sum(axis=(1, 3))
    return (cross + cross.T) / 2, (squares + squares.T) / 2


def _clipped(M: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest positive semi-definite matrix, and the part of a in its range."""
    values, vectors = np.linalg.eigh(M)
    Q = vectors[:, values > CUT * values[-1]]
    return (Q * values[values > CUT * values[-1]]) @ Q.T, Q @ (Q.T @ a)


def _reasons(
    given: MemberOutputs, found: Products, chosen: np.ndarray, kept: np.ndarray, method: str
) -> list[str]:
    """Why each member was kept or dropped, in words."""
    places = np.flatnonzero(kept)
    nearest = places[np.argmax(found.cross[:, kept], axis=1)]
    reasons = []
    for k, place in enumerate(nearest):
        other = given.name(int(place))
        if kept[k]:
            reasons.append("kept" if method != "r2" else "kept: explains most alone")
        elif not found.counts[k] > 0:
            reasons.append("no row to judge it by")
        elif not found.sizes[k] > 0:
            reasons.append("constant")
        elif found.target[k] <= 0:
            reasons.append("does not rise with the target")
        elif method in ("r2", "best"):
            reasons.append(f"explains less alone than {other}")
        elif method == "first":
            reasons.append("comes after the first")
        else:
            second = method == "alignment" and chosen[k]
            step = "redundant in the second step" if second else "redundant"
            reasons.append(f"{step}: correlates {found.cross[k, place]:.2f} with {other}")
    return reasons
