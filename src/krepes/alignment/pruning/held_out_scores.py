"""What pruning costs: scores of the kept members and of all members on held-out rows, and signs that they mislead.

    score     of predictions for each fifth of the rows by members chosen and weighed on the other four
    R^2       1 - E / V,   V = mean |y_i - mean|^2,   E = sum_kl mean_i <e_ik, e_il>
              e_ik = a_k (y_i - centre) - w_k (f_k(x_i) - mean_k),   centre = intercept + sum_k w_k mean_k

with shares a_k that sum to one, so that sum_k e_ik is the residual of the whole sum. Out of bag, each mean over i is
of the rows that neither k nor l has seen, and E estimates the error of the whole sum: a sum over the few kept members
that have not seen a row is worse than what is kept. Accuracy has no such form: out of bag it is of those few,
scaled to the weight of all, and too low if few are kept.

Cost: five more choices.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, rankdata

from krepes.alignment.pruning.ensemble_members import MemberOutputs
from krepes.alignment.pruning.member_selection import Selection, TooFewRowsError, select_members
from krepes.base.reporting import warn

WORSE = 0.1  # more error than of all members, relative, that is worth a warning
ROUNDING = 1e-9
MANY = 30  # rows from which a mean tells something


class Sums:
    """Weighted sums of members, by row: a centre, and what each member adds.

    Attributes
    ----------
    centre : (n, c)
    added : (n, p, c), 0 where a member may not be used.
    shares : (n, p), how much of the sum is each member's; rows sum to one.
    target : (n, c)
    usable : (n, p), 1 where a member may be used, 0 elsewhere.
    """

    def __init__(self, given: MemberOutputs) -> None:
        self.outputs, self.target, self.usable = given.outputs, given.target, given.seen
        self.centre, self.added = np.zeros(self.target.shape), np.zeros(self.outputs.shape)
        self.shares = np.zeros(self.usable.shape)

    def set(
        self,
        rows: np.ndarray,
        weights: np.ndarray,  # (p,)
        centre: np.ndarray,  # (c,)
        means: np.ndarray,  # (p, c)
        shares: np.ndarray,  # (p,)
    ) -> None:
        """How these rows are predicted."""
        self.centre[rows], self.shares[rows] = centre, shares / shares.sum()
        added = weights[:, None] * (self.outputs[rows] - means)
        self.added[rows] = np.where(self.usable[rows][:, :, None] > 0, added, 0.0)

    def explained(self) -> float:
        """R^2 of the whole sums."""
        scale = np.abs(self.target).max()  # because squares of large numbers overflow
        residual = (self.target - self.centre) / scale
        if self.usable.all():
            error = np.square(residual - self.added.sum(axis=1) / scale).sum(axis=1).mean()
        else:
            parts = (self.shares * self.usable)[:, :, None] * residual[:, None] - self.added / scale
            columns = parts.transpose(0, 2, 1).reshape(-1, parts.shape[1])
            error = (columns.T @ columns / np.maximum(self.usable.T @ self.usable, 1)).sum()
        variance = np.square((self.target - self.target.mean(axis=0)) / scale).sum(axis=1).mean()
        return float(1 - error / variance)

    def accuracy(self) -> float:
        """The accuracy on the rows that at least one member with a share may be judged by."""
        share = (self.shares * self.usable).sum(axis=1)
        rows = share > 0
        scaled = self.added.sum(axis=1)[rows] / share[rows, None]
        predicted = np.argmax(self.centre[rows] + scaled, axis=1)
        return float((predicted == np.argmax(self.target[rows], axis=1)).mean()) if rows.any() else np.nan


def sums_of_all(given: MemberOutputs) -> Sums:
    """The mean of all members: what bagging and forests predict, and the vote if outputs are votes."""
    found, known = Sums(given), given.seen.max(axis=0)
    centre = given.target.mean(axis=0)
    found.set(np.arange(len(given)), known / known.sum(), centre, np.tile(centre, (len(known), 1)), known)
    return found


def sums_of_kept(given: MemberOutputs, method: str, n_members: int | None = None) -> Sums | None:
    """Predict each fifth of the rows by members chosen and weighed on the other rows; None if rows are too few."""
    found = Sums(given)
    for rest, left in given.folds():
        known = given[rest]
        counts, F = np.maximum(known.seen.sum(axis=0), 1), known.filled
        means = F.sum(axis=0) / counts[:, None]
        sizes = (np.abs(F - means) * known.seen[:, :, None]).mean(axis=2).sum(axis=0) / counts
        try:
            choice = select_members(known, method, n_members)
            weights, shares = choice.weights, choice.weights * sizes
            centre = choice.intercept + choice.weights @ means
        except TooFewRowsError:
            return None
        except ValueError:  # no member is worth keeping: the mean is
            weights, shares = np.zeros(len(counts)), np.ones(len(counts))
            centre = known.target.mean(axis=0)
        found.set(left, weights, centre, means, shares)
    return found


def judge(
    given: MemberOutputs,
    selection: Selection,
    method: str,
    whole: float | None,
    n_members: int | None = None,
) -> tuple[float, float]:
    """R^2 or accuracy of the kept members and of all members; warns of signs that the rows mislead.

    Parameters
    ----------
    whole : the score of the ensemble itself; by default that of its members' mean or vote is found.
    """
    numbers, n, usable = given.target.shape[1] == 1, len(given), given.usable
    both = sums_of_kept(given, method, n_members), sums_of_all(given)
    explained = [np.nan if sums is None else sums.explained() for sums in both]
    scores = explained if numbers else [np.nan if sums is None else sums.accuracy() for sums in both]
    if whole is not None:
        scores = [scores[0], whole]
    # Out of bag the accuracy of few members is too low to be compared.
    kept, of_all = scores if usable is None else explained
    shares = not numbers and usable is None  # of errors; otherwise shares of a variance
    noise = 2 * np.sqrt((1 - of_all) / n) if shares else 2 * (1 - of_all) / np.sqrt(n)
    best = np.nan_to_num(selection.alone)
    rows = n if usable is None else int(usable[:, np.argmax(best)].sum())
    if is_chance(selection.alone, rows):
        warn(
            f"The best member explains {best.max():.1%} of the target, no more than noise: do not trust this choice."
        )
    elif usable is None and (repeats_target(given) or (numbers and 1 - of_all < 1e-9)):
        warn(
            "The members fit the rows perfectly, and were probably trained on them: give rows held out from training."
        )
    elif of_all - kept > max(WORSE * (1 - of_all), 0.005, noise):
        out_of_bag = "share of the classes' variance explained"
        what = "R²" if numbers else "accuracy" if usable is None else out_of_bag
        warn(
            f"The kept members predict worse than all, on rows left out: {what} {kept:.3f}, with all {of_all:.3f}."
        )
    return float(scores[0]), float(scores[1])


def accuracies_alone(given: MemberOutputs) -> np.ndarray:
    """For each member, the accuracy of an ensemble that keeps it alone, on the rows that it may be judged by."""
    found = np.full(given.outputs.shape[1], np.nan)
    for k in range(len(found)):
        rows = given.seen[:, k] > 0
        F, Y = given.outputs[rows, k], given.target[rows]
        if len(F):
            centred, mean = F - F.mean(axis=0), Y.mean(axis=0)
            slope = max(float((centred * (Y - mean)).sum()), 0.0) / max(
                float(np.square(centred).sum()), 1e-300
            )
            found[k] = (np.argmax(mean + slope * centred, axis=1) == np.argmax(Y, axis=1)).mean()
    return found


def repeats_target(given: MemberOutputs) -> bool:
    """Whether at least half of the members predict the target itself, as full trees do on their training rows."""
    apart = np.abs(given.outputs - given.target[:, None]).max(axis=(0, 2))
    return bool((apart <= ROUNDING * np.abs(given.target).max()).mean() >= 0.5)


def is_chance(alone: np.ndarray, n: int) -> bool:
    """Whether the best of p members explains no more than the best of p columns of noise in 99 of 100 draws."""
    # The squared correlation of noise with anything is Beta(1/2, (n - 2) / 2); it rises or falls with the target.
    return n > 2 and float(np.nanmax(alone)) < beta.ppf(0.99 ** (1 / len(alone)), 0.5, (n - 2) / 2)


def is_trained_on(given: MemberOutputs) -> bool:
    """Whether members fit the rows of their samples better than the others, as they do if these are their rows.

    Errors are ranked; the mean over rows of (mean rank of members that have not seen it - of those that have) must be
    two standard errors above zero. With fewer than 30 rows, or where all errors are equal, nothing can be said, and
    the answer is yes.
    """
    errors = np.abs(given.outputs - given.target[:, None]).sum(axis=2)
    errors = rankdata(errors).reshape(errors.shape)  # because one large error would hide the others
    usable = given.seen > 0
    left, seen = usable.sum(axis=1), (~usable).sum(axis=1)
    both = (left > 0) & (seen > 0)
    if both.sum() < MANY:
        return True
    unseen = (errors * usable).sum(axis=1)[both] / left[both]
    gaps = unseen - (errors * ~usable).sum(axis=1)[both] / seen[both]
    return bool(gaps.mean() >= 2 * gaps.std() / np.sqrt(len(gaps)))
