"""H-score: how far apart the class means lie, measured by the covariance of the features.

    H = tr(cov(f)^-1 B) = sum_k l_k / (1 + l_k),     l = eigenvalues of W^-1 B,   cov(f) = B + W              [bao]
    H = tr(S_a^-1 (1 - a) B),                        S_a = (1 - a) cov(f) + a tr(cov(f)) / d I            [ibrahim]

with B = cov(E[f | y]) between the classes and W within them. The first is at most the number of classes - 1, and is
that for any features, noise too, as soon as d >= n. The second takes a from [ledoit]; a tends to 1 where cov(f) is
near a multiple of the identity, and the score to 0 whatever the class means are, on any number of rows.

The default differs from [ibrahim]: W alone is shrunk, so that B + W is still a decomposition, and what chance adds
to the eigenvalues is taken off,

    H = sum_k (l_k - c) / (1 + max(l_k - c, 0)),     l = eigenvalues of W_a^-1 B,   W_a = (1 - a) W + a tr(W) / d I
    c = (K - 1) / (n min(d, K - 1)) E,               E = (1 - a)^-1 f / (1 - f / v),   f = tr((1 - a) W W_a^-1)

where W has v = n - K degrees of freedom, a is that of [oas], which needs no fourth moments, and E estimates
tr(W_a^-1 cov(f | y)) as generalised cross-validation does. It is the first where n >> d, 0 for noise of any width, and
between 0 and K - 1 always. The shrinkage sees the scale of columns relative to one another (not their common scale,
and no rotation): columns in different units are to be standardised before.

Cost O(d^3) after the moments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from krepes.alignment.inputs import labelled
from krepes.alignment.similarity.augmented_grams import AugmentedGrams
from krepes.base.validation import check_choice


def h_score(features: Any, y: Any, *, shrink: bool | str = True) -> float:
    """The H-score of features (n, d) for labels y (n,): larger is better.

    Parameters
    ----------
    shrink : True, False or "total", default=True
        True shrinks the covariance within classes and corrects for chance. "total" is the regularised score of
        [ibrahim], False that of [bao], with the pseudo-inverse where the covariance is singular.

    Returns
    -------
    float
        Between 0 and the number of classes - 1; 0 for constant features; NaN where no class has two rows.

    Examples
    --------
    Two classes at -1 and 1, with a deviation of 1 around them: the means hold half of the variance.

    >>> F, y = np.array([-2.0, 0.0, 0.0, 2.0]), [0, 0, 1, 1]
    >>> h_score(F, y, shrink=False)
    0.5

    Two degrees of freedom are left within: W = 4 / 2 and l = 1 / 2, of which chance has c = (1 / 4) 2 = 1 / 2.

    >>> round(h_score(F, y), 12)
    0.0
    """
    F, codes, n_classes = labelled(features, y)
    size = np.abs(F).max()  # the score does not see the scale
    moments = AugmentedGrams.by_class(F / size if size > 0 else F, codes, n_classes)
    grams = moments.seen_from(moments.means).grams
    return h_score_of(grams["xx"], grams["cx"], shrink=shrink)


def h_score_of(
    gram: np.ndarray,
    sums: np.ndarray,
    spectrum: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    shrink: bool | str = True,
) -> float:
    """The H-score from `AugmentedGrams` at the mean; 0 for features that are constant.

    Parameters
    ----------
    spectrum : eigenvalues and eigenvectors of gram[:-2, :-2], where they are known; not for shrink=True.
    """
    check_choice("shrink", shrink, (True, False, "total"))
    if shrink is True:
        return _shrunk_within(gram, sums)
    n, d = gram[-1, -1], len(gram) - 2
    values, V = np.linalg.eigh(gram[:-2, :-2]) if spectrum is None else spectrum
    values = np.clip(values, 0.0, None) / n
    if not values[-1] > 0:
        return 0.0
    between = ((sums[:, :-2] @ V) ** 2 / sums[:, -1:]).sum(axis=0) / n  # B in the eigenvectors
    if not shrink:
        kept = values > d * np.finfo(float).eps * values[-1]
        return float((between[kept] / values[kept]).sum())
    a = shrinkage(values, gram[-2, -2], int(n))
    # Differs from [ibrahim]'s code, where cov(E[f | y]) alone is divided by n - 1: both are divided by n.
    return float(((1 - a) * between / ((1 - a) * values + a * values.mean())).sum())


def _shrunk_within(gram: np.ndarray, sums: np.ndarray) -> float:
    """The default score: W shrunk, chance taken off."""
    n, d, K = gram[-1, -1], len(gram) - 2, len(sums)
    degrees, total = n - K, np.trace(gram[:-2, :-2])
    if not degrees > 0:
        return float("nan")
    if not total > 0:
        return 0.0
    means = sums[:, :-2] / np.sqrt(sums[:, -1:])  # (K, d), means^T means = n B
    W = (gram[:-2, :-2] - means.T @ means) / degrees
    # Features that are functions of the class leave rounding errors of W.
    rounding = 4 * d * np.finfo(float).eps * total / degrees
    a = within_shrinkage(W, degrees)
    ridge = max(a * max(np.trace(W) / d, rounding), rounding)  # because W may be singular
    W *= 1 - a
    W.flat[:: d + 1] += ridge
    root = solve_triangular(np.linalg.cholesky(W), np.eye(d), lower=True)  # W_a^-1 = root^T root
    ratios = np.linalg.svd(root @ means.T / np.sqrt(n), compute_uv=False)[: min(d, K - 1)] ** 2
    trace = np.square(root).sum()
    freedom = d - ridge * trace  # f
    # E; for a = 1, f / (1 - a) is tr(W) / mean = d
    left = max(1 - freedom / degrees, 1e-12)
    expected = freedom / (1 - a) / left if freedom > 1e-9 * d else float(d)
    excess = ratios - (K - 1) / (n * min(d, K - 1)) * expected
    return float(max((excess / (1 + np.maximum(excess, 0.0))).sum(), 0.0))


def within_shrinkage(W: np.ndarray, degrees: float) -> float:
    """a of [oas, Eq. 23], from a covariance (d, d) with degrees of freedom in place of rows."""
    d, total, trace = len(W), float(np.square(W).sum()), float(np.trace(W))
    spread = total - trace**2 / d  # |W - m I|^2
    if d == 1 or not spread > 1e-14 * total:
        return 0.0 if d == 1 else 1.0
    return float(np.clip(((1 - 2 / d) * total + trace**2) / ((degrees + 1 - 2 / d) * spread), 0.0, 1.0))


def shrinkage(values: np.ndarray, fourth: float, n: int) -> float:
    """a of [ledoit], from the eigenvalues (d,) of a covariance over n rows and the sum of |x - mean|^4."""
    d, total = len(values), np.square(values).sum()
    spread = total - values.sum() ** 2 / d  # |S - m I|^2
    error = (fourth / n - total) / n  # of S, the mean of |x x^T - S|^2 / n
    return float(np.clip(error / spread, 0.0, 1.0)) if spread > 0 else 0.0
