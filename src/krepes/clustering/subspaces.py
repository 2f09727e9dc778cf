"""The subspace of every cluster: a mean, an orthonormal basis, and its dimension.

    X_c - mean = U diag(s) V^T,   dimension = number of s_i > w(b) median(s),   b = the smaller side / the larger

w(b) = 0.56 b^3 - 0.95 b^2 + 1.82 b + 1.43 is the threshold of [gavish]: it loses least where rows are a subspace plus
noise of one size in every direction. Rows whose rank is at most half of what it could be have no noise: their dimension
is the rank. A cluster that is no subspace has many dimensions, or a large `left_out`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from krepes.base.storage.codec import Bounds, Shape


@dataclass(frozen=True)
class Subspace:
    """An affine subspace.

    Attributes
    ----------
    mean : array of shape (d,)
    basis : array of shape (d, q)
        Orthonormal columns, the direction with most variance first.
    left_out : float
        The share of the cluster's variance that the subspace does not have.
    """

    mean: Annotated[np.ndarray, Shape("d")]
    basis: Annotated[np.ndarray, Shape("d", "q")]
    left_out: Annotated[float, Bounds(least=0, most=1)]

    @property
    def dimension(self) -> int:
        return self.basis.shape[1]


def subspace_of(X: np.ndarray) -> Subspace:
    """The subspace of some rows, (n, d).

    >>> line = subspace_of(np.array([[0.0, 1.0], [3.0, 5.0], [6.0, 9.0]]))
    >>> line.dimension, abs(line.basis[:, 0]).round(2).tolist()
    (1, [0.6, 0.8])
    """
    mean = X.mean(0)
    centred = X - mean
    size = np.abs(centred).max(initial=0.0)
    if not size > 0:
        return Subspace(mean, np.zeros((X.shape[1], 0)), 0.0)
    unit = np.ldexp(
        centred, -np.frexp(size)[1]
    )  # a power of two, because numpy 1 divides tiny numbers by infinity
    _, s, Vt = np.linalg.svd(unit, full_matrices=False)
    s = s[: len(X) - 1] if len(X) <= X.shape[1] else s  # the mean takes one of them
    sides = sorted((len(X) - 1, X.shape[1]))
    b, rank = sides[0] / sides[1], int((s > 1e-9 * s[0]).sum())
    threshold = (0.56 * b**3 - 0.95 * b**2 + 1.82 * b + 1.43) * np.median(s[:rank])
    q = rank if 2 * rank <= sides[0] else int((s > threshold).sum())
    share = (s[q:] ** 2).sum() / (s**2).sum()
    return Subspace(mean, np.ascontiguousarray(Vt[:q].T), float(share))


def subspaces_of(X: np.ndarray, labels: np.ndarray, n_clusters: int) -> list[Subspace]:
    """One for every cluster that has rows; a cluster without any is a point."""
    nothing = Subspace(np.zeros(X.shape[1]), np.zeros((X.shape[1], 0)), 0.0)
    parts = [X[labels == c] for c in range(n_clusters)]
    return [subspace_of(part) if len(part) else nothing for part in parts]
