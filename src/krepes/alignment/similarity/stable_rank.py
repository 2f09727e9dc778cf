"""The stable rank: how many directions carry a representation.

    srank(X) = |X|_F^2 / |X|_2^2 <= rank(X)                                            [tang, Eq. 2.4]

of centred columns. Unlike the rank it does not see directions of noise. Cost O(n d min(n, d)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from krepes.alignment.similarity.augmented_grams import origin_of
from krepes.base.validation import as_flat_matrix


def stable_rank(X: Any, center: bool = True) -> float:
    """Sum of the squared singular values over the largest.

    Parameters
    ----------
    X : array or tensor of shape (n, d)
    center : bool, default=True
        Subtract the columns' means first; without it one direction, that of the mean, often hides the others.

    Examples
    --------
    Squared singular values 9, 9 and 4.5:

    >>> round(stable_rank(np.diag([3.0, 3.0, 4.5**0.5]), center=False), 10)
    2.5
    """
    X = as_flat_matrix(X).astype(np.float64)
    X = X - origin_of(X) if center else X
    largest = np.abs(X).max()
    if not largest > 0:
        raise ValueError("All rows of X are the same: it has no directions to count.")
    X = X / largest  # because squares of 1e200 overflow
    gram = X.T @ X if X.shape[1] <= X.shape[0] else X @ X.T
    return float(np.trace(gram) / np.linalg.eigvalsh(gram)[-1])
