"""Weights of members between least squares and equal, how strongly by rows left out, and how many members.

    min over w >= 0 of  w^T M w - 2 a^T w + lam tr(M) / p  sum_k (w_k - mean w)^2
    M_kl = mean <f_k, f_l>,   a_k = mean <f_k, Y>,   all centred

lam = 0 is stacking [wolpert], which overfits where members are many and alike, as the trees of a forest are. A large
lam gives equal weights whose common scale is fitted: what biased members need, such as the votes of AdaBoost. lam =
inf is the plain mean of the members, without anything fitted: what a forest predicts. Members come in an order, and
the first k of it are kept: "forward" adds the member that most raises (sum_S a_k)^2 / sum_SS M_kl, the squared
correlation of the sum with the target; "best" goes by the correlation of each alone; "first" takes them as they come.

lam and k are chosen by the squared error of five folds, on products over the rows that both members of a pair have:
the smallest k from which on the error stays within a percent of the least.

Cost O(n p^2 c) a fold, then about fifty non-negative least-squares problems of p variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from krepes.alignment.pruning.ensemble_members import MemberOutputs
from krepes.alignment.similarity.nonnegative_minimum import nonnegative_minimum

ORDERS = ("forward", "best", "first")
STRENGTHS = (0.0, 0.1, 1.0, 10.0, 1e4, np.inf)
SIZES = (1, 2, 3, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500)
FREE = 0.01  # more error than the least, relative, that a smaller ensemble may cost
EQUAL = (1e4, np.inf)  # equal weights, with or without a fitted scale
CUT = 1e-10


@dataclass(frozen=True)
class CentredMoments:
    """Means of products over the rows that both members of a pair have; predictions and target divided by `scale`."""

    M: np.ndarray  # (p, p)
    a: np.ndarray  # (p,)
    means: np.ndarray  # (p, c)
    target_mean: np.ndarray  # (c,)
    variance: float

    @classmethod
    def of(
        cls, F: np.ndarray, Y: np.ndarray, seen: np.ndarray, centre: CentredMoments | None = None
    ) -> CentredMoments:
        """Of these rows; centred as `centre` is, so that its weights can be judged by them."""
        counts = np.maximum(seen.sum(axis=0), 1.0)
        F = np.where(seen[:, :, None] > 0, F, 0.0)
        means = F.sum(axis=0) / counts[:, None] if centre is None else centre.means
        target_mean = Y.mean(axis=0) if centre is None else centre.target_mean
        E, T = (F - means) * seen[:, :, None], Y - target_mean
        M = sum(E[:, :, j].T @ E[:, :, j] for j in range(F.shape[2])) / np.maximum(seen.T @ seen, 1.0)
        a = np.einsum("nkc,nc->k", E, T) / counts
        if centre is None:
            values, vectors = np.linalg.eigh((M + M.T) / 2)  # means over pairs need not be positive
            M = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return cls(M, a, means, target_mean, float(np.square(T).sum(axis=1).mean()))

    def error(self, members: np.ndarray, weights: np.ndarray, shift: np.ndarray | float = 0.0) -> float:
        """Mean squared error of shift + sum_k w_k (f_k - mean_k) as a prediction of Y - its mean."""
        M = self.M[np.ix_(members, members)]
        return float(
            self.variance - 2 * self.a[members] @ weights + weights @ M @ weights + np.square(shift).sum()
        )


def in_order(moments: CentredMoments, order: str, most: int) -> np.ndarray:
    """Members that rise with the target, the first to keep first; at most `most`."""
    rising = moments.a > 0
    spread = np.sqrt(np.maximum(moments.M.diagonal(), np.finfo(float).tiny))
    if order == "first":
        return np.flatnonzero(rising)[:most]
    if order == "best":
        by_correlation = np.argsort(-moments.a / spread, kind="stable")
        return by_correlation[rising[by_correlation]][:most]
    chosen: list[int] = []
    total, square, row = 0.0, 0.0, np.zeros(len(rising))
    for _ in range(min(most, int(rising.sum()))):
        gain = np.square(total + moments.a) / np.maximum(square + 2 * row + moments.M.diagonal(), 1e-300)
        k = int(np.argmax(np.where(rising, gain, -np.inf)))
        total, square, row = total + moments.a[k], square + 2 * row[k] + moments.M[k, k], row + moments.M[k]
        rising[k] = False
        chosen.append(k)
    return np.array(chosen, dtype=np.int64)


def penalised_weights(
    M: np.ndarray, a: np.ndarray, strength: float, exact: bool = False
) -> tuple[np.ndarray, float]:
    """The minimiser, and the violation of its optimality conditions (0 where it is not asked for, or a mean)."""
    p = len(a)
    if np.isinf(strength):
        return np.full(p, 1 / p), 0.0
    Q = M + strength * np.trace(M) / p * (np.eye(p) - 1 / p)
    size = np.sqrt(np.maximum(Q.diagonal(), np.finfo(float).tiny))
    Q, a = Q / np.outer(size, size), a / size
    if exact:
        found, violation = nonnegative_minimum(Q, a)
        return found / size, violation
    values, vectors = np.linalg.eigh(Q)
    kept = values > CUT * values[-1]
    roots = np.sqrt(values[kept])
    try:
        return nnls((vectors[:, kept] * roots).T, (vectors[:, kept].T @ a) / roots)[0] / size, 0.0
    except RuntimeError:  # it may not end where members are dependent
        return nonnegative_minimum(Q, a)[0] / size, 0.0


@dataclass(frozen=True)
class ShrunkChoice:
    """Members, weights and intercept; how they were found.

    Attributes
    ----------
    weights : (p,), zero where a member is dropped.
    intercept : (c,)
    strength : lam; inf for the plain mean.
    errors : {size: mean squared error on rows left out, relative to that of the mean of all members}.
    optimality : violation of the optimality conditions, relative.
    """

    weights: np.ndarray
    intercept: np.ndarray
    strength: float
    errors: dict[int, float]
    optimality: float


def shrunk_choice(
    given: MemberOutputs,
    order: str = "forward",
    n_members: int | None = None,
    strengths: tuple[float, ...] = STRENGTHS,
) -> ShrunkChoice:
    """Choose members and weights; `n_members` fixes how many."""
    F, seen, p = given.filled, given.seen, given.outputs.shape[1]
    scale = max(float(np.abs(F).max()), float(np.abs(given.target).max()))
    F, Y = F / scale, given.target / scale
    sizes = [min(n_members, p)] if n_members else [k for k in SIZES if k < p] + [p]
    errors = np.zeros((len(sizes), len(strengths)))
    of_all = 0.0
    for rest, left in given.folds():
        known = CentredMoments.of(F[rest], Y[rest], seen[rest])
        held = CentredMoments.of(F[left], Y[left], seen[left], known)
        ordered = in_order(known, order, sizes[-1])
        everyone = np.arange(p)
        of_all += held.error(everyone, np.full(p, 1 / p), known.means.mean(axis=0) - known.target_mean)
        for i, size in enumerate(sizes):
            members = ordered[:size]
            if not len(members):
                errors[i] += held.variance
                continue
            M, a = known.M[np.ix_(members, members)], known.a[members]
            for j, strength in enumerate(strengths):
                weights, _ = penalised_weights(M, a, strength)
                shift = known.means[members].mean(axis=0) - known.target_mean if np.isinf(strength) else 0.0
                errors[i, j] += held.error(members, weights, shift)
    least = errors.min(axis=1)
    # The error of few members is known badly out of bag, where pairs have few rows: no larger size may be worse either.
    worst = np.maximum.accumulate(least[::-1])[::-1]
    i = int(np.flatnonzero(worst <= worst.min() + FREE * abs(worst.min()))[0])
    strength = strengths[int(np.argmin(errors[i]))]
    whole = CentredMoments.of(F, Y, seen)
    members = in_order(whole, order, sizes[i])
    found, optimality = np.zeros(0), 0.0
    if len(members):
        found, optimality = penalised_weights(
            whole.M[np.ix_(members, members)], whole.a[members], strength, exact=True
        )
    weights = np.zeros(p)
    weights[members] = found
    intercept = np.zeros(Y.shape[1])
    if not np.isinf(strength):
        intercept = (whole.target_mean - weights @ whole.means) * scale
    relative = {size: float(error / max(of_all, np.finfo(float).tiny)) for size, error in zip(sizes, least)}
    return ShrunkChoice(weights, intercept, strength, relative, optimality)
