"""Accuracy of ridge regression on a model's features, for rows that it was fitted without.

    e_i = (y_i - yhat_i) / (1 - h_i),   right_i = [the left-out prediction is largest for the class of row i]

Columns are standardised, classes are regressed as indicators, and the penalty is the one with the smallest squared
left-out error. All n fits without a row come from one decomposition (`krepes.regression.ridge`), so that the score
costs no more than the others. It is a share of rows: it has a standard error, and two models that were judged by the
same rows are compared row by row.

Rows are kept for it: all up to 4000, and above that 4000 that the seed draws, or as many as fit into 256 MB. Features
that are more than the kept rows cost O(s^2 d) instead of O(s d^2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krepes.regression import LeaveOneOutRidge

MOST_ROWS, MOST_BYTES = 4000, 2**28
FEWEST_ROWS = 200  # however wide rows are


@dataclass(frozen=True, eq=False)
class KeptFeatures:
    """Features of some rows, with the rows' indices; they add up by standing side by side."""

    rows: np.ndarray  # (s,)
    values: np.ndarray  # (s, d)

    def __add__(self, other: KeptFeatures) -> KeptFeatures:
        rows, values = np.concatenate([self.rows, other.rows]), np.concatenate([self.values, other.values])
        return KeptFeatures(rows, values)


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Which of the kept rows are predicted right by a fit without them.

    Attributes
    ----------
    rows : array of shape (s,), sorted
    right : booleans of shape (s,)
    """

    rows: np.ndarray
    right: np.ndarray

    @property
    def accuracy(self) -> float:
        return float(self.right.mean())

    @property
    def error(self) -> float:
        """Standard error of the accuracy, with two more rows right and two wrong: it is never zero [agresti]."""
        s = len(self.right)
        share = (self.right.sum() + 2) / (s + 4)
        return float(np.sqrt(share * (1 - share) / (s + 4)))

    def level_with(self, other: LeftOutRows) -> bool:
        """Whether the accuracies on common rows differ by at most two standard errors of their difference.

        >>> one = LeftOutRows(np.arange(4), np.array([True, True, False, True]))
        >>> one.level_with(LeftOutRows(np.arange(4), np.array([True, False, False, True])))
        True
        """
        _, mine, others = np.intersect1d(self.rows, other.rows, assume_unique=True, return_indices=True)
        difference = self.right[mine].astype(float) - other.right[others]
        return bool(abs(difference.mean()) <= 2 * difference.std() / np.sqrt(max(len(difference) - 1, 1)))


def kept_rows(n: int, width: int, seed: int) -> np.ndarray:
    """Which of n rows are kept of features of this width; those of a wider model are among those of a narrower one.

    >>> len(kept_rows(100, 10, 0)), len(kept_rows(10_000, 10, 0)), len(kept_rows(10_000, 1_000_000, 0))
    (100, 4000, 200)
    """
    most = min(MOST_ROWS, max(MOST_BYTES // (4 * width), FEWEST_ROWS))
    return np.arange(n) if n <= most else np.random.default_rng(seed).permutation(n)[:most]


def left_out_rows(kept: KeptFeatures, codes: np.ndarray, n_classes: int) -> LeftOutRows:
    """Left-out predictions of the kept rows; `codes` are the classes of all rows.

    Examples
    --------
    >>> codes = np.arange(8) % 2
    >>> left_out_rows(KeptFeatures(np.arange(8), codes[:, None] + 0.0), codes, 2).accuracy
    1.0
    """
    order = np.argsort(kept.rows)
    rows, X = kept.rows[order], kept.values[order].astype(np.float64)
    own = codes[rows]
    unit = np.abs(X).max() or 1.0
    X = X / unit  # because squares of 1e200 overflow, and those of 1e-200 vanish
    X -= X.mean(axis=0)
    spread = X.std(axis=0)
    varies = spread > 1e-12
    if not varies.any() or len(rows) < 2:
        return LeftOutRows(rows, own == np.bincount(own, minlength=n_classes).argmax())
    ridge = LeaveOneOutRidge().fit(X[:, varies] / spread[varies], np.eye(n_classes)[own])
    return LeftOutRows(rows, ridge.loo_predictions_.argmax(axis=1) == own)
