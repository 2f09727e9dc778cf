"""H-score: how far apart the class means lie, measured by the covariance of the features.

    H = tr(cov(f)^-1 cov(E[f | y]))                                                                           [bao]
    H = tr(S_a^-1 (1 - a) cov(E[f | y])),    S_a = (1 - a) cov(f) + a tr(cov(f)) / d I                    [ibrahim]

The first is at most the number of classes - 1, and is that for any features, noise too, as soon as d >= n. The
second, the default, shrinks the covariance by the a of [ledoit], which needs sum |x|^4 besides second moments.

Cost O(d^3) after the moments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.alignment.class_moments import ClassMoments
from krepes.alignment.inputs import as_matrix, check_same_rows, class_codes


def h_score(features: Any, y: Any, *, shrink: bool = True) -> float:
    """The H-score of features (n, d) for labels y (n,): larger is better.

    Parameters
    ----------
    shrink : bool, default=True
        False is the published score, with the pseudo-inverse where the covariance is singular.

    Examples
    --------
    Two classes at -1 and 1, with a deviation of 1 around them: the means hold half of the variance.

    >>> h_score(np.array([-2.0, 0.0, 0.0, 2.0]), [0, 0, 1, 1], shrink=False)
    0.5
    """
    F = as_matrix(features, "features")
    classes, codes = class_codes(y)
    check_same_rows(len(codes), len(F), "y", "features")
    moments = ClassMoments(len(classes)).update(F, codes)
    return h_score_of(*moments.seen_from(moments.mean), shrink=shrink)


def h_score_of(
    gram: np.ndarray,
    sums: np.ndarray,
    spectrum: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    shrink: bool = True,
) -> float:
    """The H-score from `ClassMoments.seen_from(mean)`; NaN for features that are constant.

    Parameters
    ----------
    spectrum : eigenvalues and eigenvectors of gram[:-2, :-2], where they are known.
    """
    n, d = gram[-1, -1], len(gram) - 2
    values, V = np.linalg.eigh(gram[:-2, :-2]) if spectrum is None else spectrum
    values = np.clip(values, 0.0, None) / n
    if not values[-1] > 0:
        return float("nan")
    between = ((sums[:, :-2] @ V) ** 2 / sums[:, -1:]).sum(axis=0) / n  # cov(E[f | y]) in the eigenvectors
    if not shrink:
        kept = values > d * np.finfo(float).eps * values[-1]
        return float((between[kept] / values[kept]).sum())
    a = shrinkage(values, gram[-2, -2], int(n))
    # Differs from [ibrahim]'s code, where cov(E[f | y]) alone is divided by n - 1: both are divided by n.
    return float(((1 - a) * between / ((1 - a) * values + a * values.mean())).sum())


def shrinkage(values: np.ndarray, fourth: float, n: int) -> float:
    """a of [ledoit], from the eigenvalues (d,) of a covariance over n rows and the sum of |x - mean|^4."""
    d, total = len(values), np.square(values).sum()
    spread = total - values.sum() ** 2 / d  # |S - m I|^2
    error = (fourth / n - total) / n  # of S, the mean of |x x^T - S|^2 / n
    return float(np.clip(error / spread, 0.0, 1.0)) if spread > 0 else 0.0
